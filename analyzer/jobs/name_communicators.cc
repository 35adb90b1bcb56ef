#include "analyzer/jobs/name_communicators.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <variant>
#include <vector>

#include "analyzer/files/descriptor.h"
#include "analyzer/jobs/observe.h"
#include "analyzer/stacks/precedence.h"
#include "analyzer/stacks/python/groups.h"
#include "core/reader/box.h"

namespace ncclwatch::analyzer {
namespace {

using reader::Communicator;
using stacks::python::ProcessGroup;

bool IsUnnamed(const Communicator& one) {
  return one.label.empty() && one.handle != 0 && (one.flags & format::kCommMpi) == 0 &&
         one.state == format::CommunicatorState::kReady;
}

// For messages between two members torch makes communicators of these two, which belong to the group too.
bool IsPairOf(const ProcessGroup& group, const Communicator& one) {
  return one.size == 2 && group.size > 2 && one.entered == 0;
}

bool Fits(const ProcessGroup& group, const Communicator& one) {
  if (IsPairOf(group, one)) return true;
  const bool rank_known = (one.flags & format::kCommRankUnknown) == 0;
  return group.size == one.size && rank_known && group.rank == static_cast<std::int32_t>(one.rank);
}

const ProcessGroup* GroupOf(const std::vector<ProcessGroup>& groups, const Communicator& one) {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const ProcessGroup& group) {
    return std::binary_search(group.handles.begin(), group.handles.end(), one.handle);
  });
  return found != groups.end() && !found->name.empty() && Fits(*found, one) ? &*found : nullptr;
}

class OpenBox {
 public:
  explicit OpenBox(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}

  // Empty, or why nothing may be written into it.
  std::string Trouble() const {
    struct stat status {};
    if (file_.get() < 0 || fstat(file_.get(), &status) != 0) return std::strerror(errno);
    return S_ISREG(status.st_mode) && status.st_uid == geteuid() ? "" : "it is another user's";
  }

  void Label(const Communicator& one, const std::string& name) const;

 private:
  bool Read(std::uint64_t offset, void* to, std::size_t bytes) const {
    return pread(file_.get(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }
  bool Write(std::uint64_t offset, const void* from, std::size_t bytes) const {
    return pwrite(file_.get(), from, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }
  bool IsStill(std::uint64_t entry, const Communicator& one) const {
    std::uint64_t id = 0;
    std::uint32_t generation = 0;
    return Read(entry + offsetof(format::Communicator, id), &id, sizeof id) && id == one.id &&
           Read(entry + offsetof(format::Communicator, generation), &generation, sizeof generation) &&
           generation == one.generation;
  }

  Descriptor file_;
};

// The process may give the entry to another communicator at any time, or label it itself: then its word counts.
void OpenBox::Label(const Communicator& one, const std::string& name) const {
  format::Section section{};
  if (!Read(offsetof(format::Header, communicators), &section, sizeof section) || one.index >= section.count) return;
  const std::uint64_t entry = section.offset + one.index * sizeof(format::Communicator);
  const std::uint64_t at = entry + offsetof(format::Communicator, label);
  std::array<char, format::kLabelBytes> label{};
  if (!IsStill(entry, one) || !Read(at, label.data(), label.size()) || label[0] != '\0') return;
  std::size_t bytes = std::min(name.size(), label.size() - 1);
  while (bytes < name.size() && bytes > 0 && (name[bytes] & 0xc0) == 0x80) --bytes;  // no half characters
  name.copy(label.data(), bytes);
  if (!Write(at, label.data(), label.size()) || IsStill(entry, one)) return;
  label = {};
  Write(at, label.data(), label.size());
}

}  // namespace

std::string NameCommunicators(const std::string& box) {
  const OpenBox file(box);
  if (const std::string trouble = file.Trouble(); !trouble.empty()) return box + ": " + trouble;
  const auto read = reader::ReadBox(box, 0);
  if (const auto* failure = std::get_if<reader::Failure>(&read)) return box + ": " + failure->reason;
  const auto& image = std::get<reader::BoxImage>(read);
  std::vector<std::uint64_t> handles;
  for (const Communicator& one : image.communicators)
    if (IsUnnamed(one)) handles.push_back(one.handle);
  if (handles.empty() || !IsHere(image) || !ProcessThere(image.pid, image.start_time)) return {};
  stacks::TakePrecedence();
  stacks::Memory memory(static_cast<int>(image.pid));
  stacks::Modules modules(&memory, nullptr);
  const std::vector<ProcessGroup> groups = stacks::python::ReadGroups(static_cast<int>(image.pid), &modules, handles);
  for (const Communicator& one : image.communicators)
    if (const ProcessGroup* const group = IsUnnamed(one) ? GroupOf(groups, one) : nullptr) file.Label(one, group->name);
  return {};
}

}  // namespace ncclwatch::analyzer
