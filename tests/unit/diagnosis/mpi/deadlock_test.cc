// Cycles of MPI's calls: what proves them, and what looks like one and is none.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;

void ExpectDeadlock(const MpiJob& job, const std::vector<int>& culprits) {
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, culprits);
}

// Neither now nor ever certain; nothing at all before the time-out.
void ExpectNeverCertain(MpiJob job) {
  for (const double seconds : {0.0, 5.0, 100.0}) {
    job.Pass(seconds);
    for (const diagnosis::Finding& finding : job.Diagnose().findings) {
      EXPECT_NE(Name(finding.certainty), Name(Certainty::kCertain)) << finding.summary;
      EXPECT_GT(seconds, 5.0) << finding.summary;
    }
  }
}

void ExpectHealthy(MpiJob job) {
  for (const double seconds : {0.0, 5.0}) {
    job.Pass(seconds);
    for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
  }
}

TEST(MpiDeadlock, TwoReceives) {
  MpiJob job(2);
  job.Recv(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  ExpectDeadlock(job, {0, 1});
}

TEST(MpiDeadlock, OneThatReceivesFromItself) {
  MpiJob job(2);
  job.Recv(1, {.peer = 1});
  ExpectDeadlock(job, {1});
}

TEST(MpiDeadlock, OneThatSendsToItself) {
  MpiJob job(2);
  job.Ssend(1, {.peer = 1});
  ExpectDeadlock(job, {1});
}

TEST(MpiDeadlock, WhatOneHasSentToItselfIsThere) {
  MpiJob job(2);
  job.Isend(1, {.peer = 1});
  job.Recv(1, {.peer = 1});
  ExpectHealthy(job);
  MpiJob other(2);
  other.Irecv(1, {.peer = 1});
  other.Ssend(1, {.peer = 1});
  ExpectHealthy(other);
}

TEST(MpiDeadlock, AnotherThreadMaySendToIt) {
  MpiJob job(2);
  job.Recv(1, {.peer = 1});
  for (reader::Communicator& comm : job.Box(1).communicators) comm.color = 3;  // MPI_THREAD_MULTIPLE
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, RingOfReceives) {
  MpiJob job(5);
  for (int rank = 0; rank < 5; ++rank) job.Recv(rank, {.peer = (rank + 1) % 5});
  ExpectDeadlock(job, {0, 1, 2, 3, 4});
}

TEST(MpiDeadlock, ARingWithoutOneIsNone) {
  MpiJob job(5);
  for (int rank = 0; rank < 4; ++rank) job.Recv(rank, {.peer = (rank + 1) % 5});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, RingOfSynchronousSends) {
  MpiJob job(4);
  for (int rank = 0; rank < 4; ++rank) job.Ssend(rank, {.peer = (rank + 1) % 4});
  ExpectDeadlock(job, {0, 1, 2, 3});
}

TEST(MpiDeadlock, SendThatAnOpenReceiveTakesIsNotHeld) {
  MpiJob job(2);
  job.Irecv(1, {.peer = 0});
  job.Ssend(0, {.peer = 1});
  job.Recv(1, {.peer = 0, .tag = 9});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, TheOthersWaitForTheCycle) {
  MpiJob job(4);
  job.Recv(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  job.Recv(2, {.peer = 0});
  job.Collective(3, Function::MPI_Barrier);
  ExpectDeadlock(job, {0, 1});
}

TEST(MpiDeadlock, CollectiveAgainstReceive) {
  MpiJob job(2);
  job.Collective(0, Function::MPI_Barrier);
  job.Recv(1, {.peer = 0});
  ExpectDeadlock(job, {0, 1});
}

// Rank 1 waits for wildcard, 2 for 1, and 0, in a loop of tests, for 2: it may do something else in between.
TEST(MpiDeadlock, WhoTestsInALoopMayFreeWhoWaitsForAnyRank) {
  MpiJob job(3);
  job.Recv(1, {.peer = kAny});
  job.Recv(2, {.peer = 1});
  job.Poll(0, Function::MPI_Test, {job.Irecv(0, {.peer = 2})});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, NobodyWaitsForThoseWhoHaveFreedTheCommunicator) {
  MpiJob job(3);
  const int other = job.MpiComm({0, 1, 2});
  job.State({2}, other, format::CommunicatorState::kDestroyed);
  job.Recv(1, {.peer = kAny, .comm = other});
  job.Recv(0, {.peer = 1});
  job.Collective(2, Function::MPI_Barrier);
  ExpectDeadlock(job, {0, 1});
}

// A fence need not wait for all, but who is still inside does.
TEST(MpiDeadlock, FenceAgainstBarrier) {
  for (const Function function : {Function::MPI_Win_fence, Function::MPI_Win_free}) {
    MpiJob job(3);
    const int window = job.MpiComm({0, 1, 2});
    for (const int rank : {0, 1, 2}) job.Entry(rank, window).flags |= format::kCommWindow;
    for (const int rank : {0, 1}) job.Collective(rank, function, format::kNoRank, window);
    job.Collective(2, Function::MPI_Barrier);
    job.Pass(0.4);
    for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
    job.Pass(0.2);
    ExpectDeadlock(job, {0, 2});
  }
}

TEST(MpiDeadlock, RootOfABroadcastWaitsForNobody) {
  MpiJob job(2);
  job.Collective(0, Function::MPI_Bcast, 0);
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, OthersOfABroadcastWaitForItsRoot) {
  MpiJob job(2);
  job.Collective(1, Function::MPI_Bcast, 0);
  job.Recv(0, {.peer = 1});
  ExpectDeadlock(job, {0, 1});
}

TEST(MpiDeadlock, RootOfAReductionWaitsForAll) {
  for (const int root : {0, 1}) {
    MpiJob job(2);
    job.Collective(0, Function::MPI_Reduce, root);
    job.Recv(1, {.peer = 0});
    root == 0 ? ExpectDeadlock(job, {0, 1}) : ExpectNeverCertain(job);
  }
}

TEST(MpiDeadlock, WildcardInACycleWithABarrier) {
  MpiJob job(3);
  job.Recv(0, {.peer = kAny});
  job.Collective(1, Function::MPI_Barrier);
  job.Collective(2, Function::MPI_Barrier);
  const auto findings = job.Diagnose().findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(Name(findings[0].kind), Name(Kind::kDeadlock));
  EXPECT_EQ(Name(findings[0].certainty), Name(Certainty::kCertain));
  EXPECT_EQ(findings[0].culprits.front(), 0);
}

// Any other one of them would have freed the rest: all are of the cycle.
TEST(MpiDeadlock, AllWaitForAnyRank) {
  MpiJob job(4);
  for (int rank = 0; rank < 4; ++rank) job.Recv(rank, {.peer = kAny});
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {0, 1, 2, 3});
}

// MPI_Comm_create_group is made by its group alone: it is no other operation on the communicator.
TEST(MpiDeadlock, GroupAgainstBarrier) {
  MpiJob job(4);
  for (const int rank : {0, 1}) job.CreateGroup(rank, {0, 1, 2}, 0x77);
  for (const int rank : {2, 3}) job.Collective(rank, Function::MPI_Barrier);
  job.Pass(100.0);
  const auto findings = job.Diagnose().findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(Name(findings[0].kind), Name(Kind::kDeadlock)) << findings[0].summary;
  EXPECT_EQ(findings[0].culprits, (std::vector<int>{0, 2}));
}

TEST(MpiDeadlock, AnyMessageMayComeFromTheOneWhoIsFree) {
  MpiJob job(3);
  job.Recv(0, {.peer = kAny});
  job.Collective(1, Function::MPI_Barrier);
  ExpectHealthy(job);
}

TEST(MpiDeadlock, AnyMessageMayComeFromSomebodyUnseen) {
  MpiJob job(3);
  job.Recv(0, {.peer = kAny});
  job.Recv(1, {.peer = 0});
  job.Recv(2, {.peer = 0});
  ExpectDeadlock(job, {0, 1, 2});
  job.Unseen(2);
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, AnyRankMayHaveSentWhatTheRingHasLost) {
  MpiJob job(3);
  job.Sent(2, {.peer = 0});
  job.Forget(2, 1);
  job.Recv(0, {.peer = kAny});
  job.Recv(1, {.peer = 0});
  job.Recv(2, {.peer = 0, .tag = 1});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, OneMayHaveSentWhatTheRingHasLost) {
  MpiJob job(2);
  job.Sent(1, {.peer = 0});
  job.Forget(1, 1);
  job.Recv(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, WaitanyIsHeldByAllOfItsRequests) {
  for (const bool free : {false, true}) {
    MpiJob job(3);
    const auto one = job.Irecv(0, {.peer = 1}), two = job.Irecv(0, {.peer = 2});
    job.Wait(0, Function::MPI_Waitany, {one, two});
    job.Recv(1, {.peer = 0});
    if (!free) job.Recv(2, {.peer = 0});
    free ? ExpectHealthy(job) : ExpectDeadlock(job, {0, 1, 2});
  }
}

TEST(MpiDeadlock, WaitanyIsFreedByAMessageThatHasCome) {
  MpiJob job(3);
  job.Sent(2, {.peer = 0});
  const auto one = job.Irecv(0, {.peer = 1}), two = job.Irecv(0, {.peer = 2});
  job.Wait(0, Function::MPI_Waitany, {one, two});
  job.Recv(1, {.peer = 0});
  job.Recv(2, {.peer = 0});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, WaitanyOfABarrierIsFreedByAMessage) {
  MpiJob job(2);
  const auto barrier = job.Collective(0, Function::MPI_Ibarrier);
  job.At(0, barrier).flags |= format::kRequest;
  job.Return(0, barrier);
  job.Sent(1, {.peer = 0});
  const auto message = job.Irecv(0, {.peer = 1});
  job.Wait(0, Function::MPI_Waitany, {barrier, message});
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

// Not all requests have been told so far who waits for them, or one is of a kind that nobody watches.
TEST(MpiDeadlock, WaitanyOfMoreThanIsKnownProvesNothing) {
  MpiJob job(2);
  const auto one = job.Irecv(0, {.peer = 1});
  const auto wait = job.Wait(0, Function::MPI_Waitany, {one});
  job.Recv(1, {.peer = 0});
  ExpectDeadlock(job, {0, 1});
  job.At(0, wait).count = 2;
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, WaitallIsHeldByOneOfItsRequests) {
  MpiJob job(3);
  job.Sent(2, {.peer = 0});
  const auto one = job.Irecv(0, {.peer = 1}), two = job.Irecv(0, {.peer = 2});
  job.Recv(1, {.peer = 0});
  ExpectHealthy(job);  // nobody waits for the requests
  job.Wait(0, Function::MPI_Waitall, {one, two});
  ExpectDeadlock(job, {0, 1});
}

// The sends of a Waitall may be in buffers; its receives are what proves.
TEST(MpiDeadlock, WaitallOfSmallSendsAndReceivesThatNobodyServes) {
  MpiJob job(2);
  for (const int rank : {0, 1}) {
    const auto send = job.Isend(rank, {.peer = 1 - rank, .tag = 1});
    const auto receive = job.Irecv(rank, {.peer = 1 - rank, .tag = 2});
    job.Wait(rank, Function::MPI_Waitall, {send, receive});
  }
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kCertain, {0, 1});
}

TEST(MpiDeadlock, AnotherThreadMayHelp) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1});
  job.Received(1, {.peer = 0});
  job.Recv(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  ExpectDeadlock(job, {0, 1});
  job.Box(1).calls.back().thread += 1;
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, StandardSendsAreHeldOnceTheyHaveNotComeBackSoon) {
  MpiJob job(2);
  for (const int rank : {0, 1}) job.Send(rank, {.peer = 1 - rank, .bytes = kLarge});
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(0.4);
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(0.2);
  ExpectDeadlock(job, {0, 1});
}

TEST(MpiDeadlock, SmallStandardSendsAreNeverProven) {
  MpiJob job(2);
  for (const int rank : {0, 1}) job.Send(rank, {.peer = 1 - rank, .bytes = 1024});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, BufferedSendsWaitForNobody) {
  MpiJob job(2);
  for (const int rank : {0, 1})
    job.Send(rank, {.peer = 1 - rank, .bytes = kLarge, .function = Function::MPI_Bsend, .flags = format::kBuffered});
  ExpectHealthy(job);
}

// MPI_Wait returns then, whatever others do.
TEST(MpiDeadlock, WhatIsBeingCancelledWaitsForNobody) {
  for (const bool sends : {false, true}) {
    MpiJob job(2);
    const auto request = sends ? job.Isend(0, {.peer = 1, .bytes = kLarge, .function = Function::MPI_Issend})
                               : job.Irecv(0, {.peer = 1});
    job.At(0, request).flags |= format::kCancelled;
    job.Wait(0, Function::MPI_Wait, {request});
    job.Recv(1, {.peer = 0, .tag = 7});
    ExpectNeverCertain(job);
  }
}

// How long ago a send was called says nothing of how long somebody has waited for it.
TEST(MpiDeadlock, ASendIsHeldFromWhereItIsWaitedFor) {
  MpiJob job(2);
  std::vector<std::uint64_t> sends;
  for (const int rank : {0, 1}) sends.push_back(job.Isend(rank, {.peer = 1 - rank, .bytes = kLarge}));
  job.Pass(5);
  for (const int rank : {0, 1}) job.Wait(rank, Function::MPI_Wait, {sends[static_cast<std::size_t>(rank)]});
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Pass(1.1);
  ExpectDeadlock(job, {0, 1});
}

TEST(MpiDeadlock, APolledRequestIsNeverProven) {
  MpiJob job(2);
  const auto receive = job.Irecv(0, {.peer = 1});
  job.Poll(0, Function::MPI_Test, {receive});
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, APolledBarrierIsNeverProven) {
  MpiJob job(2);
  const auto barrier = job.Collective(0, Function::MPI_Ibarrier);
  job.At(0, barrier).flags |= format::kRequest;
  job.Return(0, barrier);
  job.Poll(0, Function::MPI_Test, {barrier});
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, APolledProbeIsNeverProven) {
  MpiJob job(2);
  job.PollProbe(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, AProbeWaitsAsAReceiveDoes) {
  MpiJob job(2);
  job.Probe(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  ExpectDeadlock(job, {0, 1});
}

TEST(MpiDeadlock, AProbeFindsWhatHasBeenSent) {
  MpiJob job(2);
  job.Sent(1, {.peer = 0});
  job.Probe(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

// The message was taken by the probe: all that a matched receive waits for is its content.
TEST(MpiDeadlock, AMatchedReceiveWaitsForNoCall) {
  MpiJob job(2);
  job.Sent(1, {.peer = 0});
  job.Probe(0, {.peer = 1, .function = Function::MPI_Mprobe});
  job.Return(0, job.Box(0).calls.back().slot);
  job.Irecv(0, {.peer = 1});
  job.Recv(0, {.peer = 1, .function = Function::MPI_Mrecv});
  job.Recv(1, {.peer = 0});
  ExpectNeverCertain(job);
}

TEST(MpiDeadlock, AStoppedProcessMayGoOn) {
  MpiJob job(2);
  job.Recv(0, {.peer = 1});
  job.Recv(1, {.peer = 0});
  job.Observe(1, format::Observed::kStopped);
  ExpectNeverCertain(job);
}

// Ranks of the two groups bear the same numbers.
TEST(MpiDeadlock, BetweenTwoGroupsNothingIsSaid) {
  MpiJob job(4);
  const int comm = job.MpiComm({0, 1, 2, 3});
  for (int rank = 0; rank < 4; ++rank) {
    job.Entry(rank, comm).flags |= format::kCommInter;
    job.Entry(rank, comm).rank = static_cast<std::uint32_t>(rank % 2);
    job.Entry(rank, comm).size = 2;
  }
  job.Recv(0, {.peer = 1, .comm = comm});
  job.Recv(1, {.peer = 0, .comm = comm});
  ExpectHealthy(job);
}

// ... unless they count through both.
TEST(MpiDeadlock, BetweenTwoGroupsOfWhichBothAreKnown) {
  MpiJob job(4);
  const int comm = job.MpiComm({0, 1, 2, 3});
  for (int rank = 0; rank < 4; ++rank) job.Entry(rank, comm).flags |= format::kCommInter | format::kCommBothGroups;
  job.Recv(0, {.peer = 2, .comm = comm});
  job.Recv(2, {.peer = 0, .comm = comm});
  ExpectDeadlock(job, {0, 2});
}

// Two messages in an order that only buffers allow.
TEST(MpiDeadlock, OfTwoUsualTagsOnlyTheOrderIsWrong) {
  MpiJob job(2);
  job.Ssend(0, {.peer = 1, .tag = 7});
  job.Recv(1, {.peer = 0, .tag = 6});
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kCertain, {0, 1});
  MpiJob later(2);
  for (const int tag : {7, 6}) {
    later.Sent(0, {.peer = 1, .tag = tag});
    later.Received(1, {.peer = 0, .tag = tag});
  }
  later.Ssend(0, {.peer = 1, .tag = 7});
  later.Recv(1, {.peer = 0, .tag = 6});
  ExpectDeadlock(later, {0, 1});
}

// One that holds nobody does not hide the others.
TEST(MpiDeadlock, WrongTagsBesideASendThatMayLieInABuffer) {
  MpiJob job(4);
  job.Isend(3, {.peer = 0, .bytes = 1u << 30});
  job.Wait(0, Function::MPI_Waitall,
           {job.Irecv(0, {.peer = 3, .bytes = 1u << 30}), job.Isend(0, {.peer = 1, .tag = 3, .bytes = 2000})});
  std::vector<std::uint64_t> open[3];
  for (const int rank : {1, 2})
    open[rank] = {job.Isend(rank, {.peer = 3 - rank, .tag = 15}), job.Irecv(rank, {.peer = 3 - rank, .tag = 5})};
  for (int second = 0; second < 100; ++second) {
    for (const int rank : {1, 2}) job.Poll(rank, Function::MPI_Testall, open[rank]);
    job.Pass(1.0);
  }
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kLikely, {1, 2});
}

}  // namespace
}  // namespace ncclwatch::testing
