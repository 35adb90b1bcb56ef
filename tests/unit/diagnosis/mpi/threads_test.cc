// MPI: threads of one process that call at once, and the one that is stuck among others.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;

constexpr std::int32_t kSerialized = 2, kMultiple = 3;
constexpr std::uint32_t kMain = 100, kOther = 101;

MpiJob Granted(int ranks, std::int32_t level) {
  MpiJob job(ranks);
  for (int rank = 0; rank < ranks; ++rank) job.Entry(rank, kWorld).color = level;
  return job;
}

std::uint64_t By(std::uint32_t thread, MpiJob* job, std::uint64_t slot, int rank = 1) {
  job->At(rank, slot).thread = thread;
  return slot;
}

TEST(MpiThreads, TwoInsideThoughTheyHaveToTakeTurns) {
  MpiJob job = Granted(2, kSerialized);
  const std::uint64_t first = By(kMain, &job, job.Recv(1, {.peer = 0}));
  job.Pass(0.1);
  job.Return(1, By(kOther, &job, job.Send(1, {.peer = 0, .tag = 1})));
  job.Pass(0.1);
  job.Return(1, first);
  Expect(job.Diagnose(), Kind::kInvalidArgument, Certainty::kCertain, {1});
}

TEST(MpiThreads, TakingTurnsIsNothing) {
  MpiJob job = Granted(2, kSerialized);
  for (int i = 0; i < 20; ++i) {
    job.Return(1, By(i % 2 ? kMain : kOther, &job, job.Collective(1, Function::MPI_Barrier)));
    job.Return(0, job.Collective(0, Function::MPI_Barrier));
    job.Pass(0.001);
  }
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

// The one's is over when the other's begins, as far as the stamps of two processors agree.
TEST(MpiThreads, HandedOnWithinAMomentIsNothing) {
  MpiJob job = Granted(2, kSerialized);
  const std::uint64_t first = By(kMain, &job, job.Send(1, {.peer = 0}));
  job.Pass(0.001);
  job.Return(1, first);
  job.At(1, first).returned_ns += 300;
  job.Return(1, By(kOther, &job, job.Send(1, {.peer = 0})));
  for (int i = 0; i < 2; ++i) job.Received(0, {.peer = 1});
  job.Pass(0.001);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiThreads, CollectivesOfOneCommunicatorAtOnce) {
  MpiJob job = Granted(4, kMultiple);
  By(kMain, &job, job.Collective(1, Function::MPI_Barrier));
  job.Pass(0.1);
  By(kOther, &job, job.Collective(1, Function::MPI_Allreduce));
  for (const int rank : {0, 2, 3}) job.Collective(rank, Function::MPI_Allreduce);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOrderMismatch, Certainty::kCertain, {1});
  EXPECT_NE(diagnosis.findings[0].summary.find("from two threads at once"), std::string::npos);
}

TEST(MpiThreads, OnCommunicatorsOfTheirOwnIsNothing) {
  MpiJob job = Granted(2, kMultiple);
  const int own = job.MpiComm({0, 1});
  for (const int rank : {0, 1}) {
    By(kMain, &job, job.Collective(rank, Function::MPI_Barrier), rank);
    By(kOther, &job, job.Collective(rank, Function::MPI_Barrier, format::kNoRank, own), rank);
  }
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiThreads, ACommunicatorMadeAtOnceWithACollective) {
  MpiJob job = Granted(2, kMultiple);
  By(kMain, &job, job.Collective(1, Function::MPI_Allreduce));
  By(kOther, &job, job.Create(1, Function::MPI_Comm_dup));
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kCertain, {1});
}

// A thread of each rank serves whoever asks, until its own rank tells it to stop.
MpiJob WithListeners(int ranks, bool main_too) {
  MpiJob job = Granted(ranks, kMultiple);
  for (int rank = 0; rank < ranks; ++rank) {
    if (main_too) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
    const std::uint64_t slot = job.Recv(rank, {.peer = kAny});
    if (main_too) By(kOther, &job, slot, rank);
  }
  return job;
}

TEST(MpiThreads, ListenersOfRanksThatComputeAreNoCycle) {
  MpiJob job = WithListeners(3, true);
  job.Pass(100.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiThreads, WithoutAThreadThatCouldStopThemTheyAre) {
  MpiJob job = WithListeners(3, false);
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kLikely, {0, 1, 2});
}

// Whom it waits for is nobody's fault but its own rank's.
TEST(MpiThreads, AListenerThatIsForgottenAtTheEnd) {
  MpiJob job = Granted(3, kMultiple);
  for (const int rank : {0, 1, 2}) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
  By(kOther, &job, job.Recv(1, {.peer = kAny}));
  job.Pass(0.1);
  for (const int rank : {0, 1, 2}) job.Finalize(rank);
  for (const int rank : {0, 2}) job.Die(rank, Job::Status(0));
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kRequestError, Certainty::kCertain, {1});
  EXPECT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].summary,
            "Rank 1 called MPI_Finalize while another of its threads was still in Recv of 16 MPI_INT.");
}

// Of sessions' communicators none is in the table.
TEST(MpiThreads, OnCommunicatorsThatNobodyKnowsIsNothing) {
  MpiJob job = Granted(2, kMultiple);
  for (const std::uint32_t thread : {kMain, kOther}) {
    reader::Call& call = job.At(1, By(thread, &job, job.Collective(1, Function::MPI_Barrier)));
    call.communicator = format::kNoCommunicator;
  }
  job.Entry(1, kWorld).entered = job.Entry(1, kWorld).returned = 0;
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

}  // namespace
}  // namespace ncclwatch::testing
