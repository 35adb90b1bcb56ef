// Steps that nodes tell while the job runs, against the steps that its boxes show.
#include "core/steps/reported_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>

#include "core/nodes/steps_code.h"
#include "core/slow/bubble.h"
#include "core/slow/find.h"
#include "core/slow/straggler.h"
#include "core/steps/step_follower.h"
#include "core/view/view.h"
#include "tests/unit/support/job_builder.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using namespace diagnosis;

constexpr std::uint32_t kRing = 16384;
constexpr double kStep_s = 0.1, kSlower_s = 0.02;

struct ReportedPlan {
  int ranks = 4, steps = 60, calls = 2;  // of a step
  int slow = 2, from = 20;
};

// All compute for about as long, and enqueue their calls one after the other.
Job Played(const ReportedPlan& plan) {
  Job job(plan.ranks);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> jitter(0, 0.002);
  for (int step = 0; step < plan.steps; ++step) {
    std::vector<std::pair<double, int>> arrivals;
    for (int rank = 0; rank < plan.ranks; ++rank)
      arrivals.emplace_back(
          1 + step * (kStep_s + kSlower_s) + jitter(random) + (rank == plan.slow && step >= plan.from ? kSlower_s : 0),
          rank);
    for (int call = 0; call < plan.calls; ++call)
      for (const auto& [at, rank] : arrivals) {
        job.At(at + 0.0001 * call);
        job.Call({rank}, Job::kWorld, AllReduce(static_cast<std::uint64_t>(4096 + call)));
      }
  }
  job.At(10 + plan.steps * (kStep_s + kSlower_s));
  return job;
}

// The rank's box as it lies in memory.
class MemoryBox {
 public:
  MemoryBox(Job* job, int rank)
      : memory_(Copy(BoxBytes(job->Box(rank), kRing)), [](char* one) { Free(one); }),
        box_(reader::MappedBox::Borrow(reinterpret_cast<const format::Header*>(memory_.get()), "box")) {}
  const reader::MappedBox& operator*() const { return *box_; }

 private:
  static char* Copy(const std::vector<char>& bytes) {
    auto* const memory = static_cast<char*>(::operator new(bytes.size(), std::align_val_t(format::kPage)));
    std::copy(bytes.begin(), bytes.end(), memory);
    return memory;
  }
  static void Free(char* memory) { ::operator delete(memory, std::align_val_t(format::kPage)); }

  std::unique_ptr<char, void (*)(char*)> memory_;
  std::unique_ptr<reader::MappedBox> box_;
};

struct Reported {
  ReportedSteps steps;
  std::size_t bytes = 0, reported = 0, arrivals = 0, read = 0;
};

// As leaders do it: followed, written, read, joined. A poll now and then, of few records.
Reported TellOf(Job* job, int ranks, std::int64_t apart_ns = 0) {
  Reported reported;
  for (int rank = 0; rank < ranks; ++rank) {
    const MemoryBox box(job, rank);
    const std::optional<Loop> loop = FindLoop(*box, 4096);
    if (!loop) continue;
    StepFollower follower(*box, apart_ns);
    follower.Follow(*loop);
    while (const std::size_t read = follower.Poll(job->now_ns(), 100)) {
      reported.read += read;
      std::vector<ReportedRank> now(1, follower.Take());
      now[0].boot_id = job->Box(rank).boot_id;
      now[0].pid_namespace = job->Box(rank).pid_namespace;
      for (const std::string& body : nodes::WriteSteps(now)) {
        reported.bytes += body.size();
        const auto ranks_reported = nodes::ReadSteps(body);
        EXPECT_TRUE(ranks_reported);
        for (const ReportedRank& one : *ranks_reported) {
          reported.reported += one.steps.size();
          for (const ReportedStep& step : one.steps)
            reported.arrivals = std::max(reported.arrivals, step.arrivals.size());
          reported.steps.Take(one);
        }
      }
    }
  }
  return reported;
}

TEST(ReportedSteps, AreThoseOfTheBoxes) {
  Job job = Played({});
  Reported reported = TellOf(&job, 4);
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  const StepTable live = reported.steps.Table(view), whole = MakeStepTable(view, SIZE_MAX);
  ASSERT_EQ(live.ranks, whole.ranks);
  ASSERT_GE(live.steps(), 50u);
  for (std::size_t row = 0; row < live.ranks.size(); ++row)
    for (std::size_t step = 0; step < live.steps(); ++step) {
      const StepPart& a = live.parts[row][step];
      const StepPart& b = whole.parts[row][live.NumberOf(step) - whole.first];
      EXPECT_NEAR(static_cast<double>(a.duration_ns), static_cast<double>(b.duration_ns), 1000);
      EXPECT_NEAR(static_cast<double>(a.late_ns), static_cast<double>(b.late_ns), 1000);
      EXPECT_NEAR(static_cast<double>(a.wait_ns), static_cast<double>(b.wait_ns), 1000);
      EXPECT_NEAR(static_cast<double>(a.began_ns), static_cast<double>(b.began_ns), 1000);
    }
  const std::vector<Finding> now = FindSlowSteps(view, live, {}), later = FindSlow(snapshot);
  ASSERT_EQ(now.size(), 1u);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(now[0].culprits, std::vector{2});
  EXPECT_EQ(now[0].culprits, later[0].culprits);
  EXPECT_EQ(now[0].onset->step, later[0].onset->step);
  EXPECT_NEAR(*now[0].share_lost, *later[0].share_lost, 0.01);
}

TEST(ReportedSteps, OfManyCallsAFewStandForAll) {
  Job job = Played({.calls = 100});
  Reported reported = TellOf(&job, 4);
  EXPECT_EQ(reported.arrivals, kMostArrivalsOfAChannel);
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  const auto found = FindStragglers(reported.steps.Table(view), kLeastShareLost);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().rows, std::vector<std::size_t>{2});
}

TEST(ReportedSteps, OfFastLoopsFewRecordsAreRead) {
  Job job = Played({.steps = 600, .calls = 4});
  Reported reported = TellOf(&job, 4, 1'500'000'000);                       // steps of 0.12 s: one of 16
  EXPECT_NEAR(static_cast<double>(reported.reported), 4 * 600.0 / 16, 40);  // by chance
  EXPECT_LT(reported.read, 4u * 600 * 4 / 4);
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  const StepTable table = reported.steps.Table(view);
  for (std::size_t step = 1; step < table.steps(); ++step) EXPECT_GE(Roundness(table.NumberOf(step)), 4) << step;
  const auto found = FindStragglers(table, kLeastShareLost);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().rows, std::vector<std::size_t>{2});
}

TEST(ReportedSteps, AHealthyJobIsSilent) {
  Job job = Played({.steps = 200, .slow = -1});
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  const StepTable table = TellOf(&job, 4).steps.Table(view);
  ASSERT_GE(table.steps(), 100u);
  for (const diagnosis::Finding& finding : FindSlowSteps(view, table, {})) ADD_FAILURE() << finding.summary;
}

// Nodes of two ranks, each with a boot of its own.
void Spread(Job* job, int ranks, bool one_clock) {
  for (int rank = 0; rank < ranks; ++rank) {
    reader::BoxImage& box = job->Box(rank);
    box.boot_id = "boot of node " + std::to_string(rank / 2);
    box.host = "node" + std::to_string(rank / 2);
    box.leader_state.job_minus_monotonic_ns = one_clock ? 1 : 0;
  }
}

TEST(ReportedSteps, AWholeNodeIsLateByTheClockOfTheJob) {
  for (const bool one_clock : {true, false}) {
    Job job = Played({.ranks = 6, .slow = 4});
    Job others = Played({.ranks = 6, .slow = 5});
    job.Box(5) = others.Box(5);
    Spread(&job, 6, one_clock);
    Reported reported = TellOf(&job, 6);
    const diagnosis::Snapshot snapshot = job.Snapshot();
    const View view = MakeView(snapshot);
    const std::vector<Finding> found = FindSlowSteps(view, reported.steps.Table(view), {});
    if (!one_clock) {
      EXPECT_TRUE(found.empty()) << found.front().summary;
      continue;
    }
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].culprits, (std::vector{4, 5}));
    EXPECT_EQ(found[0].shared_by.hosts, std::vector<std::string>{"node2"});
  }
}

// Calls of MPI block: who is in them the shortest time has come last, and no clock has to agree.
TEST(ReportedSteps, OfMpiOverNodesNoClockHasToAgree) {
  constexpr int kRanks = 4, kCalls = 12;  // of a step: more than are told one by one
  MpiJob job(kRanks);
  Spread(&job, kRanks, false);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> jitter(0, 0.001);
  double now = 1;
  for (int step = 0; step < 60; ++step)
    for (int call = 0; call < kCalls; ++call) {
      std::vector<std::pair<double, int>> arrivals;
      for (int rank = 0; rank < kRanks; ++rank)
        arrivals.emplace_back(now + 0.01 + jitter(random) + (rank == 3 && call == 5 ? kSlower_s : 0), rank);
      std::sort(arrivals.begin(), arrivals.end());
      std::vector<std::uint64_t> slots(kRanks);
      for (const auto& [at, rank] : arrivals) {
        job.At(at);
        slots[static_cast<std::size_t>(rank)] = job.Collective(rank, Function::MPI_Allreduce);
      }
      now = arrivals.back().first + 0.0005;
      job.At(now);
      for (int rank = 0; rank < kRanks; ++rank) job.Return(rank, slots[static_cast<std::size_t>(rank)]);
      if (call + 1 < kCalls) continue;
      for (int rank = 0; rank < kRanks; ++rank) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
    }
  job.At(now + 10);
  Reported reported = TellOf(&job, kRanks);
  EXPECT_EQ(reported.arrivals, kMostArrivalsOfAChannel - 1);
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  const StepTable table = reported.steps.Table(view);
  const auto found = FindStragglers(table, kLeastShareLost);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().rows, std::vector<std::size_t>{3});
  EXPECT_NEAR(static_cast<double>(found.front().lost_ns), 1e9 * kSlower_s, 1e6 * kCalls);
}

// The pair of ranks 0 and 1 moves its data slowly. Who waits for one of them in another pair waits for the network.
TEST(ReportedSteps, WhoIsKeptBySlowDataIsNotLate) {
  constexpr int kRanks = 4;
  MpiJob job(kRanks);
  std::vector<std::tuple<int, int, int>> pairs;
  for (int a = 0; a < kRanks; ++a)
    for (int b = a + 1; b < kRanks; ++b) pairs.emplace_back(a, b, job.MpiComm({a, b}));
  std::mt19937 random(3);
  std::uniform_real_distribution<double> jitter(0, 0.001);
  std::vector<double> now(kRanks, 1);
  const auto meet = [&](const std::vector<int>& ranks, int comm, Function function, double takes) {
    std::vector<std::uint64_t> slots;
    double end = 0;
    for (const int rank : ranks) {
      job.At(now[static_cast<std::size_t>(rank)]);
      slots.push_back(job.Collective(rank, function, format::kNoRank, comm));
      job.At(rank, slots.back()).bytes = 1 << 20;
      end = std::max(end, now[static_cast<std::size_t>(rank)] + takes);
    }
    job.At(end);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      job.Return(ranks[i], slots[i]);
      now[static_cast<std::size_t>(ranks[i])] = end;
    }
  };
  for (int step = 0; step < 60; ++step) {
    for (double& own : now) own += kStep_s + jitter(random);
    for (const auto& [a, b, comm] : pairs) meet({a, b}, comm, Function::MPI_Allreduce, a + b == 1 ? 0.03 : 0.002);
    meet({0, 1, 2, 3}, Job::kWorld, Function::MPI_Barrier, 0.0005);
  }
  job.At(now[0] + 10);
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  for (const StepTable& table : {TellOf(&job, kRanks).steps.Table(view), MakeStepTable(view, SIZE_MAX)}) {
    ASSERT_GE(table.steps(), 50u);
    const std::vector<Finding> found = FindSlowSteps(view, table, {});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, Kind::kSlowCommunication);
    EXPECT_EQ(found[0].culprits, (std::vector{0, 1}));
  }
}

// All compute for as long, and wait for a nonblocking collective. From half of the steps on its data take longer, and
// rank 1 leaves the wait last: it begins the next step last, for no fault of its own.
TEST(ReportedSteps, WhoLeavesAWaitForRequestsLastIsNotLate) {
  constexpr int kRanks = 4, kSteps = 120;
  MpiJob job(kRanks);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> jitter(0, 0.0005);
  std::vector<double> now(kRanks, 1);
  for (int step = 0; step < kSteps; ++step) {
    const bool slow = step >= kSteps / 2;
    std::vector<std::pair<double, int>> order;
    for (int rank = 0; rank < kRanks; ++rank)
      order.emplace_back(now[static_cast<std::size_t>(rank)] + 0.02 + jitter(random), rank);
    std::sort(order.begin(), order.end());
    std::vector<std::uint64_t> waits(kRanks);
    for (const auto& [at, rank] : order) {
      job.At(at);
      const std::uint64_t request = job.Collective(rank, Function::MPI_Iallreduce);
      job.At(rank, request).flags |= format::kRequest;
      job.Return(rank, request);
      waits[static_cast<std::size_t>(rank)] = job.Wait(rank, Function::MPI_Wait, {request});
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      const double takes = slow ? (rank == 1 ? 0.016 : 0.012) : 0.001;
      now[static_cast<std::size_t>(rank)] = order.back().first + takes + 0.00001 * rank;
    }
    for (const int rank : {0, 2, 3, 1}) {
      job.At(now[static_cast<std::size_t>(rank)]);
      job.Return(rank, waits[static_cast<std::size_t>(rank)]);
    }
  }
  job.At(now[1] + 10);
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  for (const StepTable& table : {TellOf(&job, kRanks).steps.Table(view), MakeStepTable(view, SIZE_MAX)}) {
    ASSERT_GE(table.steps(), 100u);
    const std::vector<Finding> found = FindSlowSteps(view, table, {});
    ASSERT_EQ(found.size(), 1u) << (found.empty() ? "" : found.back().summary);
    EXPECT_EQ(found[0].kind, Kind::kSlowCommunication) << found[0].summary;
    EXPECT_TRUE(found[0].culprits.empty());
  }
}

// Four equal calls a step, and a barrier after each eighteenth, before which rank 2 writes a checkpoint. The loop is
// looked for again and again, and found at another place each time.
TEST(ReportedSteps, ACallMoreNowAndThenIsTheSameLoop) {
  constexpr int kRanks = 4, kSteps = 200;
  Job job(kRanks);
  double now = 1;
  for (int step = 0; step < kSteps; ++step) {
    now += 0.02;
    for (int call = 0; call < 4; ++call)
      for (int rank = 0; rank < kRanks; ++rank) {
        job.At(now += 0.0002);
        job.Call({rank}, Job::kWorld, AllReduce(1418));
      }
    if (step % 18 != 17) continue;
    for (const int rank : {0, 1, 3, 2}) {
      if (rank == 2) now += 0.2;
      job.At(now += 0.0001);
      job.Call({rank}, Job::kWorld, AllReduce(1));
    }
  }
  job.At(now + 10);
  ReportedSteps steps;
  for (int rank = 0; rank < kRanks; ++rank) {
    const MemoryBox box(&job, rank);
    StepFollower follower(*box, 0);
    std::optional<Loop> loop;
    for (const std::uint64_t most : {64, 128, 256, 512}) {
      loop = FindLoop(*box, most);
      ASSERT_TRUE(loop);
      ASSERT_EQ(loop->each, 4u) << most;
    }
    do {
      loop->first = (loop->first + 1) % loop->each;
      follower.Follow(*loop);
    } while (follower.Poll(job.now_ns(), 50) > 0);
    ReportedRank reported = follower.Take();
    reported.boot_id = job.Box(rank).boot_id;
    reported.pid_namespace = job.Box(rank).pid_namespace;
    steps.Take(std::move(reported));
  }
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  const StepTable table = steps.Table(view);
  ASSERT_GE(table.steps(), 180u);
  const std::vector<Finding> found = FindSlowSteps(view, table, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].culprits, std::vector{2});
}

// A solver: no two iterations are alike, neither in collectives nor in messages. Rank 2 computes for longer.
TEST(ReportedSteps, WhereCallsRepeatNoStepsStretchesAreCompared) {
  constexpr int kRanks = 4, kIterations = 700;
  MpiJob job(kRanks);
  std::mt19937 random(11);
  std::uniform_real_distribution<double> jitter(0, 0.0001);
  double now = 1;
  const auto meet = [&](Function function) {
    std::vector<std::pair<double, int>> arrivals;
    for (int rank = 0; rank < kRanks; ++rank)
      arrivals.emplace_back(now + 0.0005 + jitter(random) + (rank == 2 ? 0.0004 : 0), rank);
    std::sort(arrivals.begin(), arrivals.end());
    std::vector<std::uint64_t> slots(kRanks);
    for (const auto& [at, rank] : arrivals) {
      job.At(at);
      slots[static_cast<std::size_t>(rank)] = job.Collective(rank, function);
    }
    now = arrivals.back().first + 0.00005;
    job.At(now);
    for (int rank = 0; rank < kRanks; ++rank) job.Return(rank, slots[static_cast<std::size_t>(rank)]);
  };
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (std::size_t left = 1 + random() % 9; left > 0; --left)
      meet(random() % 2 == 0 ? Function::MPI_Allreduce : Function::MPI_Barrier);
    for (std::size_t left = 1 + random() % 5; left > 0; --left)
      for (int rank = 0; rank < kRanks; ++rank) {
        const int next = (rank + 1) % kRanks;
        job.Return(rank, job.Send(rank, {next, 0, 64 * left}));
        job.Return(next, job.Recv(next, {rank, 0, 64 * left}));
      }
  }
  job.At(now + 10);
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  const StepTable live = TellOf(&job, kRanks).steps.Table(view);
  EXPECT_EQ(live.stretch, kStretch);
  for (const std::vector<Finding>& found : {FindSlowSteps(view, live, {}), FindSlow(snapshot)}) {
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kind, Kind::kStraggler);
    EXPECT_EQ(found[0].culprits, std::vector{2});
    EXPECT_NE(found[0].summary.find("in 16 collectives, which take"), std::string::npos) << found[0].summary;
  }
}

// Four stages and two batches in a step, all forwards, then all back: each takes a stage kBatch_s.
MpiJob Pipeline() {
  constexpr int kStages = 4, kBatches = 2, kSteps = 60;
  constexpr double kBatch_s = 0.01, kCall_s = 0.0001;
  MpiJob job(kStages);
  std::vector<std::pair<double, std::function<void()>>> events;
  std::vector<std::uint64_t> slots(kStages);
  const auto pass = [&](int from, int to, double waits_since, double at) {
    events.emplace_back(waits_since, [&, from, to] { slots[static_cast<std::size_t>(to)] = job.Recv(to, {from}); });
    events.emplace_back(at, [&, from, to] { job.Return(from, job.Send(from, {to})); });
    events.emplace_back(at + kCall_s, [&, to] { job.Return(to, slots[static_cast<std::size_t>(to)]); });
  };
  double now = 1;
  for (int step = 0; step < kSteps; ++step) {
    const double back = now + kBatch_s * (kBatches + kStages - 1);
    for (int batch = 0; batch < kBatches; ++batch)
      for (int stage = 0; stage + 1 < kStages; ++stage) {
        const double there = now + kBatch_s * (batch + stage + 1);
        pass(stage, stage + 1, batch == 0 ? now + kCall_s : there - kCall_s, there);
        const double here = back + kBatch_s * (batch + kStages - 1 - stage);
        const double forwards_done = now + kBatch_s * (kBatches + stage) + 2 * kCall_s;
        pass(stage + 1, stage, batch == 0 ? forwards_done : here - kCall_s, here);
      }
    now = back + kBatch_s * (kBatches + kStages - 1);
    for (int rank = 0; rank < kStages; ++rank) {
      auto& slot = slots[static_cast<std::size_t>(rank)];
      events.emplace_back(back + kBatch_s * (kBatches + kStages - 1 - rank) + 2 * kCall_s,
                          [&job, &slot, rank] { slot = job.Collective(rank, Function::MPI_Allreduce); });
      events.emplace_back(now + 4 * kCall_s, [&job, &slot, rank] { job.Return(rank, slot); });
    }
    now += 5 * kCall_s;
  }
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [at, happens] : events) {
    job.At(at);
    happens();
  }
  job.At(now + 10);
  return job;
}

TEST(ReportedSteps, ShowThePipelineThatTheBoxesShow) {
  MpiJob job = Pipeline();
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  for (const StepTable& table : {TellOf(&job, 4).steps.Table(view), MakeStepTable(view, SIZE_MAX)}) {
    ASSERT_GE(table.steps(), 50u);
    const auto bubble = FindBubble(table, kLeastIdle);
    ASSERT_TRUE(bubble);
    EXPECT_EQ(bubble->stages, 4u);
    EXPECT_EQ(bubble->batches, 2u);
    EXPECT_NEAR(bubble->idle, 0.6, 0.02);  // (p - 1) / (m + p - 1)
    EXPECT_TRUE(bubble->rows.empty());
  }
}

TEST(ReportedSteps, AreBoundedAndReachFarBack) {
  Job job = Played({});
  const diagnosis::Snapshot snapshot = job.Snapshot();
  const View view = MakeView(snapshot);
  ReportedSteps steps;
  steps.SetMost(64);
  for (std::uint64_t number = 0; number < 10'000; ++number)
    for (int rank = 0; rank < 2; ++rank) {
      ReportedRank reported;
      const reader::BoxImage& box = job.Box(rank);
      std::tie(reported.boot_id, reported.pid_namespace, reported.start_time, reported.pid) =
          std::tie(box.boot_id, box.pid_namespace, box.start_time, box.pid);
      const auto began_ns = static_cast<std::int64_t>(number + 1);
      reported.steps.push_back({.number = number, .began_ns = began_ns, .duration_ns = 1, .arrivals = {}});
      steps.Take(reported);
      steps.Take(std::move(reported));  // by the node's next leader
    }
  const StepTable table = steps.Table(view);
  EXPECT_LE(table.steps(), 64u);
  EXPECT_GE(table.steps(), 32u);
  EXPECT_LT(table.NumberOf(0), 8192u);
  EXPECT_EQ(table.NumberOf(table.steps() - 1), 9999u);
}

TEST(ReportedSteps, FewBytes) {
  Job job = Played({.steps = 500, .slow = -1});
  const Reported reported = TellOf(&job, 4);
  ASSERT_GT(reported.reported, 1900u);
  EXPECT_LT(static_cast<double>(reported.bytes) / static_cast<double>(reported.reported), 40);
}

TEST(ReportedSteps, DamagedOnesAreRefused) {
  ReportedRank rank;
  rank.boot_id = "boot";
  rank.kinds.resize(2);
  rank.steps.push_back({.number = 7, .began_ns = 1'000'000, .arrivals = {{.position = 3, .kind = 1}}});
  const std::string body = nodes::WriteSteps({rank, rank}).front();
  ASSERT_TRUE(nodes::ReadSteps(body));
  EXPECT_EQ(nodes::ReadSteps(body)->size(), 2u);
  for (std::size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(nodes::ReadSteps(body.substr(0, size))) << size;
  std::mt19937 random(1);
  ReportedSteps steps;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = body;
    for (int flips = 1 + i % 3; flips > 0; --flips) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (auto read = nodes::ReadSteps(damaged))
      for (ReportedRank& one : *read) steps.Take(std::move(one));
  }
}

}  // namespace
}  // namespace ncclwatch::testing
