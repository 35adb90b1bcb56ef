// What simulated jobs (tests/jobs) have found: each of these was once judged wrongly.
#include "core/report/render.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;
using format::Observed;
using functions::Function;

constexpr std::int32_t kNcclSystemError = 2;

TEST(Jobs, AZeroCountIsTheCauseOfWhatItsNextCallMeets) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Call({2}, kWorld, AllReduce(0));
  job.Call({2}, kWorld, AllGather());
  Expect(job.Diagnose(), Kind::kArgumentMismatch, Certainty::kCertain, {2});
}

// Hosts run ahead: the calls that they have made before need not be the ones that they wait in.
TEST(Jobs, WithoutMarksWhoLeftIsMissedInTheCallThatItNeverMade) {
  Job job = Running(4);
  job.Marks(false);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Die(2, Job::Status(0));
  job.Pass(0.2);
  job.Call({0, 1, 3}, kWorld, AllReduce(77));
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kEarlyExit, Certainty::kLikely, {2});
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings[0].position, 4u);
}

// NCCL failed it on another communicator than the one that most wait in.
TEST(Jobs, AnErrorAfterWhichNothingCameIsTheReason) {
  Job job = Running(3);
  const int pair = job.Comm({1, 2});
  job.Call({0, 1}, kWorld, AllReduce());
  const std::uint64_t slot = job.Enter(2, pair, AllReduce());
  job.Return(2, slot, kNcclSystemError);
  job.Box(2).words.errors.push_back({job.now_ns(), slot, Function::ncclAllReduce, job.Entry(2, pair).index, 0,
                                     kNcclSystemError, 1, false, "no route"});
  job.Pass(11);
  Expect(job.Diagnose(), Kind::kLibraryError, Certainty::kSuspected, {2});
}

TEST(Jobs, WhoIsMissingInAPartOfTheJobIsTheOneThatDoesNothing) {
  Job job = Running(4);
  const int part = job.Comm({1, 3});
  for (const int rank : {1, 3}) {
    job.State({rank}, part, format::CommunicatorState::kInitializing);
    job.Entry(rank, part).size = 3;
  }
  job.Call({0}, kWorld, AllReduce());  // waits for all of them
  Expect(job.DiagnoseAt(12), Kind::kInitializationHang, Certainty::kSuspected, {2});
}

// Nobody saw how the first one died, and it has not been still for half a second since the last one did.
TEST(Jobs, WhoIsBlamedByThoseThatDieLaterWasFirst) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Die(2, Job::Unknown());
  job.Pass(1);
  constexpr std::int32_t kRemoteError = 6;
  job.Box(1).words.errors.push_back({job.now_ns(), ~std::uint64_t{0}, Function::ncclCommGetAsyncError,
                                     job.Entry(1, kWorld).index, 0, kRemoteError, 1, true, "Connection closed"});
  job.Pass(0.3);
  job.Die(1, Job::Status(1));
  job.Pass(0.1);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {2});
}

// Where a box is missing, the one that it would have shown may be the first.
TEST(Jobs, AnErrorThatBlamesAPeerIsNotCertainWhileSomebodyIsUnseen) {
  for (const bool seen : {true, false}) {
    Job job = Running(4);
    job.Call({0, 1, 3}, kWorld, AllReduce());
    job.Box(1).words.errors.push_back({job.now_ns(), ~std::uint64_t{0}, Function::ncclCommGetAsyncError,
                                       job.Entry(1, kWorld).index, 0, kNcclSystemError, 1, true, "Connection closed"});
    job.Pass(0.3);
    job.Die(1, Job::Status(1));
    if (!seen) job.Unseen(2);
    job.Pass(0.1);
    Expect(job.Diagnose(), Kind::kLibraryError, seen ? Certainty::kCertain : Certainty::kLikely, {1});
  }
}

TEST(Jobs, ADeathAfterALongWaitForTheUnseenIsNotCertainlyTheFirst) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Unseen(2);
  job.Pass(30);
  job.Die(1, Job::Signal(6));
  job.Pass(0.1);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kLikely, {1});
}

// What has to go to another node goes through a thread of the process.
TEST(Jobs, AStoppedProcessIsMissedInACallThatItHasMade) {
  Job job = Running(4);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  job.Silence(2);
  job.Observe(2, Observed::kStopped);
  Expect(job.DiagnoseAt(100), Kind::kFrozenProcess, Certainty::kLikely, {2});
}

TEST(Jobs, AStoppedProcessThatIsDoneWithItsCallsIsNotMissed) {
  Job job = Running(4);
  job.Done({0, 1, 2, 3}, kWorld, AllReduce());
  job.Silence(2);
  job.Observe(2, Observed::kStopped);
  EXPECT_TRUE(job.DiagnoseAt(100).healthy());
}

TEST(Jobs, AStoppedProcessHoldsUpACommunicatorThatAllHaveJoined) {
  Job job(4, false);
  job.Joining(4, {0, 1, 2, 3});
  job.Silence(2);
  job.Observe(2, Observed::kStuck);
  Expect(job.DiagnoseAt(100), Kind::kFrozenProcess, Certainty::kLikely, {2});
}

TEST(Jobs, ADifferenceBehindLostCallsIsNotProvenToBeTheFirst) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Call({2}, kWorld, AllReduce(3));
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Call({2}, kWorld, AllGather());
  for (const int rank : {0, 1, 2, 3}) {
    reader::BoxImage& box = job.Box(rank);
    box.calls.erase(box.calls.begin(), box.calls.end() - 1);
    box.first_slot = box.calls.front().slot;
  }
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kLikely, {2});
}

// Behind a call too few on one rank, positions say no longer which calls belong together.
TEST(Jobs, OrdersBehindAMismatchProveNoDeadlock) {
  Job job = Running(2);
  const int other = job.Comm({0, 1});
  job.Call({0}, kWorld, AllReduce(5));
  job.Call({0, 1}, kWorld, AllReduce(6));
  job.Call({0, 1}, other, AllReduce(7));
  job.Call({1}, kWorld, AllReduce(8));
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(2);
  Expect(diagnosis, Kind::kArgumentMismatch, Certainty::kCertain, {0, 1});
  for (const diagnosis::Finding& finding : diagnosis.findings) EXPECT_NE(finding.kind, Kind::kDeadlock);
}

TEST(Jobs, AMessageOfAnotherSizeIsOne) {
  Job job = Running(3);
  job.Message(0, kWorld, Function::ncclSend, 1, 1024);
  job.Message(1, kWorld, Function::ncclRecv, 0, 2048);
  job.Call({0, 2}, kWorld, AllReduce());
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(2);
  Expect(diagnosis, Kind::kPointToPointMismatch, Certainty::kCertain, {0, 1});
  ASSERT_EQ(diagnosis.findings.size(), 1u) << diagnosis::ToText(diagnosis);
  EXPECT_EQ(diagnosis.findings[0].calls.at(1).count, 2048u);
}

// Everybody sends to everybody; all messages of `wrong` have another size, or it leaves them out.
void Exchange(Job* job, int ranks, int wrong, bool left_out) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (left_out && rank == wrong) continue;
    job->Group(rank, [&] {
      for (int peer = 0; peer < ranks; ++peer) {
        job->Message(rank, kWorld, Function::ncclSend, peer, rank == wrong ? 512 : 1024);
        job->Message(rank, kWorld, Function::ncclRecv, peer, rank == wrong ? 512 : 1024);
      }
    });
  }
}

TEST(Jobs, WhoDisagreesWithAllOthersAboutSizesIsLikelyWrong) {
  Job job = Running(4);
  Exchange(&job, 4, 2, /*left_out=*/false);
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(2);
  Expect(diagnosis, Kind::kPointToPointMismatch, Certainty::kLikely, {2});
  EXPECT_EQ(diagnosis.findings.size(), 1u) << diagnosis::ToText(diagnosis);
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 3}));
}

TEST(Jobs, WhoLeavesOutAnExchangeIsNamedNotTheCycle) {
  Job job = Running(4);
  Exchange(&job, 4, 2, /*left_out=*/true);
  job.Call({2}, kWorld, AllReduce());
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kPointToPointMismatch, Certainty::kLikely, {2});
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 3}));
}

// As many have left it out as have not.
TEST(Jobs, WhetherHalfOfTheRanksOrTheOthersAreWrongIsNotKnown) {
  Job job = Running(2);
  Exchange(&job, 2, 1, /*left_out=*/true);
  job.Call({1}, kWorld, AllReduce());
  Expect(job.DiagnoseAt(100), Kind::kDeadlock, Certainty::kLikely, {0, 1});
}

TEST(Jobs, AMessageOfAnotherSizeThatEndedIsNotProven) {
  Job job = Running(2);
  job.Message(0, kWorld, Function::ncclSend, 1, 1024);
  job.Message(1, kWorld, Function::ncclRecv, 0, 2048);
  job.Finish({0, 1}, kWorld);
  Expect(job.DiagnoseAt(2), Kind::kPointToPointMismatch, Certainty::kLikely, {0, 1});
}

TEST(Jobs, MessagesOfOneSizeAreNothing) {
  Job job = Running(2);
  for (const std::uint64_t count : {1024, 0, 7}) {
    job.Message(0, kWorld, Function::ncclSend, 1, count);
    job.Message(1, kWorld, Function::ncclRecv, 0, count);
  }
  job.Finish({0, 1}, kWorld);
  EXPECT_TRUE(job.DiagnoseAt(1000).healthy());
}

TEST(Jobs, ACallThatAllHaveLaunchedAndNoGpuEnds) {
  Job job = Running(4);
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  EXPECT_TRUE(job.DiagnoseAt(5).healthy());
  Expect(job.DiagnoseAt(12), Kind::kTransportStall, Certainty::kSuspected, {});
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kTransportStall, Certainty::kLikely, {});
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 2, 3}));
}

// Its GPU may get to it only after what it launched before, on whatever stream.
TEST(Jobs, ACallBehindAnotherUnfinishedOneIsNotTheCause) {
  Job job = Running(4);
  const int pair = job.Comm({0, 1});
  job.Call({0, 1, 2, 3}, kWorld, AllReduce());
  Spec aside = AllReduce();
  aside.stream = 0x20;
  job.Call({0, 1}, pair, aside);
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(100);
  ASSERT_EQ(diagnosis.findings.size(), 1u) << diagnosis::ToText(diagnosis);
  EXPECT_EQ(diagnosis.findings[0].communicator->size, 4u);
}

TEST(Jobs, AReceiveBeforeACollectiveAndItsSendAfterItAreADeadlock) {
  Job job = Running(3);
  job.Call({0, 2}, kWorld, AllReduce());
  job.Message(0, kWorld, Function::ncclSend, 1);
  job.Message(1, kWorld, Function::ncclRecv, 0);
  job.Call({1}, kWorld, AllReduce());
  Expect(job.DiagnoseAt(2), Kind::kDeadlock, Certainty::kCertain, {0, 1});
}

// They might have been taken in by buffers.
TEST(Jobs, SendsToOneAnotherBeforeReceivingAreADeadlockWhenTheyLast) {
  Job job = Running(3);
  for (const int rank : {0, 1}) {
    job.Message(rank, kWorld, Function::ncclSend, 1 - rank);
    job.Message(rank, kWorld, Function::ncclRecv, 1 - rank);
  }
  EXPECT_TRUE(job.DiagnoseAt(5).healthy());
  Expect(job.DiagnoseAt(100), Kind::kDeadlock, Certainty::kLikely, {0, 1});
}

TEST(Jobs, AGroupAgainstTheOrderOfTheOthersIsADeadlockWhenItLasts) {
  Job job = Running(3);
  const int other = job.Comm({0, 1, 2});
  job.Group(0, [&] { job.Call({0}, kWorld, AllReduce(10)), job.Call({0}, other, AllReduce(20)); });
  job.Call({1, 2}, other, AllReduce(20));
  job.Call({1, 2}, kWorld, AllReduce(10));
  EXPECT_TRUE(job.DiagnoseAt(5).healthy());
  Expect(job.DiagnoseAt(100), Kind::kDeadlock, Certainty::kLikely, {0, 1, 2});
}

TEST(Jobs, GroupsOnAllRanksAreNoDeadlock) {
  Job job = Running(3);
  const int other = job.Comm({0, 1, 2});
  for (const int rank : {0, 1, 2})
    job.Group(rank, [&] { job.Call({rank}, kWorld, AllReduce(10)), job.Call({rank}, other, AllReduce(20)); });
  for (const diagnosis::Finding& finding : job.DiagnoseAt(100).findings) EXPECT_NE(finding.kind, Kind::kDeadlock);
}

// Monitors take down what stands still, then their ranks; the launcher ends the rest.
TEST(Jobs, WhatStoodStillBeforeTheFirstAbortIsTheCause) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());  // rank 2 is elsewhere
  job.Pass(600);
  for (const int rank : {1, 3}) {
    job.Abort({rank}, kWorld);
    job.Die(rank, Job::Signal(6));
    job.Pass(0.2);
  }
  for (const int rank : {2, 0}) job.Die(rank, Job::Signal(15));
  job.Pass(1);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kLikely, {2});
}

// The one that dies first is in the cycle itself: that is no reason to take its death for the cause.
TEST(Jobs, WhoWaitsInACycleDiesOfIt) {
  Job job = Running(4);
  const int part = job.Comm({0, 1});
  job.Call({0}, part, AllReduce());
  job.Call({1, 2, 3}, kWorld, AllReduce());
  job.Pass(600);
  job.Die(0, Job::Signal(6));
  job.Pass(0.7);
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kLikely, {0, 1});
}

// Its last call is long over when it dies: it was dying, and nothing else was wrong.
TEST(Jobs, WhoDoesNothingAndDiesWasDying) {
  Job job = Running(4);
  job.Call({0, 1, 3}, kWorld, AllReduce());
  job.Pass(12);
  job.Die(2, Job::Signal(11));
  job.Pass(0.7);
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {2});
}

TEST(Jobs, WhoeverIsMissedInACollectiveIsMissingHoweverManyWaitForItsMessages) {
  Job job = Running(4);
  for (const int rank : {0, 1}) job.Message(rank, kWorld, Function::ncclRecv, 3);
  job.Call({2}, kWorld, AllReduce());
  Expect(job.DiagnoseAt(12), Kind::kMissingParticipant, Certainty::kSuspected, {3});
}

// Rank 0's second stream waits for its first by an event: nothing says so.
TEST(Jobs, ACycleOverStreamsIsOnlySuspected) {
  Job job = Running(2);
  const int other = job.Comm({0, 1});
  Spec second = AllReduce(7);
  second.stream = 0x7f0020;
  job.Call({0}, kWorld, AllReduce());
  job.Call({0}, other, second);
  job.Call({1}, other, second);
  job.Call({1}, kWorld, AllReduce());
  Expect(job.DiagnoseAt(100), Kind::kDeadlock, Certainty::kSuspected, {0, 1});
}

// A column of the job's ranks: 1, 3, 5 and whoever lies at the same distance. Rank 6 does nothing either.
TEST(Jobs, WhoHasNotJoinedAColumnIsReportedByItsPlace) {
  Job job = Running(8);
  const int column = job.Joining(4, {1, 3, 5});
  for (const int rank : {1, 3, 5}) job.Entry(rank, column).rank = static_cast<std::uint32_t>(rank / 2);
  Expect(job.DiagnoseAt(100), Kind::kInitializationHang, Certainty::kLikely, {7});
}

// Buffers took the message in: nobody waits to send it, and it does not arrive.
TEST(Jobs, AMessageThatIsSentAndDoesNotArriveIsAStall) {
  Job job = Running(4);
  job.Message(0, kWorld, Function::ncclSend, 1);
  job.Finish({0}, kWorld);
  job.Message(1, kWorld, Function::ncclRecv, 0);
  const diagnosis::Diagnosis diagnosis = job.DiagnoseAt(100);
  Expect(diagnosis, Kind::kTransportStall, Certainty::kLikely, {});
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings[0].victims, std::vector<int>{1});
}

}  // namespace
}  // namespace ncclwatch::testing
