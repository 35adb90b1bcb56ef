// What it costs to follow the steps of a job while it runs: a record on the watchdog's thread, and a look of the hub.
// usage: steps_cost [RANKS...]     the looks are of jobs of so many ranks
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/nodes/steps_code.h"
#include "core/slow/find.h"
#include "core/steps/reported_steps.h"
#include "core/steps/step_follower.h"
#include "core/view/view.h"
#include "tests/unit/support/job_builder.h"
#include "watchdog/watch/node/node_steps.h"

namespace ncclwatch {
namespace {

using namespace diagnosis;

constexpr std::uint32_t kRing = 16384;
constexpr int kCalls = 10, kSteps = kRing / kCalls - 10;  // of a step, and that are in the ring
constexpr double kStep_s = 0.025;
constexpr int kRounds = 40;

// Of this thread, however busy the machine is.
double Seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// A rank whose ring is full.
class Rank {
 public:
  Rank() : job_(2) {
    for (int step = 0; step < kSteps; ++step)
      for (int call = 0; call < kCalls; ++call) {
        job_.At(1 + step * kStep_s + call * 0.0002);
        job_.Call({0}, testing::Job::kWorld, testing::AllReduce(static_cast<std::uint64_t>(1024 * (call + 1))));
      }
    job_.At(10 + kSteps * kStep_s);
    const std::vector<char> bytes = testing::BoxBytes(job_.Box(0), kRing);
    memory_ = static_cast<char*>(::operator new(bytes.size(), std::align_val_t(format::kPage)));
    std::copy(bytes.begin(), bytes.end(), memory_);
    box_ = reader::MappedBox::Borrow(reinterpret_cast<const format::Header*>(memory_), "box");
  }
  const reader::MappedBox& box() const { return *box_; }
  std::int64_t now_ns() const { return job_.now_ns(); }

 private:
  testing::Job job_;
  char* memory_ = nullptr;  // for as long as the program
  std::unique_ptr<reader::MappedBox> box_;
};

// Nanoseconds for each record that was made, the best of some rounds; and the share of them that was read.
void Follow(const Rank& rank, const char* what, std::int64_t apart_ns) {
  const std::optional<Loop> loop = FindLoop(rank.box(), 4096);
  if (!loop) std::abort();
  double best = 1e9;
  std::size_t read = 0, reported = 0, bytes = 0;
  for (int round = 0; round < kRounds; ++round) {
    StepFollower follower(rank.box(), apart_ns);
    follower.Follow(*loop);
    read = reported = bytes = 0;
    const double began = Seconds();
    while (const std::size_t some = follower.Poll(rank.now_ns(), 1000)) {
      read += some;
      std::vector<ReportedRank> now(1, follower.Take());
      reported += now[0].steps.size();
      for (const std::string& body : nodes::WriteSteps(now)) bytes += body.size();
    }
    best = std::min(best, Seconds() - began);
  }
  const double made = kSteps / 2 * kCalls;  // a new follower begins in the middle of the ring
  fmt::print("{:28} {:6.1f} ns a record, {:5.1f} ns of those read ({:.0f} %), {:.0f} bytes a step told\n", what,
             1e9 * best / made, 1e9 * best / static_cast<double>(read), 100 * static_cast<double>(read) / made,
             static_cast<double>(bytes) / static_cast<double>(std::max<std::size_t>(1, reported)));
}

void FindTheLoop(const Rank& rank) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double began = Seconds();
    if (!FindLoop(rank.box(), 4096)) std::abort();
    best = std::min(best, Seconds() - began);
  }
  fmt::print("{:28} {:6.1f} ms, once for a loop\n", "finding the loop", 1e3 * best);
}

double ResidentMiB() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

// A job of nodes of 8 ranks with a communicator of all and one of each node; one rank is late.
diagnosis::Snapshot SnapshotOf(int ranks) {
  diagnosis::Snapshot snapshot;
  for (int rank = 0; rank < ranks; ++rank) {
    reader::BoxImage& box = snapshot.boxes.emplace_back();
    box.from_summary = true;
    box.host = fmt::format("node{:04}", rank / 8);
    box.boot_id = fmt::format("{:08x}-1111-4222-8333-444444444444", rank / 8);
    box.rank = rank;
    box.world_size = ranks;
    box.local_rank = rank % 8;
    box.pid = 1000 + static_cast<std::uint32_t>(rank % 8);
    box.start_time = 1;
    box.state = format::ProcessState::kRunning;
    box.leader_state.job_minus_monotonic_ns = 1;
    for (std::uint32_t index = 0; index < 2; ++index) {
      reader::Communicator& comm = box.communicators.emplace_back();
      comm.index = index;
      comm.generation = 1;
      comm.id = index == 0 ? 1 : 1000 + static_cast<std::uint64_t>(rank / 8);
      comm.rank = static_cast<std::uint32_t>(index == 0 ? rank : rank % 8);
      comm.size = static_cast<std::uint32_t>(index == 0 ? ranks : 8);
      comm.state = format::CommunicatorState::kReady;
      comm.entered = 1'000'000;
    }
  }
  snapshot.boot_id = snapshot.boxes.front().boot_id;
  snapshot.now_ns = 1'000'000'000'000;
  return snapshot;
}

void Look(int ranks) {
  const diagnosis::Snapshot snapshot = SnapshotOf(ranks);
  const double before = ResidentMiB();
  ReportedSteps steps;
  const std::size_t kept = watch::StepsKept(ranks);
  steps.SetMost(kept);
  std::mt19937 random(1);
  double taking = 0;
  std::size_t bytes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<ReportedRank> reported(1);
    const reader::BoxImage& box = snapshot.boxes[static_cast<std::size_t>(rank)];
    reported[0].boot_id = box.boot_id;
    reported[0].pid = box.pid;
    reported[0].start_time = box.start_time;
    for (std::uint32_t index = 0; index < 2; ++index)
      reported[0].kinds.push_back({{index, 1, -1, false}, functions::Function::ncclAllReduce, 1u << 20, 1, 1});
    for (std::size_t step = 0; step < kept; ++step) {
      const auto late = static_cast<std::uint32_t>(random() % 20'000 + (rank == ranks / 2 ? 100'000 : 0));
      ReportedStep& one = reported[0].steps.emplace_back();
      one.number = step;
      one.began_ns = static_cast<std::int64_t>(1'000'000'000 * (step + 1));
      one.duration_ns = 200'000'000;
      for (std::uint16_t kind = 0; kind < 2; ++kind)
        one.arrivals.push_back({.position = step, .entered = 1'000'000 + late, .inside = 0, .kernel = 0, .kind = kind});
    }
    const std::vector<std::string> bodies = nodes::WriteSteps(reported);
    const double began = Seconds();
    for (const std::string& body : bodies) {
      bytes += body.size();
      std::optional<std::vector<ReportedRank>> read = nodes::ReadSteps(body);
      for (ReportedRank& one : *read) steps.Take(std::move(one));
    }
    taking += Seconds() - began;
  }
  const double memory = ResidentMiB() - before;
  const double began = Seconds();
  const View view = MakeView(snapshot);
  const double viewed = Seconds();
  const StepTable table = steps.Table(view);
  const double joined = Seconds();
  const std::vector<Finding> findings = FindSlowSteps(view, table, {});
  const double found = Seconds();
  if (findings.size() != 1 || findings[0].culprits != std::vector{ranks / 2}) std::abort();
  fmt::print(
      "{:5} ranks, {:3} steps of each: a look {:6.1f} ms (view {:.1f}, join {:.1f}, judge {:.1f}), {:.0f} MiB; {:.0f} "
      "ns to "
      "take in a step\n",
      ranks, kept, 1e3 * (found - began), 1e3 * (viewed - began), 1e3 * (joined - viewed), 1e3 * (found - joined),
      memory, 1e9 * taking / (static_cast<double>(kept) * ranks));
}

int Main(int argc, char** argv) {
  const Rank rank;
  Follow(rank, "every step told", watch::StepsApart_ns(8));
  Follow(rank, "one step in 4", watch::StepsApart_ns(512));
  Follow(rank, "one step in 64", watch::StepsApart_ns(8192));
  FindTheLoop(rank);
  for (int i = 1; i < argc; ++i) Look(std::atoi(argv[i]));
  return 0;
}

}  // namespace
}  // namespace ncclwatch

int main(int argc, char** argv) { return ncclwatch::Main(argc, argv); }
