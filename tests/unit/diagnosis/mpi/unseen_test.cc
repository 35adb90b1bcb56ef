// What no record tells of an MPI program: receives that were given up, or that the ring has lost, messages in
// callbacks, requests of which nothing is known, ranks that were left out. Nobody is accused over it.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;
using format::CommunicatorState;

void ExpectUnseenNeverCertain(MpiJob job) {
  for (const double seconds : {0.0, 5.0, 100.0}) {
    job.Pass(seconds);
    for (const diagnosis::Finding& finding : job.Diagnose().findings)
      EXPECT_NE(Name(finding.certainty), Name(Certainty::kCertain)) << finding.summary;
  }
}

// A send that waits for its receiver, who waits for another message of the same rank.
void CrossedTags(MpiJob* job) {
  job->Ssend(0, {.peer = 1, .tag = 7});
  job->Recv(1, {.peer = 0, .tag = 6});
}

TEST(MpiUnseen, WithoutThemItIsCertain) {
  MpiJob job(2);
  CrossedTags(&job);
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kCertain, {0, 1});
}

TEST(MpiUnseen, AReceiveWhoseRequestWasFreed) {
  MpiJob job(2);
  const auto receive = job.Irecv(1, {.peer = 0, .tag = 7});
  job.At(1, receive).flags |= format::kForgotten;
  CrossedTags(&job);
  ExpectUnseenNeverCertain(job);
}

TEST(MpiUnseen, AReceiveThatTheRingHasLost) {
  MpiJob job(2);
  CrossedTags(&job);
  job.Entry(1, Job::kWorld).flags |= format::kCommLostReceives;
  ExpectUnseenNeverCertain(job);
}

TEST(MpiUnseen, AMessageThatALostReceiveHasTaken) {
  MpiJob job(2);
  for (const std::uint64_t bytes : {100, 8}) job.Sent(0, {.peer = 1, .bytes = bytes});
  job.Received(1, {.peer = 0, .bytes = 8});
  job.Entry(1, Job::kWorld).flags |= format::kCommLostReceives;
  ExpectUnseenNeverCertain(job);
}

TEST(MpiUnseen, AMessageThatAProbeHoldsBack) {
  MpiJob job(2);
  for (const std::uint64_t bytes : {100, 8}) job.Sent(0, {.peer = 1, .bytes = bytes});
  job.Return(1, job.Probe(1, {.peer = 0, .function = Function::MPI_Mprobe}));
  job.Received(1, {.peer = 0, .bytes = 8});
  ExpectUnseenNeverCertain(job);
}

// ... until all ranks have come to MPI_Finalize.
TEST(MpiUnseen, AMessageThatAProbeHeldBackForEver) {
  MpiJob job(2);
  job.Sent(0, {.peer = 1});
  job.Return(1, job.Probe(1, {.peer = 0, .function = Function::MPI_Mprobe}));
  for (const int rank : {0, 1}) job.Finalize(rank);
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kLikely, {0, 1});
}

TEST(MpiUnseen, MessagesInCallbacks) {
  MpiJob job(2);
  for (const std::uint64_t bytes : {40, 4}) job.Sent(0, {.peer = 1, .bytes = bytes});
  job.Received(1, {.peer = 0, .bytes = 4});
  job.Entry(1, Job::kWorld).flags |= format::kCommUnseenMessages;
  ExpectUnseenNeverCertain(job);
}

// ... of which there is nothing else between the two.
TEST(MpiUnseen, TheOnlyMessageInACallback) {
  MpiJob job(2);
  job.Recv(0, {.peer = 1, .tag = 5});
  job.Recv(1, {.peer = 0, .tag = 4});
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {0, 1});
  job.Entry(0, Job::kWorld).flags |= format::kCommUnseenMessages;
  ExpectUnseenNeverCertain(job);
}

// Any of several does, and one of them is nobody's here.
TEST(MpiUnseen, ARequestThatMayEndAtAnyTime) {
  MpiJob job(2);
  const int other = job.MpiComm({0, 1});
  for (const int rank : {0, 1}) job.Entry(rank, other).flags |= format::kCommIdentityUnknown;
  const auto known = job.Irecv(0, {.peer = 1});
  const auto unknown = job.Irecv(0, {.peer = 1, .comm = other});
  job.Wait(0, Function::MPI_Waitany, {known, unknown});
  job.Recv(1, {.peer = 0});
  ExpectUnseenNeverCertain(job);
}

// ... all of them are needed, and a send may lie in a buffer.
TEST(MpiUnseen, ASendBesideAReceiveThatHolds) {
  MpiJob job(3);
  job.Wait(0, Function::MPI_Waitall, {job.Isend(0, {.peer = 1, .bytes = 2000}), job.Irecv(0, {.peer = 2})});
  job.Recv(1, {.peer = 0, .tag = 9, .signature = 0x77});
  ExpectUnseenNeverCertain(job);
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kLikely, {2});
  job.Recv(2, {.peer = 1, .tag = 9});
  job.Pass(1.0);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(Name(diagnosis.findings[0].kind), Name(Kind::kDeadlock));
  EXPECT_EQ(Name(diagnosis.findings[0].certainty), Name(Certainty::kCertain));
}

// ... but what waits for nobody any more does not hold.
TEST(MpiUnseen, ASendBesideAReceiveThatHasItsMessage) {
  for (const bool exchange : {false, true}) {
    MpiJob job(2);
    job.Isend(1, {.peer = 0, .tag = 1});
    if (exchange)
      job.Sendrecv(0, {.peer = 1, .tag = 7, .bytes = kLarge}, {.peer = 1, .tag = 1});
    else
      job.Wait(0, Function::MPI_Waitall,
               {job.Irecv(0, {.peer = 1, .tag = 1}), job.Isend(0, {.peer = 1, .tag = 7, .bytes = kLarge})});
    job.Recv(1, {.peer = 0, .tag = 6});
    EXPECT_TRUE(job.Diagnose().findings.empty());  // it may be on its way still
    job.Pass(1.0);
    Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kCertain, {0, 1});
  }
}

TEST(MpiUnseen, ASendBesideOneThatWasReceived) {
  MpiJob job(2);
  const auto first = job.Isend(0, {.peer = 1, .tag = 1});
  job.Wait(0, Function::MPI_Waitall, {first, job.Isend(0, {.peer = 1, .tag = 7, .bytes = kLarge})});
  job.Received(1, {.peer = 0, .tag = 1});
  job.Recv(1, {.peer = 0, .tag = 6});
  job.Pass(1.0);
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kCertain, {0, 1});
}

// Its data may take longer than it has been waited for.
TEST(MpiUnseen, ASendBesideAReceiveOfMuch) {
  MpiJob job(2);
  job.Isend(1, {.peer = 0, .tag = 1, .bytes = 1u << 30});
  job.Wait(
      0, Function::MPI_Waitall,
      {job.Irecv(0, {.peer = 1, .tag = 1, .bytes = 1u << 30}), job.Isend(0, {.peer = 1, .tag = 7, .bytes = 2000})});
  job.Recv(1, {.peer = 0, .tag = 6});
  job.Pass(1.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiUnseen, ASendrecvOfWhichTheReceiveHolds) {
  MpiJob job(3);
  job.Sendrecv(0, {.peer = 1, .bytes = 2000}, {.peer = 2});
  job.Recv(1, {.peer = 0, .tag = 9});
  ExpectUnseenNeverCertain(job);
}

// It took part in the making, and got MPI_COMM_NULL.
TEST(MpiUnseen, ARankThatWasLeftOut) {
  MpiJob job(4);
  const int grid = job.MpiComm({0, 1, 2, 3});
  for (const int rank : {0, 1, 2}) job.Entry(rank, grid).size = 3;
  job.Entry(3, grid).flags |= format::kCommRankUnknown;
  job.Entry(3, grid).rank = 0;
  job.State({3}, grid, CommunicatorState::kDestroyed);
  for (const int rank : {0, 1}) job.Collective(rank, Function::MPI_Barrier, format::kNoRank, grid);
  job.Recv(3, {.peer = 0});
  ExpectUnseenNeverCertain(job);
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kLikely, {2});
}

// ... or is about to.
TEST(MpiUnseen, ARankThatIsStillBeingLeftOut) {
  MpiJob job(4);
  const int grid = job.MpiComm({0, 1, 2, 3});
  for (const int rank : {0, 1, 2}) job.Entry(rank, grid).size = 3;
  job.Entry(3, grid).flags |= format::kCommRankUnknown;
  job.Entry(3, grid).rank = job.Entry(3, grid).size = 0;
  job.State({3}, grid, CommunicatorState::kInitializing);
  for (const int rank : {0, 1}) job.Collective(rank, Function::MPI_Barrier, format::kNoRank, grid);
  job.Recv(2, {.peer = 0});
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {0, 2});
}

}  // namespace
}  // namespace ncclwatch::testing
