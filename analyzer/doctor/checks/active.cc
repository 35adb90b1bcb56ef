// Each component alone, for a second or two: figures to compare between ranks and with the last time.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/check.h"

namespace ncclwatch::doctor {
namespace {

constexpr double kSecond = 1e9;
using analyzer::MonotonicNow;

double Since(std::int64_t start_ns) { return static_cast<double>(MonotonicNow() - start_ns) / kSecond; }

// Multiply-add on one core, of numbers that stay near one: the compiler cannot leave it out.
Result Compute(const Machine& /*machine*/) {
  constexpr double kFor_s = 0.5;
  constexpr int kRound = 1 << 20;
  volatile double sink = 0;
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    double a = 1.0001, b = 0.9999, c = 1.00001, d = 0.99999;
    std::int64_t rounds = 0;
    const std::int64_t start = MonotonicNow();
    while (Since(start) < kFor_s / 3) {
      for (int i = 0; i < kRound; ++i)
        a = a * 0.999 + 0.001, b = b * 0.999 + 0.001, c = c * 0.999 + 0.001, d = d * 0.999 + 0.001;
      ++rounds;
    }
    sink = a + b + c + d;
    best = std::max(best, 8.0 * kRound * static_cast<double>(rounds) / Since(start) / 1e9);
  }
  (void)sink;
  return Pass(fmt::format("{:.2f} Gflop/s on one core", best));
}

Result MemoryBandwidth(const Machine& /*machine*/) {
  const std::size_t size = 64u << 20;  // larger than caches
  std::vector<char> from(size, 1), to(size, 2);
  double best = 0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const std::int64_t start = MonotonicNow();
    std::memcpy(to.data(), from.data(), size);
    best = std::max(best, 2.0 * static_cast<double>(size) / Since(start) / 1e9);
    from[static_cast<std::size_t>(repeat)] = to[0];
  }
  return Pass(fmt::format("{:.1f} GB/s on one core, read and written", best));
}

// In the checkpoint's folder, else in TMPDIR.
Result Disk(const Machine& machine) {
  const std::string folder =
      machine.checkpoint.empty() ? machine.Variable("TMPDIR").value_or("/tmp") : machine.checkpoint;
  const std::string path = fmt::format("{}/.ncclwatch-doctor.{}.{}", folder, getpid(), machine.place().rank);
  const std::vector<char> block(4u << 20, 7);
  constexpr int kBlocks = 16;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Skip(folder + " cannot be written");
  unlink(path.c_str());
  const std::int64_t start = MonotonicNow();
  bool good = true;
  for (int i = 0; i < kBlocks && good; ++i)
    good = write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size());
  good = good && fsync(fd) == 0;
  const double seconds = Since(start);
  close(fd);
  if (!good)
    return Fail(folder, std::string("writing 64 MiB fails: ") + strerror(errno),
                "make room, or look at the file system's state");
  const double rate = kBlocks * static_cast<double>(block.size()) / seconds / 1e6;
  const std::string seen = fmt::format("{}: {:.0f} MB/s written and synced", folder, rate);
  if (rate < 20)
    return Warn(seen, "a checkpoint of 10 GB takes minutes",
                "look at who else writes there, at the mount and its stripes");
  return Pass(seen);
}

// How fast worker processes hand batches over: each sends a byte through a pipe for a batch that lies in shared memory.
Result DataLoader(const Machine& /*machine*/) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Skip("no pipe can be made");
  const std::int64_t start = MonotonicNow();
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char> batch(1u << 20);
    for (int i = 0; i < 256; ++i) {
      std::memset(batch.data(), i, batch.size());
      if (write(ends[1], batch.data(), 1) != 1) _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return Fail("fork()", std::string("a worker process cannot be started: ") + strerror(errno),
                "see `processes`, `overcommit` and `memory-limit`");
  }
  const double fork_ms = Since(start) * 1e3;
  int batches = 0;
  for (char byte; read(ends[0], &byte, 1) == 1;) ++batches;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0)
    return Fail(fmt::format("{} batches", batches), "the worker process was ended",
                "look at the kernel's log for who ended it");
  return Pass(fmt::format("a worker starts in {:.1f} ms and makes {:.0f} batches of 1 MiB a second", fork_ms,
                          batches / Since(start)));
}

constexpr Check kActiveChecks[] = {
    {"compute", "one core", kAnyPhase, Compute, true},
    {"memory", "memory bandwidth of one core", kAnyPhase, MemoryBandwidth, true},
    {"disk", "writing a file", kAnyPhase, Disk, true},
    {"data-loader", "a worker process", kAnyPhase, DataLoader, true},
};

}  // namespace

std::span<const Check> ActiveChecks() { return kActiveChecks; }

std::vector<Check> ChecksOfOneRank() {
  std::vector<Check> all;
  for (const std::span<const Check> some :
       {GpuChecks(), LibraryChecks(), VariableChecks(), NetworkChecks(), LimitChecks(), StorageChecks(), MemoryChecks(),
        ProcessorChecks(), KernelChecks(), ActiveChecks(), ManualChecks()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace ncclwatch::doctor
