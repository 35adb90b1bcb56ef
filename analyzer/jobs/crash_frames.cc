#include "analyzer/jobs/crash_frames.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "analyzer/jobs/locate.h"
#include "analyzer/stacks/sample.h"
#include "core/reader/layout.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::analyzer {
namespace {

using format::FatalSignal;

bool AwaitsUnwinding(std::uint32_t flags) {
  return (flags & format::kSignalSampled) != 0 && (flags & format::kSignalUnwound) == 0;
}

class OpenFile {
 public:
  explicit OpenFile(int fd) : fd_(fd) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

bool ReadAt(int fd, std::uint64_t offset, void* to, std::size_t bytes) {
  return pread(fd, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}
bool WriteAt(int fd, std::uint64_t offset, const void* from, std::size_t bytes) {
  return pwrite(fd, from, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// A box that is open, as far as a crash needs it. Nothing in it is trusted.
struct CrashedBox {
  alignas(format::kPage) std::array<char, format::kPage> page{};
  reader::Layout layout;
  std::uint64_t size = 0;

  const format::Header& header() const { return *reinterpret_cast<const format::Header*>(page.data()); }
};

// Null: it cannot be read, or nothing lies behind it.
std::unique_ptr<CrashedBox> OpenCrash(int fd) {
  auto box = std::make_unique<CrashedBox>();
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  box->size = static_cast<std::uint64_t>(status.st_size);
  if (!ReadAt(fd, 0, box->page.data(), box->page.size())) return nullptr;
  if (!reader::CheckHeader(box->page.data(), box->page.size(), box->size).empty()) return nullptr;
  const format::Header& header = box->header();
  if (header.file_bytes < format::kPage || header.file_bytes >= box->size) return nullptr;
  if (!reader::CheckSections(box->page.data(), header.file_bytes, &box->layout).empty()) return nullptr;
  return box->layout.words ? std::move(box) : nullptr;
}

// Null, and why: there is no sample, or it is damaged.
std::unique_ptr<stacks::SampledProcess> ReadSample(int fd, const CrashedBox& box, std::string* reason) {
  format::SampleHeader header{};
  const std::uint64_t begin = box.header().file_bytes;
  if (!ReadAt(fd, begin, &header, sizeof header)) {
    *reason = "truncated";
    return nullptr;
  }
  const std::uint64_t bytes = std::min({header.bytes, box.size - begin, format::kMostSampleBytes});
  std::vector<std::byte> sample(bytes);
  if (!ReadAt(fd, begin, sample.data(), sample.size())) {
    *reason = "cannot be read";
    return nullptr;
  }
  return stacks::SampledProcess::Parse(std::move(sample), reason);
}

// Innermost first, in the terms of format::Frame. The first one is the thread's place.
std::vector<reader::Frame> FramesOf(stacks::SampledProcess* process) {
  std::vector<reader::Frame> frames;
  if (process->threads().empty()) return frames;
  for (const stacks::RawFrame& raw : process->Unwind(process->threads().front()).frames) {
    if (frames.size() == format::kFrames) break;
    const std::uint64_t place = raw.exact ? raw.pc : raw.pc - 1;
    const stacks::Module* const module = process->modules()->At(place);
    if (module && module->file)
      frames.push_back({raw.pc, place - module->bias, module->path});
    else
      frames.push_back({raw.pc, 0, {}});
  }
  return frames;
}

// The handler's own is exact wherever the files of the modules have gone.
void KeepPlace(const reader::Frame& place, std::vector<reader::Frame>* frames) {
  if (!frames->empty() && !place.module.empty()) frames->front() = place;
}

void AddTo(reader::BoxImage* box) {
  const auto sampled = std::find_if(box->words.signals.begin(), box->words.signals.end(),
                                    [](const auto& one) { return AwaitsUnwinding(one.flags); });
  if (sampled == box->words.signals.end()) return;
  const OpenFile file(open(box->path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const std::unique_ptr<CrashedBox> crashed = OpenCrash(file.fd());
  if (!crashed) return;
  std::string reason;
  const auto process = ReadSample(file.fd(), *crashed, &reason);
  if (!process) return;
  for (reader::FatalSignal& signal : box->words.signals) {
    if (!AwaitsUnwinding(signal.flags) || signal.at_ns != process->header().at_ns) continue;
    std::vector<reader::Frame> frames = FramesOf(process.get());
    if (!signal.frames.empty()) KeepPlace(signal.frames.front(), &frames);
    if (frames.empty()) return;
    signal.frames = std::move(frames);
    signal.flags |= format::kSignalUnwound;
  }
}

// The texts that a box gets for its frames, behind those that it has.
class Strings {
 public:
  explicit Strings(const CrashedBox& box)
      : section_(box.header().strings),
        used_(std::min(box.header().strings_used.load(std::memory_order_relaxed), section_.count)),
        first_(used_) {}

  // Its offset, 0 if there is no room.
  std::uint32_t Add(const std::string& text) {
    if (text.empty()) return 0;
    if (const auto known = known_.find(text); known != known_.end()) return known->second;
    if (text.size() + 1 > section_.count - used_ || used_ == 0) return 0;
    const std::uint32_t at = used_;
    added_.append(text.c_str(), text.size() + 1);
    used_ += static_cast<std::uint32_t>(text.size()) + 1;
    known_[text] = at;
    return at;
  }
  bool Write(int fd) const {
    return added_.empty() || (WriteAt(fd, section_.offset + first_, added_.data(), added_.size()) &&
                              WriteAt(fd, offsetof(format::Header, strings_used), &used_, sizeof used_));
  }

 private:
  const format::Section section_;
  std::uint32_t used_, first_;
  std::string added_;
  std::map<std::string, std::uint32_t> known_;
};

struct Entry {
  std::uint64_t offset = 0;  // in the file
  FatalSignal signal{};
};

// The one that the sample belongs to.
std::unique_ptr<Entry> FindEntry(int fd, const CrashedBox& box, std::int64_t at_ns) {
  auto entry = std::make_unique<Entry>();
  for (std::uint32_t i = 0; i < format::kFatalSignals; ++i) {
    entry->offset = box.header().words.offset + offsetof(format::Words, signals) + i * sizeof(FatalSignal);
    if (!ReadAt(fd, entry->offset, &entry->signal, sizeof(FatalSignal))) return nullptr;
    const FatalSignal& signal = entry->signal;
    if (signal.commit.load(std::memory_order_relaxed) != 0 && signal.at_ns == at_ns && AwaitsUnwinding(signal.flags))
      return entry;
  }
  return nullptr;
}

// Behind a commit word of 0, as the handler writes it: the leader may be looking.
bool WriteEntry(int fd, const Entry& entry) {
  const std::uint64_t zero = 0, commit = entry.signal.commit.load(std::memory_order_relaxed);
  constexpr std::size_t kCommit = sizeof commit;
  return WriteAt(fd, entry.offset, &zero, kCommit) &&
         WriteAt(fd, entry.offset + kCommit, reinterpret_cast<const char*>(&entry.signal) + kCommit,
                 sizeof(FatalSignal) - kCommit) &&
         WriteAt(fd, entry.offset, &commit, kCommit);
}

std::string Keep(int fd, const CrashedBox& box) {
  std::string reason;
  const auto process = ReadSample(fd, box, &reason);
  if (!process) return reason;
  const std::unique_ptr<Entry> entry = FindEntry(fd, box, process->header().at_ns);
  if (!entry) return "its sample belongs to no signal";
  std::vector<reader::Frame> frames = FramesOf(process.get());
  if (frames.empty()) return "it could not be unwound";
  Strings strings(box);
  FatalSignal& signal = entry->signal;
  for (std::size_t i = 0; i < frames.size(); ++i)
    if (i > 0 || signal.frame[0].module == 0)
      signal.frame[i] = {frames[i].address, frames[i].offset, strings.Add(frames[i].module), 0};
  signal.frames = static_cast<std::uint32_t>(frames.size());
  signal.flags |= format::kSignalUnwound;
  if (!strings.Write(fd) || !WriteEntry(fd, *entry)) return std::string("cannot be written: ") + std::strerror(errno);
  // What the sample took is free again, and what the stack held is gone.
  if (ftruncate(fd, static_cast<off_t>(box.header().file_bytes)) != 0) return std::strerror(errno);
  return {};
}

}  // namespace

void AddCrashFrames(reader::RunImage* run) {
  for (reader::BoxImage& box : run->boxes) AddTo(&box);
}

std::string KeepCrashFrames(const std::string& box) {
  const OpenFile file(open(box.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (file.fd() < 0 || fstat(file.fd(), &status) != 0) return box + ": " + std::strerror(errno);
  if (status.st_uid != geteuid()) return box + ": it is another user's";
  // One at a time: who comes later finds it done.
  if (flock(file.fd(), LOCK_EX) != 0) return box + ": " + std::strerror(errno);
  const std::unique_ptr<CrashedBox> crashed = OpenCrash(file.fd());
  if (!crashed) return {};
  const std::string reason = Keep(file.fd(), *crashed);
  return reason.empty() ? reason : box + ": " + reason;
}

void KeepAllCrashFrames(const std::string& directory) {
  if (!descriptors::Directory::Own(directory)) return;
  for (const std::string& box : BoxFiles(directory)) KeepCrashFrames(box);
}

}  // namespace ncclwatch::analyzer
