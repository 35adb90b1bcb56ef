#include "analyzer/jobs/gather.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/observe.h"
#include "core/reader/box.h"
#include "watchdog/act/dump.h"
#include "watchdog/act/program.h"
#include "watchdog/act/stacks.h"

namespace ncclwatch::analyzer {
namespace {

std::string ThisProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

// The thread that called NCCL last, 0 if none of its calls is left.
std::uint32_t ThreadOf(const std::string& box) {
  constexpr std::uint64_t kNewest = 16;
  const auto read = reader::ReadBox(box, kNewest);
  const auto* image = std::get_if<reader::BoxImage>(&read);
  return image && !image->calls.empty() ? image->calls.back().thread : 0;
}

template <typename Visit>
void VisitLiving(const descriptors::Directory& directory, Visit visit) {
  for (const std::string& path : BoxFiles(directory.path())) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!LockHeld(directory, name)) continue;
    if (const std::optional<reader::Glance> box = reader::GlanceAt(directory, name)) visit(path, *box);
  }
}

}  // namespace

std::vector<LivingProcess> LivingProcesses(const std::string& path, std::int64_t since_ns) {
  std::vector<LivingProcess> living;
  const descriptors::Directory directory = descriptors::Directory::Named(path);
  VisitLiving(directory, [&](const std::string&, const reader::Glance& box) {
    LivingProcess one;
    one.rank = box.rank;
    one.pid = box.pid;
    one.host = box.host;
    one.here = IsHere(box);
    one.stacks = reader::ReadProcessStacks(directory, box.pid);
    one.file = fmt::format("{}/{}.txt", directory.PathOf(reader::kStacksFolder), box.pid);
    if (one.stacks && (one.stacks->start_time != box.start_time || one.stacks->at_ns < since_ns)) one.stacks.reset();
    living.push_back(std::move(one));
  });
  std::stable_sort(living.begin(), living.end(),
                   [](const LivingProcess& a, const LivingProcess& b) { return a.rank < b.rank; });
  return living;
}

std::string GatherEvidence(const std::string& path) {
  // Into a directory that somebody else could change under our hands nothing is written.
  const descriptors::Directory directory = descriptors::Directory::Own(path);
  if (!directory) return "no leader lives, and this command writes nothing there: " + directory.reason();
  act::StacksRequest request;
  request.command = ThisProgram();
  request.directory = directory;
  request.environment = act::CopyEnvironment();
  act::Dump states;
  states.directory = directory;
  std::string missing;
  states.complain = [&missing](const std::string& line) { missing = line; };
  VisitLiving(directory, [&](const std::string& file, const reader::Glance& box) {
    if (!IsHere(box)) return;
    const auto pid = static_cast<std::int32_t>(box.pid);
    request.targets.push_back({pid, box.start_time, ThreadOf(file)});
    states.suspects.push_back({pid, box.rank, box.start_time});
  });
  if (request.targets.empty()) return "its processes live on another machine, or in another container";
  act::Save(states);
  const std::string no_stacks = act::TakeStacks(request);
  return no_stacks.empty() ? missing : no_stacks;
}

}  // namespace ncclwatch::analyzer
