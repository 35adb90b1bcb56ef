// Summaries: what they take, and what a table makes of them, whole, lost and damaged.
#include "core/nodes/table.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/nodes/faults.h"
#include "tests/unit/nodes/network.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using nodes::Kind;
using nodes::Outcome;

// Steps of a healthy job, with the network told every 0.1 s.
struct Live {
  explicit Live(int ranks, int on_each) : job(ranks), per_node(on_each), network(Spread(job, on_each)) {}
  void Run(double seconds, double call_every, const std::vector<int>& comms) {
    const std::int64_t until = job.now_ns() + static_cast<std::int64_t>(seconds * 1e9);
    while (job.now_ns() < until) {
      job.Pass(call_every);
      for (const int comm : comms) job.Done(Range(0, static_cast<int>(job.Snapshot().boxes.size())), comm, AllReduce());
      for (since_tick += call_every; since_tick > 0.0999; since_tick -= 0.1)
        network.Tick(Spread(job, per_node), job.now_ns());
    }
  }
  Job job;
  int per_node;
  Network network;
  double since_tick = 0;
};

TEST(Table, AHealthyJobIsQuietAndWhole) {
  Live live(4, 2);
  live.Run(5, 0.02, {kWorld});
  nodes::Table& table = live.network.hub().table();
  EXPECT_TRUE(table.suspicions().empty());
  EXPECT_EQ(table.QuietSince(), 0);
  const auto world = table.World();
  ASSERT_TRUE(world);
  EXPECT_EQ(world->members, 4u);
  EXPECT_EQ(world->ready, 4u);
  EXPECT_EQ(table.SeenIn(world->communicator), (std::set<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(live.network.fetches, 0u);
  EXPECT_EQ(table.deaths(), 0);
}

TEST(Table, ADifferenceIsSeenThoughTheJobGoesOn) {
  Live live(4, 2);
  live.Run(2, 0.01, {kWorld});
  live.job.Done({0, 1, 2}, kWorld, AllReduce());
  live.job.Done({3}, kWorld, AllReduce(4097));
  const double broke = static_cast<double>(live.job.now_ns());
  while (live.network.hub().table().suspicions().empty()) {
    live.Run(0.1, 0.01, {kWorld});
    ASSERT_LT((static_cast<double>(live.job.now_ns()) - broke) / 1e9, 4.0);
  }
  const auto& suspicion = live.network.hub().table().suspicions().front();
  EXPECT_EQ(suspicion.communicator, live.job.Entry(0, kWorld).id);
  EXPECT_EQ(suspicion.what, diagnosis::LiveCompare::What::kDifferentCall);
  const auto verdict = live.network.Diagnose(live.job.now_ns(), live.job.limits);
  Expect(verdict, diagnosis::Kind::kArgumentMismatch, diagnosis::Certainty::kCertain, {3});
}

// Nobody is in a collective, and no member of a communicator moves or does not move.
TEST(Table, WhoStandsInAMessageIsReported) {
  MpiJob job(2);
  Network network(Spread(job, 1));
  std::int64_t now = job.now_ns();
  network.Tick(Spread(job, 1), now);
  nodes::Table& table = network.hub().table();
  EXPECT_EQ(table.QuietSince(), 0);
  job.Recv(0, {.peer = 1});
  const std::uint64_t received = job.Recv(1, {.peer = 0});
  network.Tick(Spread(job, 1), now);
  network.Stand(0.2, &now);
  EXPECT_EQ(table.QuietSince(), 0);
  network.Stand(0.2, &now);
  EXPECT_NEAR(static_cast<double>(table.QuietSince()), static_cast<double>(job.now_ns()), 2e7);
  EXPECT_EQ(table.Quiet(now), (std::vector<std::string>{"host0", "host1"}));
  Expect(network.Diagnose(now, job.limits), diagnosis::Kind::kDeadlock, diagnosis::Certainty::kCertain, {0, 1});

  job.Pass(static_cast<double>(now - job.now_ns()) / 1e9);
  job.Receipt(1, received, 0, 0);
  job.Return(1, received);
  network.Tick(Spread(job, 1), now);
  network.Stand(1.1, &now);
  EXPECT_EQ(table.Quiet(now), std::vector<std::string>{"host0"});
  EXPECT_GE(table.waits().longest_ns, 400'000'000);
  network.hub().Leave("host0", true, now);
  table.Poll(now);
  EXPECT_EQ(table.QuietSince(), 0);
}

TEST(Table, ASuspicionThatCameToNothingIsLeftAloneForLonger) {
  Live live(4, 2);
  live.job.Call({0, 1, 2}, kWorld, AllReduce());
  live.job.Call({3}, kWorld, AllGather());
  std::int64_t now = live.job.now_ns();
  live.network.Tick(Spread(live.job, 2), now);
  live.network.Stand(1.5, &now);
  nodes::Table& table = live.network.hub().table();
  ASSERT_EQ(table.suspicions().size(), 1u);
  const std::uint64_t comm = table.suspicions()[0].communicator;
  for (const double silence : {0.25, 0.5, 1.0}) {
    table.Acknowledge(comm, now);
    live.network.Stand(silence - 0.15, &now);
    EXPECT_TRUE(table.suspicions().empty());
    live.network.Stand(0.3, &now);
    EXPECT_EQ(table.suspicions().size(), 1u);
  }
}

TEST(Table, WhoStandsInACallIsReportedWithinHalfASecond) {
  Live live(4, 2);
  live.Run(2.05, 0.01, {kWorld});
  live.job.Call({0, 1, 2}, kWorld, AllReduce());
  std::int64_t now = live.job.now_ns();
  live.network.Tick(Spread(live.job, 2), now);
  live.network.Stand(0.8, &now);
  const auto front = live.network.hub().table().World();
  EXPECT_EQ(front->arrived, 3u);
  EXPECT_EQ(front->pending, 3u);
  EXPECT_LT(now - live.network.hub().table().QuietSince(), 1'000'000'000);
  EXPECT_GT(live.network.hub().table().QuietSince(), 0);
}

TEST(Table, ALostMessageIsMadeUpForByANewSession) {
  Live live(4, 2);
  live.Run(2, 0.02, {kWorld});
  int left = 1;
  live.network.loses = [&](const std::string& node, Kind kind) {
    return node == "host1" && kind == Kind::kSummary && left-- > 0;
  };
  const std::uint64_t before = live.network.hub().table().nodes().at("host1").session;
  live.Run(3, 0.02, {kWorld});
  EXPECT_GT(live.network.hub().table().nodes().at("host1").session, before);
  EXPECT_EQ(live.network.hub().table().World()->members, 4u);
  EXPECT_GE(live.network.hub().table().World()->behind + 120, live.job.Entry(0, kWorld).entered);
  EXPECT_TRUE(live.network.hub().table().suspicions().empty());
}

TEST(Table, ReplayedForeignAndDamagedBodiesChangeNothing) {
  Job job = Faults()[0].make();
  nodes::Reporter reporter;
  reporter.Begin(1);
  const std::string body = reporter.Look(NowOf(Spread(job, 4)[0], job.now_ns())).at(0);
  nodes::Table table;
  EXPECT_EQ(table.Tell("nobody", body, 1), Outcome::kGap);
  table.Join("host0", 1);
  for (std::size_t size = 0; size + 1 < body.size(); ++size)
    EXPECT_NE(table.Tell("host0", std::string_view(body).substr(0, size), 1), Outcome::kTaken) << size;
  EXPECT_EQ(table.Tell("host0", body, 1), Outcome::kTaken);
  EXPECT_EQ(table.nodes().at("host0").processes.size(), 4u);
  std::string later = body;
  later[0] = static_cast<char>(nodes::kWireVersion + 1);
  EXPECT_EQ(table.Tell("host0", later, 1), Outcome::kOther);
  std::string second = reporter.Look(NowOf(Spread(job, 4)[0], job.now_ns() + 2'000'000'000)).at(0);
  EXPECT_EQ(table.Tell("host0", second, 2), Outcome::kTaken);
  EXPECT_EQ(table.Tell("host0", second, 2), Outcome::kGap);  // said twice
  EXPECT_EQ(table.Tell("host0", body, 3), Outcome::kTaken);  // a session from its beginning
  EXPECT_EQ(table.nodes().at("host0").processes.size(), 4u);
  EXPECT_EQ(table.World()->members, 4u);
}

TEST(Table, AnotherCommunicatorInTheSamePlaceOfTheBox) {
  Live live(4, 2);
  const int second = live.job.Comm(Range(0, 4));
  live.Run(2, 0.02, {kWorld, second});
  EXPECT_TRUE(live.network.hub().table().FrontOf(live.job.Entry(0, second).id));
  const std::uint64_t old = live.job.Entry(0, second).id;
  for (int rank = 0; rank < 4; ++rank) {
    reader::Communicator& entry = live.job.Entry(rank, second);
    entry.id ^= 0xff00;
    ++entry.generation;
    entry.entered = entry.returned = entry.chain = 0;
  }
  live.Run(2, 0.02, {kWorld});
  EXPECT_FALSE(live.network.hub().table().FrontOf(old));
  EXPECT_EQ(live.network.hub().table().FrontOf(old ^ 0xff00)->members, 4u);
  EXPECT_TRUE(live.network.hub().table().suspicions().empty());
}

TEST(Table, ANameThatComesLateIsTold) {
  Live live(4, 2);
  live.Run(2, 0.01, {kWorld});
  for (int rank = 0; rank < 4; ++rank) live.job.Entry(rank, kWorld).label = "tp";
  live.Run(2, 0.01, {kWorld});
  std::size_t members = 0;
  for (const auto& [host, node] : live.network.hub().table().nodes())
    for (const auto& [number, process] : node.processes)
      for (const auto& [index, member] : process.members) members += member.now.label == "tp";
  EXPECT_EQ(members, 4u);
}

TEST(Table, DeathsAreCountedOnce) {
  Job job = Running(4);
  Network network(Spread(job, 2));
  std::int64_t now = job.now_ns();
  network.Stand(1.2, &now);
  job.At(2.3);
  job.Die(3, Job::Signal(SIGKILL));
  network.Tick(Spread(job, 2), job.now_ns());
  EXPECT_EQ(network.hub().table().deaths(), 1);
  EXPECT_TRUE(network.hub().table().IsGone(3));
  network.hub().Leave("host1", false, job.now_ns());
  network.hub().Join("host1", job.now_ns());  // its leader has changed, and tells everything again
  now = job.now_ns();
  network.Stand(1.2, &now);
  EXPECT_EQ(network.hub().table().deaths(), 1);
}

// 8 ranks with 24 communicators each: what a node says a second while all is well.
// `apart`: each rank's communicators are shared with ranks of other nodes only, so that nothing is said once for two.
double BytesPerSecond(double calls_per_second, bool apart) {
  Job job(16);
  std::vector<std::vector<int>> members = {Range(0, 16)};
  for (int i = 1; i < 24; ++i) {
    for (int rank = 0; rank < (apart ? 8 : 1); ++rank) {
      members.push_back(apart ? std::vector<int>{rank, rank + 8} : Range(0, 16));
      job.Comm(members.back(), "", kWorld);
    }
  }
  Network network(Spread(job, 8));
  constexpr double kSeconds = 5;
  double next = 0;
  std::size_t begun = 0;
  for (int tick = 0; tick < 10 * (kSeconds + 1); ++tick) {
    for (; next < tick * 0.1; next += 1 / calls_per_second) {
      job.At(next);
      for (std::size_t comm = 0; comm < members.size(); ++comm)
        job.Done(members[comm], static_cast<int>(comm), AllReduce(100 + comm));
    }
    job.At(tick * 0.1);
    for (int rank = 0; rank < 16; ++rank)  // the ring of a real box is as short
      if (job.Box(rank).calls.size() > 4096)
        job.Box(rank).calls.erase(job.Box(rank).calls.begin(), job.Box(rank).calls.end() - 2048),
            job.Box(rank).first_slot = job.Box(rank).calls.front().slot;
    network.Tick(Spread(job, 8), job.now_ns());
    if (tick == 10) begun = network.summary_bytes["host1"];
  }
  EXPECT_TRUE(network.hub().table().suspicions().empty());
  return static_cast<double>(network.summary_bytes["host1"] - begun) / kSeconds;
}

TEST(Summary, TakesFewBytes) {
  for (const bool apart : {false, true}) {
    const double slow = BytesPerSecond(1, apart), fast = BytesPerSecond(100, apart);
    std::printf("8 ranks, 24 communicators each%s: %.0f bytes/s at 1 call/s, %.0f at 100 calls/s\n",
                apart ? ", none with another rank of the node" : "", slow, fast);
    EXPECT_LT(slow, 3000);
    EXPECT_LT(fast, 3000);
  }
}

}  // namespace
}  // namespace ncclwatch::testing
