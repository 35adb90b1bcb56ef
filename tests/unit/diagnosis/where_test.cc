// Stacks in a verdict: they add to it and change nothing else.
#include "core/report/where.h"
#include "core/diagnose.h"
#include "core/report/render.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;

reader::ProcessStacks StacksOf(const reader::BoxImage& box, std::vector<std::string> where) {
  reader::ProcessStacks stacks;
  stacks.pid = box.pid;
  stacks.start_time = box.start_time;
  stacks.host = box.host;
  stacks.where = std::move(where);
  return stacks;
}

Job WithoutRank2(int ranks = 4, std::vector<int> missing = {2}) {
  Job job = Running(ranks);
  std::vector<int> others = Range(0, ranks);
  std::erase_if(others, [&](int rank) { return std::count(missing.begin(), missing.end(), rank) > 0; });
  job.Call(others, kWorld, AllReduce());
  job.At(70);
  return job;
}

TEST(Where, AMissingParticipantIsQuoted) {
  Job job = WithoutRank2();
  const Diagnosis before = job.Diagnose();
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.stacks = {StacksOf(job.Box(0), {"cudaStreamSynchronize"}),
                     StacksOf(job.Box(2), {"next_batch (train.py:57)", "main (train.py:91)", "clock_nanosleep"})};
  const Diagnosis after = diagnosis::Diagnose(snapshot);
  Expect(after, Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(after.findings[0].culprit_details[0].where, snapshot.stacks[1].where);
  EXPECT_EQ(after.findings[0].evidence[0],
            "rank 2 stands in next_batch (train.py:57), called from main (train.py:91), from clock_nanosleep");
  EXPECT_EQ(after.findings[0].summary, before.findings[0].summary);
  EXPECT_EQ(after.findings[0].evidence.size(), before.findings[0].evidence.size() + 1);
  EXPECT_EQ(diagnosis::WhereLines(after), std::vector<std::string>{after.findings[0].evidence[0]});
  EXPECT_TRUE(diagnosis::WhereLines(before).empty());
  EXPECT_NE(diagnosis::ToJson(after).find("\"next_batch (train.py:57)\""), std::string::npos);
  // What a leader does: the verdict that it has published already, with the same stacks.
  Diagnosis added = before;
  diagnosis::AddWhere(snapshot.stacks, &added);
  EXPECT_EQ(diagnosis::ToJson(added), diagnosis::ToJson(after));
}

TEST(Where, AnotherProcessWithThePidIsNotQuoted) {
  Job job = WithoutRank2();
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.stacks = {StacksOf(job.Box(2), {"f"})};
  snapshot.stacks[0].start_time += 1;
  EXPECT_TRUE(diagnosis::Diagnose(snapshot).findings[0].culprit_details[0].where.empty());
  snapshot.stacks = {StacksOf(job.Box(2), {"f"})};
  snapshot.stacks[0].host = "elsewhere";
  EXPECT_TRUE(diagnosis::Diagnose(snapshot).findings[0].culprit_details[0].where.empty());
}

TEST(Where, RanksInOnePlaceShareALine) {
  Job job = WithoutRank2(8, {2, 5, 6});
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.stacks = {StacksOf(job.Box(2), {"load", "main"}), StacksOf(job.Box(5), {"save"}),
                     StacksOf(job.Box(6), {"load", "main"})};
  const Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  EXPECT_EQ(diagnosis.findings[0].evidence[0], "ranks 2,6 stand in load, called from main");
  EXPECT_EQ(diagnosis.findings[0].evidence[1], "rank 5 stands in save");
  EXPECT_EQ(diagnosis.findings[0].next_steps[0], "all stacks: stacks/merged.txt in the run directory on node7");
}

TEST(Where, WhatIsCalledAndWhatHoldsItUpAreReported) {
  Job job = WithoutRank2();
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.stacks = {StacksOf(job.Box(2), {"next_batch (train.py:57) in poll (libc.so.6)", "main (train.py:91)"})};
  snapshot.stacks[0].state = {"thread 7 is sleeping in poll(fd 5)", "memory: 1 MiB resident"};
  Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  EXPECT_EQ(diagnosis.findings[0].evidence[0],
            "rank 2 stands in next_batch (train.py:57) in poll (libc.so.6), called from main (train.py:91)");
  EXPECT_EQ(diagnosis.findings[0].evidence[1], "rank 2: thread 7 is sleeping in poll(fd 5)");
  EXPECT_EQ(diagnosis.findings[0].evidence.back(), "rank 2: memory: 1 MiB resident");  // behind what the rule found
  EXPECT_EQ(diagnosis.findings[0].next_steps[0],
            "all stacks: stacks/merged.txt in the run directory on node7; of rank 2 alone, thread by thread: stacks/" +
                std::to_string(job.Box(2).pid) + ".txt");
  snapshot.stacks[0].where.clear();  // it could not be read: that is told
  snapshot.stacks[0].state = {"it belongs to another user (uid 7)"};
  diagnosis = diagnosis::Diagnose(snapshot);
  EXPECT_EQ(diagnosis.findings[0].evidence[0], "rank 2: it belongs to another user (uid 7)");
}

TEST(Where, OnlyTheMostTellingIsQuoted) {
  Job job = WithoutRank2();
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.stacks = {StacksOf(job.Box(2), {"f"})};
  snapshot.stacks[0].state = {"a", "b", "c", "d", "5 threads: 5 sleeping"};
  const Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  EXPECT_EQ(diagnosis.findings[0].evidence[1], "rank 2: a");
  EXPECT_EQ(diagnosis.findings[0].evidence.back(), "rank 2: d");
}

TEST(Where, OfSeveralOnlyWhatHoldsThemUp) {
  Job job = WithoutRank2(8, {2, 5, 6});
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.stacks = {StacksOf(job.Box(2), {"load"}), StacksOf(job.Box(5), {"save"}), StacksOf(job.Box(6), {"log"})};
  for (reader::ProcessStacks& stacks : snapshot.stacks) stacks.state = {"sleeping", "memory: 1 MiB resident"};
  const std::vector<std::string> lines = diagnosis::Diagnose(snapshot).findings[0].evidence;
  EXPECT_EQ(lines[1], "rank 2: sleeping");
  EXPECT_EQ(lines[2], "rank 5 stands in save");
  EXPECT_EQ(lines[5], "rank 6: sleeping");
}

TEST(Where, TheDeadStandNowhere) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Die(2, Job::Signal(9));
  job.Pass(0.1);
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.stacks = {StacksOf(job.Box(2), {"f"})};
  EXPECT_TRUE(diagnosis::Diagnose(snapshot).findings[0].culprit_details[0].where.empty());
}

TEST(Where, AThousandCulpritsInAThousandPlacesStayAFewLines) {
  std::vector<int> missing = Range(100, 1000);
  Job job = WithoutRank2(1024, missing);
  diagnosis::Snapshot snapshot = job.Snapshot();
  for (int rank : missing) snapshot.stacks.push_back(StacksOf(job.Box(rank), {"f" + std::to_string(rank)}));
  const Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  EXPECT_LE(diagnosis.findings[0].evidence.size(), 24u);
  EXPECT_EQ(diagnosis.findings[0].culprit_details.size(), missing.size());
}

}  // namespace
}  // namespace ncclwatch::testing
