// What a watched call costs: interleaved rounds of the bare call, the floor and the wrapped call, the best round of
// each.
//
//   bare     a call through the procedure linkage table of a function that does next to nothing
//   floor    the same with two stamps and a store of one 128-byte record into a ring in shared memory: less cannot be
//   wrapped  the same function through the library: both stamps, fingerprint, communicator, record
//   added    wrapped - bare; the ratio is added / floor
#include <fcntl.h>
#include <linux/perf_event.h>
#include <nccl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>

#include "tests/bench/call_cost_target.h"

namespace {

constexpr int kCalls = 20000;  // a round: about a millisecond, so that a good one is free of interruptions
constexpr int kDefaultRounds = 200;
constexpr int kPatience = 100;  // times as many rounds at most
constexpr useconds_t kPause_us = 200'000;

double Now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Instructions in user space of this thread, where the machine lets us count them.
class Instructions {
 public:
  Instructions() {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_HARDWARE;
    attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
  }
  bool available() const { return fd_ >= 0; }
  double Read() const {
    std::uint64_t count = 0;
    return available() && read(fd_, &count, sizeof count) == sizeof count ? static_cast<double>(count) : 0;
  }

 private:
  int fd_ = -1;
};

struct Series {
  const char* name;
  ncclResult_t (*call)(ncclComm_t);
  double best_ns = std::numeric_limits<double>::max();
  double instructions = std::numeric_limits<double>::max();
};

ncclResult_t Bare(ncclComm_t comm) {
  return BareAllReduce(nullptr, nullptr, 1024, ncclFloat32, ncclSum, comm, nullptr);
}
ncclResult_t Floor(ncclComm_t comm) {
  return FloorAllReduce(nullptr, nullptr, 1024, ncclFloat32, ncclSum, comm, nullptr);
}
ncclResult_t Wrapped(ncclComm_t comm) {
  return ncclAllReduce(nullptr, nullptr, 1024, ncclFloat32, ncclSum, comm, nullptr);
}

void Round(Series& series, ncclComm_t comm, const Instructions& instructions) {
  const double before = instructions.Read();
  const double from = Now_ns();
  for (int i = 0; i < kCalls; ++i) series.call(comm);
  const double ns = (Now_ns() - from) / kCalls;
  series.best_ns = std::min(series.best_ns, ns);
  series.instructions = std::min(series.instructions, (instructions.Read() - before) / kCalls);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : kDefaultRounds;
  const double limit = argc > 2 ? std::atof(argv[2]) : 0;  // of the ratio; 0: only print

  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess) return 2;
  const Instructions instructions;
  Series series[] = {{"bare", Bare}, {"floor", Floor}, {"wrapped", Wrapped}};
  const auto ratio = [&series] { return (series[2].best_ns - series[0].best_ns) / series[1].best_ns; };
  // Bests only come nearer to the truth: beyond a limit it is worth to go on while others may have the machine.
  for (int round = 0; round < rounds || (limit > 0 && ratio() > limit && round < kPatience * rounds); ++round) {
    if (round >= rounds && round % rounds == 0) usleep(kPause_us);
    for (Series& one : series) Round(one, comm, instructions);
  }

  for (const Series& one : series) {
    std::printf("%-8s %7.1f ns a call", one.name, one.best_ns);
    if (instructions.available()) std::printf("  %6.0f instructions", one.instructions);
    std::printf("\n");
  }
  std::printf("added    %7.1f ns a call, %.2f times the floor\n", series[2].best_ns - series[0].best_ns, ratio());
  if (!instructions.available()) std::printf("instructions are not counted on this machine\n");
  return limit > 0 && ratio() > limit ? 1 : 0;
}
