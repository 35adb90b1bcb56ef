// missing_participant, frozen_process, initialization_hang, deadlock: culprits and victims told apart, and patience.
#include <gtest/gtest.h>

#include "core/diagnose.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::CallState;
using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;
using format::Observed;

TEST(Missing, SuspectedThenLikelyNeverCertain) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  EXPECT_TRUE(job.DiagnoseAt(10.9).healthy());
  Expect(job.DiagnoseAt(11.1), Kind::kMissingParticipant, Certainty::kSuspected, {2});
  Expect(job.DiagnoseAt(61.1), Kind::kMissingParticipant, Certainty::kLikely, {2});
  const Diagnosis diagnosis = job.DiagnoseAt(100000);
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(diagnosis.findings[0].position, 3u);
  ASSERT_EQ(diagnosis.findings[0].calls.size(), 2u);
  EXPECT_EQ(diagnosis.findings[0].calls[1].state, CallState::kNotCalled);
}

TEST(Missing, NothingOnceItMovesOn) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  EXPECT_FALSE(job.DiagnoseAt(30).healthy());
  job.Done({2}, kWorld, AllReduce());
  job.Finish({0, 1, 3}, kWorld);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Missing, SomebodyProgressingElsewhereIsNotAccused) {
  Job job = Running(4);
  const int pair = job.Comm({2, 3});
  job.Call({0, 1}, kWorld, AllReduce());
  for (int second = 2; second < 40; ++second) {
    job.At(second);
    job.Done({2, 3}, pair, AllReduce());
  }
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Missing, WhoWaitsElsewhereIsAVictim) {
  Job job = Running(4);
  const int pair = job.Comm({2, 3});
  job.Call({3}, pair, AllReduce());       // 3 waits for 2 here
  job.Call({0, 1}, kWorld, AllReduce());  // 0 and 1 wait for 2 and 3
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 3}));
}

TEST(Missing, WaitsThroughMessagesMakeVictimsToo) {
  Job job = Running(3);
  job.Message(1, kWorld, Function::ncclRecv, 2);  // 1 waits for 2's send
  job.Call({0}, kWorld, AllReduce());
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  ASSERT_FALSE(diagnosis.findings.empty());
  for (const auto& finding : diagnosis.findings) EXPECT_EQ(finding.culprits, std::vector<int>{2}) << finding.summary;
}

TEST(Missing, AMatchedMessageIsNoWait) {
  Job job = Running(2);
  job.Message(0, kWorld, Function::ncclSend, 1);
  job.Message(1, kWorld, Function::ncclRecv, 0);
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(1000);
  Expect(diagnosis, Kind::kTransportStall, Certainty::kLikely, {});  // it does not end, and neither of them is missed
  job.Finish({0, 1}, kWorld);
  EXPECT_TRUE(job.DiagnoseAt(1000).healthy());
}

TEST(Missing, TheHostInsideACallWaitsWithoutMarks) {
  Job job = Running(2);
  job.Marks(false);
  job.Enter(0, kWorld, AllReduce());
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kLikely, {1});
  EXPECT_EQ(diagnosis.findings[0].calls[0].state, CallState::kEntered);
}

TEST(Missing, AnUnclosedGroupIsACallNotMade) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  job.Group(
      2, [&] { job.Call({2}, kWorld, AllReduce()); }, false);
  Expect(job.DiagnoseAt(100), Kind::kMissingParticipant, Certainty::kLikely, {2});
}

TEST(Missing, FinishedCallsAreNoWaits) {
  Job job = Running(2);
  job.Done({0}, kWorld, Broadcast(0));  // a root may be done before the others come
  EXPECT_TRUE(job.DiagnoseAt(1000).healthy());
}

TEST(Missing, ARefusedCallIsTheLibrarysWord) {
  Job job = Running(3);
  job.Call({0, 1}, kWorld, AllReduce());
  job.Return(2, job.Enter(2, kWorld, AllReduce(4096, 99)), 4);
  Expect(job.DiagnoseAt(100), Kind::kLibraryError, Certainty::kLikely, {2});
}

TEST(Missing, TwoAreOneFinding) {
  Job job = Running(4);
  job.Call({0, 1}, kWorld, AllReduce());
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kLikely, {2, 3});
  EXPECT_EQ(diagnosis.findings.size(), 1u);
}

TEST(Missing, RanksThatNobodySeesAreAtMostSuspected) {
  Job job = Running(4);
  job.Call({0, 1, 2}, kWorld, AllReduce());
  job.Unseen(3);
  EXPECT_TRUE(job.DiagnoseAt(30).clean());
  const Diagnosis diagnosis = job.DiagnoseAt(1000);
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kSuspected, {3});
  EXPECT_EQ(diagnosis.findings[0].calls.back().state, CallState::kNotObserved);
  EXPECT_EQ(diagnosis.unseen_ranks, std::vector<int>{3});
  EXPECT_EQ(diagnosis.watched, 3);
  EXPECT_EQ(diagnosis.expected, 4);
}

TEST(Frozen, EachStateHasItsLimit) {
  const struct {
    Observed what;
    Certainty after_long;
  } cases[] = {{Observed::kStopped, Certainty::kLikely},
               {Observed::kStuck, Certainty::kLikely},
               {Observed::kTraced, Certainty::kSuspected},
               {Observed::kFrozen, Certainty::kSuspected},
               {Observed::kSilent, Certainty::kSuspected}};
  for (const auto& one : cases) {
    Job job = Running(3);
    job.Silence(1);
    job.Observe(1, one.what);
    job.Call({0, 2}, kWorld, AllReduce());
    EXPECT_TRUE(job.DiagnoseAt(10.5).healthy());
    Expect(job.DiagnoseAt(20), Kind::kFrozenProcess, Certainty::kSuspected, {1});
    Expect(job.DiagnoseAt(1000), Kind::kFrozenProcess, one.after_long, {1});
  }
}

TEST(Frozen, AStaleHeartbeatAloneIsOnlySuspected) {
  Job job = Running(2);
  job.Silence(1);
  job.Call({0}, kWorld, AllReduce());
  Expect(job.DiagnoseAt(1000), Kind::kFrozenProcess, Certainty::kSuspected, {1});
}

TEST(Frozen, RunningAgainIsNoLongerFrozen) {
  Job job = Running(2);
  job.Observe(1, Observed::kStopped);
  job.Call({0}, kWorld, AllReduce());
  job.At(20);
  job.Observe(1, Observed::kRunning);
  Expect(job.DiagnoseAt(30), Kind::kMissingParticipant, Certainty::kSuspected, {1});
}

TEST(Frozen, NobodyWaitsNobodyIsAccused) {
  Job job = Running(2);
  job.Silence(1);
  job.Observe(1, Observed::kStopped);
  EXPECT_TRUE(job.DiagnoseAt(1000).healthy());
}

TEST(Init, RanksThatHaveNotJoined) {
  Job job(4, false);
  job.Joining(4, {0, 1, 3});
  job.Unseen(2);
  job.Boxless(2, 5555);
  EXPECT_TRUE(job.DiagnoseAt(5).clean());
  Expect(job.DiagnoseAt(20), Kind::kInitializationHang, Certainty::kSuspected, {2});
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kInitializationHang, Certainty::kLikely, {2});
  EXPECT_EQ(diagnosis.findings[0].culprit_details[0].pid, 5555u);
  EXPECT_EQ(diagnosis.findings[0].culprit_details[0].host, "node7");
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 3}));
}

TEST(Init, TwoClaimsToOneRankThatDifferInTheSize) {
  Job job(2, false);
  job.Joining(2, {0, 1});
  diagnosis::Snapshot snapshot = job.Snapshot();
  snapshot.now_ns += 100'000'000'000;
  reader::BoxImage& second = snapshot.boxes[1];
  second.communicators[0].rank = snapshot.boxes[0].communicators[0].rank;
  second.communicators[0].size = 3;
  second.communicators[0].created_ns += 1;
  const Diagnosis reported = diagnosis::Diagnose(snapshot);
  for (const diagnosis::Finding& finding : reported.findings) EXPECT_NE(finding.certainty, Certainty::kCertain);
}

TEST(Init, ARankThatDoesNotExist) {
  Job job(4, false);
  job.Joining(5, {0, 1, 2, 3});
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kInitializationHang, Certainty::kLikely, {4});
  EXPECT_NE(diagnosis.findings[0].evidence[0].find("does not exist"), std::string::npos);
}

TEST(Init, DifferentSizesAreCertain) {
  Job job(4, false);
  const int comm = job.Joining(4, {0, 1, 2, 3});
  job.Entry(3, comm).size = 5;
  Expect(job.DiagnoseAt(0.5), Kind::kInitializationHang, Certainty::kCertain, {3});
}

TEST(Init, WhoDiedBeforeJoiningIsDead) {
  Job job(3, false);
  job.Joining(3, {0, 1});
  job.Die(2, Job::Status(1));
  Expect(job.DiagnoseAt(1), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(Init, AJoinedCommunicatorIsNothing) {
  Job job(4, false);
  job.Joining(4, {0, 1, 2, 3});
  EXPECT_TRUE(job.DiagnoseAt(5).healthy());
}

TEST(Init, ASplitThatOneRankDoesNotMake) {
  Job job = Running(4);
  const int child = job.Comm({0, 1, 3}, "", kWorld);
  for (int rank : {0, 1, 3}) {
    job.Entry(rank, child).state = format::CommunicatorState::kInitializing;
    job.Entry(rank, child).size = 0;
    job.Entry(rank, child).flags |= format::kCommRankUnknown;
    job.Entry(rank, kWorld).creations = 1;
    job.Other(rank, Function::ncclCommSplit, kWorld);
    job.Box(rank).calls.back().returned_ns = 0;
  }
  Expect(job.DiagnoseAt(100), Kind::kInitializationHang, Certainty::kLikely, {2});
}

Job OppositeOrder(std::uint64_t stream_a, std::uint64_t stream_b) {
  Job job = Running(2);
  const int other = job.Comm({0, 1});
  Spec first = AllReduce(10), second = AllReduce(20);
  first.stream = stream_a;
  second.stream = stream_b;
  job.Call({0}, kWorld, first);
  job.Call({0}, other, second);
  job.Call({1}, other, second);
  job.Call({1}, kWorld, first);
  return job;
}

TEST(Deadlock, OppositeOrderOnOneStreamIsProven) {
  Job job = OppositeOrder(0x10, 0x10);
  Expect(job.DiagnoseAt(2), Kind::kDeadlock, Certainty::kCertain, {0, 1});
}

TEST(Deadlock, OppositeOrderOnDifferentStreamsIsNotProven) {
  Job job = OppositeOrder(0x10, 0x20);
  EXPECT_TRUE(job.DiagnoseAt(2).healthy());
  for (const auto& finding : job.DiagnoseAt(1000).findings) EXPECT_NE(finding.certainty, Certainty::kCertain);
}

TEST(Deadlock, WithinOneGroupTheOrderIsNcclsOwn) {
  Job job = Running(2);
  const int other = job.Comm({0, 1});
  job.Group(0, [&] { job.Call({0}, kWorld, AllReduce(10)), job.Call({0}, other, AllReduce(20)); });
  job.Group(1, [&] { job.Call({1}, other, AllReduce(20)), job.Call({1}, kWorld, AllReduce(10)); });
  EXPECT_TRUE(job.DiagnoseAt(2).healthy());
}

TEST(Deadlock, ACycleOfHostsIsAMatterOfTime) {
  Job job = Running(2);
  const int other = job.Comm({0, 1});
  job.Call({0}, kWorld, AllReduce());  // and blocks before `other`
  job.Call({1}, other, AllReduce());
  EXPECT_TRUE(job.DiagnoseAt(5).healthy());
  Expect(job.DiagnoseAt(100), Kind::kDeadlock, Certainty::kLikely, {0, 1});
}

}  // namespace
}  // namespace ncclwatch::testing
