#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/check.h"
#include "analyzer/files/output_file.h"

namespace ncclwatch::doctor {
namespace {

namespace fs = std::filesystem;
using analyzer::BytesText;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Result ShmSize(const Machine& machine) {
  const auto space = SpaceOf(machine.Below("/dev/shm"));
  if (!space)
    return Fail("no /dev/shm", "NCCL and PyTorch's data loaders share memory there", "mount a tmpfs at /dev/shm");
  const std::string seen = fmt::format("{} free of {}", BytesText(space->free), BytesText(space->total));
  const std::uint64_t of_rank = 64u << 20;  // NCCL's buffers between two GPUs of a host, and a batch of a data loader
  const std::uint64_t least = of_rank * static_cast<std::uint64_t>(machine.local_ranks());
  const char* const advice = "docker run --shm-size=16g (or --ipc=host); a Memory emptyDir at /dev/shm in Kubernetes";
  if (space->free < least / 4) return Fail(seen, "no room for the memory that ranks share", advice);
  if (space->total <= 64u << 20 || space->free < least)
    return Warn(seen, "little for the memory that ranks share: docker's own default is 64 MiB", advice);
  return Pass(seen);
}

Result TemporarySpace(const Machine& machine) {
  const std::string folder = machine.Variable("TMPDIR").value_or("/tmp");
  const auto space = SpaceOf(machine.Below(folder));
  if (!space) return Warn(folder, "there is no such folder", "set TMPDIR to a folder that is there");
  const std::string seen = fmt::format("{}: {} free", folder, BytesText(space->free));
  if (machine.is_this_one() && access(folder.c_str(), W_OK) != 0)
    return Warn(seen, "it cannot be written", "set TMPDIR to a folder that this user may write");
  if (space->free < kGiB / 4) return Warn(seen, "nearly full", "make room, or set TMPDIR elsewhere");
  return Pass(seen);
}

Result NoCheckpoint() { return Skip("no checkpoint folder is named (--checkpoint, CHECKPOINT_DIR)"); }

Result CheckpointWritable(const Machine& machine) {
  const std::string& folder = machine.checkpoint;
  if (folder.empty()) return NoCheckpoint();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return Fail(folder, "there is no such folder", "make it on the file system that all hosts share");
  const std::string probe = fmt::format("{}/.ncclwatch-doctor.{}.{}", folder, getpid(), machine.place().rank);
  const absl::Status written = analyzer::WriteFile(probe, "ncclwatch doctor\n");
  unlink(probe.c_str());
  if (!written.ok())
    return Fail(folder, fmt::format("a file cannot be written there: {}", std::string(written.message())),
                "look at owner, mode, quota and mount options");
  return Pass(folder);
}

Result CheckpointSpace(const Machine& machine) {
  if (machine.checkpoint.empty()) return NoCheckpoint();
  const auto space = SpaceOf(machine.checkpoint);
  if (!space)
    return Fail(machine.checkpoint, "there is no such folder", "make it on the file system that all hosts share");
  const std::string seen = fmt::format("{} free of {}", BytesText(space->free), BytesText(space->total));
  const MemoryBudget& budget = machine.budget;
  const auto needed =
      static_cast<std::uint64_t>(budget.parameters * (budget.bytes_of_parameter + budget.bytes_of_optimizer));
  const char* const advice = "remove old checkpoints, or write elsewhere";
  if (needed > 0 && space->free < needed)
    return Fail(seen, fmt::format("one checkpoint takes about {}", BytesText(needed)), advice);
  if (needed > 0 && space->free < 3 * needed)
    return Warn(seen,
                fmt::format("one checkpoint takes about {}: there is room for fewer than three", BytesText(needed)),
                advice);
  if (space->free < kGiB || static_cast<double>(space->free) < 0.02 * static_cast<double>(space->total))
    return Warn(seen, "nearly full", advice);
  return Pass(seen);
}

Result CheckpointAge(const Machine& machine) {
  if (machine.checkpoint.empty()) return NoCheckpoint();
  std::error_code error;
  fs::file_time_type newest{};
  std::string name;
  for (fs::directory_iterator entry(machine.checkpoint, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const fs::file_time_type at = entry->last_write_time(ignored);
    if (!ignored && (name.empty() || at > newest)) newest = at, name = entry->path().filename().string();
  }
  if (error) return Skip(machine.checkpoint + " cannot be read");
  if (name.empty()) return Pass("no checkpoint yet");
  const auto age = fs::file_time_type::clock::now() - newest;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  return Pass(fmt::format("{}, {} old", name, analyzer::AgeText(absl::Seconds(std::max<std::int64_t>(0, seconds)))));
}

constexpr Check kStorageChecks[] = {
    {"shm-size", "memory that ranks share, /dev/shm", kAnyPhase, ShmSize},
    {"temporary-space", "TMPDIR", kAnyPhase, TemporarySpace},
    {"checkpoint-writable", "whether checkpoints can be written", kAnyPhase, CheckpointWritable},
    {"checkpoint-space", "room for checkpoints", kAnyPhase, CheckpointSpace},
    {"checkpoint-age", "the newest checkpoint", kLongRun, CheckpointAge},
};

}  // namespace

std::span<const Check> StorageChecks() { return kStorageChecks; }

}  // namespace ncclwatch::doctor
