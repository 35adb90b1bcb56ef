// A job over several nodes gets the verdict that it would get on one.
#include "core/nodes/hub.h"
#include "core/diagnose.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/unit/nodes/faults.h"
#include "tests/unit/nodes/network.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;

// All boxes of all nodes at once, as who has collected the run directories sees them.
Diagnosis AllTogether(const std::vector<SpreadNode>& spread, std::int64_t now_ns, const diagnosis::Limits& limits) {
  diagnosis::Snapshot snapshot;
  snapshot.now_ns = now_ns;
  snapshot.limits = limits;
  snapshot.boot_id = spread[0].boxes[0].boot_id;
  for (const SpreadNode& node : spread)
    for (const reader::BoxImage& box : node.boxes) snapshot.boxes.push_back(box);
  diagnosis::GatherObservations(&snapshot);
  return diagnosis::Diagnose(snapshot);
}

void ExpectSame(const Diagnosis& got, const Diagnosis& want) {
  ASSERT_EQ(got.findings.empty(), want.findings.empty());
  if (want.findings.empty()) return;
  const diagnosis::Finding& a = got.findings.front();
  const diagnosis::Finding& b = want.findings.front();
  EXPECT_EQ(Name(a.kind), Name(b.kind)) << a.summary;
  EXPECT_EQ(Name(a.certainty), Name(b.certainty));
  EXPECT_EQ(a.culprits, b.culprits) << a.summary;
  EXPECT_EQ(a.victims, b.victims);
  EXPECT_EQ(a.position, b.position);
  EXPECT_EQ(a.communicator.has_value(), b.communicator.has_value());
  if (a.communicator && b.communicator) {
    EXPECT_EQ(a.communicator->id, b.communicator->id);
  }
}

TEST(Nodes, EveryFaultIsJudgedAsOnOneNode) {
  for (const Fault& fault : Faults()) {
    for (const int per_node : {4, 2, 1}) {
      SCOPED_TRACE(fault.name + ", " + std::to_string(per_node) + " ranks a node");
      Job job = fault.make();
      const Diagnosis alone = job.Diagnose();
      ASSERT_FALSE(alone.findings.empty());
      Network network(Spread(job, per_node));
      network.Tick(Spread(job, per_node), job.now_ns());
      const Diagnosis verdict = network.Diagnose(job.now_ns(), job.limits);
      ExpectSame(verdict, alone);
      EXPECT_EQ(diagnosis::ToJson(verdict),
                diagnosis::ToJson(AllTogether(Spread(job, per_node), job.now_ns(), job.limits)));
      EXPECT_EQ(verdict.watched, alone.watched);
      EXPECT_EQ(network.fetches, static_cast<std::uint64_t>(8 / per_node - 1));
    }
  }
}

// Summaries alone are enough to name the culprit of a standstill or a death, whoever does not answer.
TEST(Nodes, WhoDoesNotAnswerIsJudgedByItsSummaries) {
  for (const Fault& fault : Faults()) {
    const bool needs_calls = fault.name == "zero_count" || fault.name == "deadlock" || fault.name == "point_to_point" ||
                             fault.name == "device_stall";
    if (needs_calls) continue;
    SCOPED_TRACE(fault.name);
    Job job = fault.make();
    const Diagnosis alone = job.Diagnose();
    Network network(Spread(job, 2));
    network.loses = [](const std::string&, nodes::Kind kind) { return kind == nodes::Kind::kRecords; };
    std::int64_t now = job.now_ns();
    network.Tick(Spread(job, 2), now);
    network.Stand(1.2, &now);
    const Diagnosis verdict = network.DiagnoseSummaries(now, job.limits);
    ASSERT_FALSE(verdict.findings.empty());
    EXPECT_EQ(Name(verdict.findings[0].kind), Name(alone.findings[0].kind)) << verdict.findings[0].summary;
    EXPECT_EQ(verdict.findings[0].culprits, alone.findings[0].culprits) << verdict.findings[0].summary;
  }
}

TEST(Nodes, WhatIsRipeIsSeenInTheTable) {
  for (const Fault& fault : Faults()) {
    SCOPED_TRACE(fault.name);
    Job job = fault.make();
    Network network(Spread(job, 2));
    std::int64_t now = job.now_ns();
    network.Tick(Spread(job, 2), now);
    network.Stand(1.2, &now);
    const nodes::Table& table = network.hub().table();
    EXPECT_TRUE(!table.suspicions().empty() || table.deaths() > 0 || table.QuietSince() != 0);
    EXPECT_EQ(network.fetches, 0u);
  }
}

TEST(Nodes, SameProcessIdsOnEveryNode) {
  Job job = Running(4);
  job.Call({0, 1, 2}, kWorld, AllReduce());
  job.Pass(0.1);
  job.Die(3, Job::Signal(SIGSEGV));
  std::vector<SpreadNode> spread = Spread(job, 1);
  for (SpreadNode& node : spread) EXPECT_EQ(node.boxes[0].pid, 100u);
  const Diagnosis verdict = AllTogether(spread, job.now_ns(), job.limits);
  Expect(verdict, diagnosis::Kind::kDeadRank, Certainty::kCertain, {3});
  EXPECT_EQ(verdict.findings.size(), 1u);
}

// A leader of the last run lives on and finds the next run at the same address, with the same token.
TEST(Nodes, ASurvivorOfAnEarlierRunHasNoPart) {
  Job job = Running(4);
  std::vector<SpreadNode> spread = Spread(job, 2);
  SpreadNode survivor = spread[1];
  survivor.name = "old";
  constexpr std::uint64_t kTicksOfAMinute = 60 * 100;
  for (reader::BoxImage& box : survivor.boxes) {
    box.host = survivor.name;
    box.boot_id.replace(0, 4, "9999");
    box.communicators.clear();
  }
  for (SpreadNode& node : spread)
    for (reader::BoxImage& box : node.boxes) box.start_time += kTicksOfAMinute;
  spread.push_back(survivor);

  Network network(spread);
  std::int64_t now = job.now_ns();
  network.Tick(spread, now);
  network.Stand(1.2, &now);
  EXPECT_EQ(network.hub().earlier_runs(), std::set<std::string>{"old"});
  for (const reader::BoxImage& box : network.hub().Boxes(spread[0].boxes, 0, now)) EXPECT_NE(box.host, "old");
  network.hub().Say({}, 0, now);
  EXPECT_TRUE(network.words.contains("host1"));
  EXPECT_FALSE(network.words.contains("old"));
}

// Where the survivor is the hub, it is the hub's own ranks that a later run has begun anew.
TEST(Nodes, AHubLearnsThatItBelongsToAnEarlierRun) {
  Job job = Running(4);
  std::vector<SpreadNode> spread = Spread(job, 2);
  SpreadNode later = spread[0];
  later.name = "later";
  for (reader::BoxImage& box : later.boxes) {
    box.host = later.name;
    box.boot_id.replace(0, 4, "9999");
    box.start_time += 600;
  }
  spread.push_back(later);
  Network network(spread);
  std::int64_t now = job.now_ns();
  network.Tick(spread, now);
  network.Stand(1.2, &now);
  EXPECT_EQ(network.hub().earlier_runs(), std::set<std::string>{"host0"});
}

// Ranks of one run that begin within the same seconds, and one that another node took over while both are starting.
TEST(Nodes, ClaimsThatAreCloseTogetherAreNotJudged) {
  Job job = Running(4);
  std::vector<SpreadNode> spread = Spread(job, 2);
  SpreadNode twin = spread[1];
  twin.name = "twin";
  for (reader::BoxImage& box : twin.boxes) {
    box.boot_id.replace(0, 4, "9999");
    box.start_time += 400;
  }
  spread.push_back(twin);
  Network network(spread);
  std::int64_t now = job.now_ns();
  network.Tick(spread, now);
  network.Stand(1.2, &now);
  EXPECT_TRUE(network.hub().earlier_runs().empty());
}

TEST(Nodes, ANodeThatIsNotHeardOfIsNeverCertain) {
  Job job = Running(4);
  std::int64_t now = job.now_ns();
  Network network(Spread(job, 2));
  network.Stand(1.2, &now);
  job.At(3);
  job.Call({0, 1}, kWorld, AllReduce());
  network.hub().Leave("host1", false, job.now_ns());
  std::vector<SpreadNode> alive = Spread(job, 2);
  alive.resize(1);
  network.Tick(alive, job.now_ns());
  // As the hub's leader writes it down.
  for (const reader::BoxImage& box : network.hub().Boxes({}, 1, job.now_ns())) {
    reader::Observation lost;
    lost.at_ns = job.now_ns() + 100;
    lost.pid = box.pid;
    lost.start_time = box.start_time;
    lost.place = format::PidPlace(box.boot_id, box.pid_namespace);
    lost.rank = box.rank;
    lost.what = format::Observed::kLost;
    alive[0].boxes[0].observations.push_back(lost);
  }
  job.At(100);
  for (reader::BoxImage& box : alive[0].boxes) box.heartbeat_ns = job.now_ns();
  network.Tick(alive, job.now_ns());
  const Diagnosis verdict = network.DiagnoseSummaries(job.now_ns(), job.limits);
  Expect(verdict, diagnosis::Kind::kDeadRank, Certainty::kLikely, {2, 3});
  EXPECT_NE(verdict.findings[0].summary.find("host1"), std::string::npos) << verdict.findings[0].summary;
  EXPECT_NE(verdict.findings[0].summary.find("not been heard from"), std::string::npos);
}

TEST(Nodes, ACutOffNodeThatTheOthersWorkOnWithIsNotObserved) {
  Job job = Running(4);
  std::int64_t now = job.now_ns();
  Network network(Spread(job, 1));
  network.Stand(1.2, &now);
  network.hub().Leave("host2", false, now);
  for (int i = 0; i < 50; ++i) {
    job.Pass(0.1);
    job.Done(Range(0, 4), kWorld, AllReduce());
    std::vector<SpreadNode> spread = Spread(job, 1);
    spread.erase(spread.begin() + 2);
    network.Tick(spread, job.now_ns());
  }
  job.Call({0, 1, 2}, kWorld, AllReduce());
  job.Pass(70);
  std::vector<SpreadNode> spread = Spread(job, 1);
  spread.erase(spread.begin() + 2);
  network.Tick(spread, job.now_ns());
  const Diagnosis verdict = network.Diagnose(job.now_ns(), job.limits);
  Expect(verdict, diagnosis::Kind::kMissingParticipant, Certainty::kLikely, {3});
  EXPECT_EQ(verdict.unseen_ranks, (std::vector<int>{2}));
}

TEST(Nodes, ANodeThatIsThereAgainCountsAgain) {
  Job job = Running(4);
  std::int64_t now = job.now_ns();
  Network network(Spread(job, 2));
  network.Stand(1.2, &now);
  network.hub().Leave("host1", false, now);
  EXPECT_EQ(network.hub().Boxes({}, 0, now).size(), 2u);
  network.hub().Join("host1", now);
  network.Stand(1.2, &now);
  EXPECT_EQ(network.hub().table().World()->members, 4u);
  EXPECT_EQ(network.hub().table().nodes().at("host1").processes.size(), 2u);
}

TEST(Nodes, TheWordReachesAllAndThoseWhoComeLater) {
  Job job = Running(6);
  std::int64_t now = job.now_ns();
  Network network(Spread(job, 2));
  network.Stand(1.2, &now);
  bool lost = true;
  network.loses = [&](const std::string& node, nodes::Kind kind) {
    return lost && node == "host1" && kind == nodes::Kind::kWord;
  };
  nodes::VerdictBroadcast word;
  word.stands = true;
  word.diagnosis = Faults()[3].make().Diagnose();
  network.hub().Say(word, 1'000'000, now);
  EXPECT_EQ(network.words.count("host1"), 0u);
  EXPECT_EQ(network.words.at("host2").revision, 1u);
  // Each is told its own clock.
  EXPECT_EQ(network.words.at("host2").job_minus_yours_ns, 1'000'000 - 2 * 123'456'789'012);
  lost = false;
  for (int i = 0; i < 25; ++i) {
    network.Stand(0.1, &now);
    network.hub().Repeat(now);
  }
  EXPECT_EQ(network.words.at("host1").revision, 1u);
  EXPECT_EQ(diagnosis::ToJson(*network.words.at("host1").diagnosis), diagnosis::ToJson(*word.diagnosis));
  network.words.clear();
  network.hub().Repeat(now + 5'000'000'000);
  EXPECT_TRUE(network.words.empty());
}

TEST(Nodes, ADifferenceFurtherBackThanWhatIsFetchedAtFirst) {
  Job job(40);
  job.Call(Range(0, 39), kWorld, AllReduce());
  job.Call({39}, kWorld, AllReduce(4097));
  for (int i = 0; i < 300; ++i) job.Done(Range(0, 40), kWorld, AllReduce());
  job.Pass(1);
  Network network(Spread(job, 2));
  std::int64_t now = job.now_ns();
  network.Tick(Spread(job, 2), now);
  network.Stand(1, &now);
  ASSERT_EQ(network.hub().table().suspicions().size(), 1u);
  const std::uint64_t comm = network.hub().table().suspicions()[0].communicator;
  const std::vector<std::string> whom = network.hub().WhomForAll(comm);
  EXPECT_NE(std::find(whom.begin(), whom.end(), "host19"), whom.end());
  EXPECT_LE(whom.size(), 8u);
  network.hub().Gather(whom, comm, now);
  ASSERT_TRUE(network.hub().Gathered(now));
  const Diagnosis verdict = network.DiagnoseSummaries(now, job.limits);
  Expect(verdict, diagnosis::Kind::kArgumentMismatch, Certainty::kCertain, {39});
  EXPECT_EQ(verdict.findings[0].position, 0u);
}

}  // namespace
}  // namespace ncclwatch::testing
