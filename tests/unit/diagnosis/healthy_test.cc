// Jobs in which nothing is wrong, however they look.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "core/diagnose.h"
#include "core/report/render.h"
#include "core/view/from_boxes.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;

constexpr int kWorld = Job::kWorld;

TEST(Healthy, NoBoxesAtAll) {
  const Diagnosis diagnosis = diagnosis::Diagnose(diagnosis::FromBoxes({}));
  EXPECT_TRUE(diagnosis.clean());
  EXPECT_FALSE(diagnosis.healthy());
  EXPECT_EQ(diagnosis.watched, 0);
}

TEST(Healthy, RaggedNormalExits) {
  Job job(4);
  job.Done(Range(0, 4), kWorld, AllReduce());
  for (int rank : {3, 1, 2, 0}) {
    job.Pass(0.7);
    job.Die(rank, Job::Status(0));
    EXPECT_TRUE(job.Diagnose().healthy());
  }
  job.Pass(1000);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Healthy, RankZeroSavesAloneAtTheEnd) {
  Job job(4);
  job.Done(Range(0, 4), kWorld, AllReduce());
  for (int rank : {1, 2, 3}) job.Die(rank, Job::Status(0));
  EXPECT_TRUE(job.DiagnoseAt(1000).healthy());
}

TEST(Healthy, PauseOnAllRanks) {
  Job job(4);
  job.Done(Range(0, 4), kWorld, AllReduce());
  EXPECT_TRUE(job.DiagnoseAt(1000).healthy());
}

TEST(Healthy, PauseOnOneRankIsAtMostSuspectedAndGoneAfterwards) {
  Job job(4);
  job.Done(Range(0, 4), kWorld, AllReduce());
  job.Call({0, 1, 3}, kWorld, AllReduce());
  for (int second = 1; second <= 30; ++second) {
    for (const auto& finding : job.DiagnoseAt(second).findings) EXPECT_EQ(finding.certainty, Certainty::kSuspected);
  }
  job.Call({2}, kWorld, AllReduce());
  job.Finish(Range(0, 4), kWorld);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Healthy, APipelineRunsAtDifferentPositions) {
  Job job(3);
  for (int batch = 0; batch < 6; ++batch) {
    job.Pass(0.02);
    job.Message(0, kWorld, Function::ncclSend, 1);
    if (batch >= 1) job.Message(1, kWorld, Function::ncclRecv, 0);
    if (batch >= 2) job.Message(1, kWorld, Function::ncclSend, 2);
    if (batch >= 3) job.Message(2, kWorld, Function::ncclRecv, 1);
    EXPECT_TRUE(job.Diagnose().healthy());
  }
}

TEST(Healthy, CommunicatorsMadeAndDropped) {
  Job job(4);
  for (int i = 0; i < 20; ++i) {
    job.Pass(0.1);
    const int comm = job.Comm({0, 1, 2, 3}, "", kWorld);
    job.Done({0, 1, 2, 3}, comm, AllReduce());
    job.State({0, 1, 2, 3}, comm, format::CommunicatorState::kDestroyed);
    EXPECT_TRUE(job.Diagnose().healthy());
  }
  EXPECT_TRUE(job.DiagnoseAt(500).healthy());
}

TEST(Healthy, AbortedCommunicatorsBindNobody) {
  Job job(3);
  job.Call({0, 1}, kWorld, AllReduce());
  job.Pass(0.1);
  job.State({0, 1, 2}, kWorld, format::CommunicatorState::kAborted);
  EXPECT_TRUE(job.DiagnoseAt(1000).healthy());
}

TEST(Healthy, OneRankCommunicatorsAndRunAhead) {
  Job job(2);
  const int own = job.Comm({0});
  for (int i = 0; i < 100; ++i) job.Done({0}, own, AllReduce());
  for (int i = 0; i < 50; ++i) job.Call({0}, kWorld, AllReduce());
  EXPECT_TRUE(job.DiagnoseAt(1).healthy());
}

TEST(Healthy, ReadWhileItRuns) {
  // The image of rank 0 was taken before its calls, that of rank 1 after: what is later than now does not count.
  Job job(2);
  job.Done({0, 1}, kWorld, AllReduce());
  job.Pass(1);
  auto snapshot = job.Snapshot();
  job.Pass(0.001);
  job.Call({1}, kWorld, AllGather());
  snapshot.boxes[1] = job.Snapshot().boxes[1];
  EXPECT_TRUE(diagnosis::Diagnose(snapshot).healthy());
}

TEST(Healthy, WhatIsNotWatchedIsSaid) {
  Job job(2);
  job.Box(1).watching = false;
  job.Box(0).communicators_lost = 3;
  job.Box(0).gpu_marks = format::GpuMarks::kUnavailable;
  const Diagnosis diagnosis = job.Diagnose();
  EXPECT_TRUE(diagnosis.clean());
  EXPECT_FALSE(diagnosis.healthy());
  EXPECT_EQ(diagnosis.notes.size(), 3u);
  EXPECT_EQ(diagnosis.missing.size(), 2u);
}

TEST(Healthy, NotIfARankIsUnseen) {
  auto snapshot = Job(3).Snapshot();
  EXPECT_TRUE(diagnosis::Diagnose(snapshot).healthy());
  snapshot.boxes.pop_back();
  const Diagnosis diagnosis = diagnosis::Diagnose(snapshot);
  EXPECT_TRUE(diagnosis.clean());
  EXPECT_FALSE(diagnosis.healthy());
  EXPECT_EQ(diagnosis.missing, std::vector<std::string>{"rank 2: no black box here"});
}

TEST(Ranks, SeveralRanksInOneProcess) {
  Job job(1, false);
  reader::BoxImage& box = job.Box(0);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    reader::Communicator entry;
    entry.index = rank;
    entry.id = 77;
    entry.rank = rank;
    entry.size = 4;
    entry.device = static_cast<std::int32_t>(rank);
    entry.state = format::CommunicatorState::kReady;
    entry.entered = entry.returned = rank == 2 ? 0 : 1;
    box.communicators.push_back(entry);
    if (rank == 2) continue;
    reader::Call call;
    call.slot = box.head++;
    call.entered_ns = call.returned_ns = job.now_ns();
    call.function = Function::ncclAllReduce;
    call.communicator = rank;
    call.count = 8;
    call.dtype = kFloat32;
    call.reduction = kSum;
    call.result = 0;
    call.chain = 5;
    box.calls.push_back(call);
  }
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  EXPECT_EQ(diagnosis.watched, 4);
  ASSERT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].culprits, std::vector<int>{2});
}

TEST(Ranks, WithoutALauncherTheLargestRootCommunicatorNumbersThem) {
  Job job(3);
  for (int rank = 0; rank < 3; ++rank) {
    job.Box(rank).rank = format::kNoRank;
    job.Box(rank).world_size = 0;
    job.Entry(rank, kWorld).rank = static_cast<std::uint32_t>(2 - rank);
  }
  job.Call({0, 1}, kWorld, AllReduce());
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  EXPECT_EQ(diagnosis.expected, 3);
  ASSERT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].culprits, std::vector<int>{0});
  EXPECT_EQ(diagnosis.findings[0].culprit_details[0].pid, job.Box(2).pid);
}

// A rank's child without a rank of its own, as a fork child that uses NCCL for itself is.
TEST(Ranks, AProcessBesideTheJobIsNoneOfThem) {
  for (const bool larger : {false, true}) {
    Job job(3);
    const int beside = 2;  // not one of the two that the launcher started
    job.Box(beside).rank = format::kNoRank;
    job.Box(beside).communicators.clear();
    for (int rank = 0; rank < 2; ++rank) {
      job.Box(rank).world_size = 2;
      job.Entry(rank, kWorld).size = 2;
    }
    job.Box(beside).world_size = 2;
    reader::Communicator own = job.Entry(0, kWorld);
    own.id ^= 0x77;
    own.rank = larger ? 1 : 0;
    own.size = larger ? 5 : 1;
    job.Box(beside).communicators.push_back(own);
    job.Call({0, 1}, kWorld, AllReduce());
    job.Die(beside, Job::Signal(SIGKILL));
    const Diagnosis healthy = job.DiagnoseAt(1);
    EXPECT_TRUE(healthy.findings.empty()) << healthy.findings[0].summary;
    EXPECT_EQ(healthy.expected, 2);
    EXPECT_EQ(healthy.watched, 2);
    EXPECT_EQ(healthy.processes, 3);
    EXPECT_TRUE(healthy.unseen_ranks.empty());
    job.Call({0}, kWorld, AllReduce());
    const Diagnosis stalled = job.DiagnoseAt(100);
    ASSERT_FALSE(stalled.findings.empty());
    EXPECT_EQ(stalled.findings[0].culprits, std::vector<int>{1});
  }
}

TEST(Snapshot, OrderOfBoxesDoesNotMatter) {
  Job job(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.At(100);
  auto snapshot = job.Snapshot();
  const std::string one = diagnosis::ToJson(diagnosis::Diagnose(snapshot));
  std::reverse(snapshot.boxes.begin(), snapshot.boxes.end());
  EXPECT_EQ(diagnosis::ToJson(diagnosis::Diagnose(snapshot)), one);
}

TEST(Snapshot, TheLaterVerdictIsTheLiveOne) {
  Job job(4);
  job.Done(Range(0, 4), kWorld, AllReduce());
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Die(2, Job::Signal(9));
  job.Pass(0.02);
  const std::string live = diagnosis::ToJson(job.Diagnose());
  auto boxes = job.Snapshot().boxes;
  boxes[0].leader_state = {10'000'000'000, 60'000'000'000, job.now_ns(), 0, 0};
  // What happened after the verdict: the launcher ends the others, one of them aborts its communicator first.
  job.Pass(0.1);
  reader::Call abort;
  abort.slot = boxes[1].head++;
  abort.entered_ns = job.now_ns();
  abort.function = Function::ncclCommAbort;
  abort.communicator = 0;
  boxes[1].calls.push_back(abort);
  boxes[1].communicators[0].state = format::CommunicatorState::kAborted;
  boxes[3].heartbeat_ns = job.now_ns();
  reader::Observation seen;
  seen.at_ns = job.now_ns();
  seen.pid = boxes[1].pid;
  seen.start_time = boxes[1].start_time;
  seen.what = format::Observed::kGone;
  boxes[0].observations.push_back(seen);
  EXPECT_EQ(diagnosis::ToJson(diagnosis::Diagnose(diagnosis::FromBoxes(boxes))), live);
}

}  // namespace
}  // namespace ncclwatch::testing
