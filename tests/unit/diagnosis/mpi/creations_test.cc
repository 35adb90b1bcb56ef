// order_mismatch of calls that make and free communicators of MPI; who does not come to MPI_Comm_create_group.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;
using format::CommunicatorState;

void ExpectInOrder(const MpiJob& job) {
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

void Make(MpiJob* job, int rank, const std::vector<Function>& functions) {
  for (const Function function : functions) job->Return(rank, job->Create(rank, function));
}

TEST(MpiCreations, InOneOrder) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) Make(&job, rank, {Function::MPI_Comm_dup, Function::MPI_Comm_split});
  ExpectInOrder(job);
}

TEST(MpiCreations, AnInfoIsNoDifference) {
  MpiJob job(2);
  Make(&job, 0, {Function::MPI_Comm_dup});
  Make(&job, 1, {Function::MPI_Comm_dup_with_info});
  ExpectInOrder(job);
}

TEST(MpiCreations, InAnotherOrder) {
  MpiJob job(4);
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == 2)
      Make(&job, rank, {Function::MPI_Comm_split, Function::MPI_Comm_dup});
    else
      Make(&job, rank, {Function::MPI_Comm_dup, Function::MPI_Comm_split});
  }
  const auto diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOrderMismatch, Certainty::kCertain, {2});
  EXPECT_NE(diagnosis.findings[0].summary.find("Rank 2 called Comm_split where ranks 0-1,3 called Comm_dup"),
            std::string::npos)
      << diagnosis.findings[0].summary;
}

TEST(MpiCreations, OfTwoEitherMayBeWrong) {
  MpiJob job(2);
  job.Create(0, Function::MPI_Comm_dup);
  job.Create(1, Function::MPI_Comm_split);
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kCertain, {0, 1});
}

TEST(MpiCreations, AtAnotherPlaceAmongTheCollectives) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == 1) Make(&job, rank, {Function::MPI_Comm_dup});
    job.Return(rank, job.Collective(rank, Function::MPI_Bcast, 0));
    if (rank != 1) Make(&job, rank, {Function::MPI_Comm_dup});
  }
  const auto diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOrderMismatch, Certainty::kCertain, {1});
  EXPECT_NE(diagnosis.findings[0].summary.find("after 0 collectives on it"), std::string::npos)
      << diagnosis.findings[0].summary;
}

// Each rank starts as many as it likes.
TEST(MpiCreations, BesidePersistentCollectives) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    for (int started = 0; started < rank; ++started) job.Return(rank, job.Collective(rank, Function::MPI_Barrier_init));
    const auto made = job.Create(rank, Function::MPI_Comm_dup);
    job.At(rank, made).flags |= format::kPersisting;
    job.Return(rank, made);
  }
  for (const diagnosis::Finding& finding : job.Diagnose().findings)
    EXPECT_NE(Name(finding.kind), Name(Kind::kOrderMismatch));
}

TEST(MpiCreations, WindowsAmongThem) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == 1)
      Make(&job, rank, {Function::MPI_Comm_dup, Function::MPI_Win_create});
    else
      Make(&job, rank, {Function::MPI_Win_create, Function::MPI_Comm_dup});
  }
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kCertain, {1});
}

TEST(MpiCreations, FollowsFromAMismatch) {
  MpiJob job(3);
  for (int rank = 0; rank < 3; ++rank) {
    job.Return(rank, job.Collective(rank, rank == 2 ? Function::MPI_Barrier : Function::MPI_Allreduce));
    if (rank != 2) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
    job.Pass(0.1);
    Make(&job, rank, {Function::MPI_Comm_dup});
  }
  const auto diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kOrderMismatch, Certainty::kCertain, {2});
  ASSERT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_NE(diagnosis.findings[0].summary.find("Barrier"), std::string::npos);
}

TEST(MpiCreations, GroupsAloneHaveNoOrder) {
  MpiJob job(3);
  Make(&job, 0, {Function::MPI_Comm_create_group, Function::MPI_Comm_dup});
  Make(&job, 1, {Function::MPI_Comm_create_group, Function::MPI_Comm_create_group, Function::MPI_Comm_dup});
  Make(&job, 2, {Function::MPI_Comm_dup});
  ExpectInOrder(job);
}

TEST(MpiCreations, FreedByAllButOne) {
  MpiJob job(4);
  const int made = job.MpiComm({0, 1, 2, 3});
  for (int rank = 0; rank < 4; ++rank) {
    job.Entry(rank, made).parent = job.Entry(rank, MpiJob::kWorld).id;
    if (rank != 2) job.State({rank}, made, CommunicatorState::kDestroyed);
  }
  ExpectInOrder(job);  // it may come yet
  for (int rank = 0; rank < 4; ++rank) job.Finalize(rank);
  ExpectInOrder(job);  // in a callback of that
  job.Return(2, job.Box(2).calls.back().slot);
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kLikely, {2});
}

TEST(MpiCreations, NotPartOfItIsNotFreed) {
  MpiJob job(3);
  const int made = job.MpiComm({0, 1, 2});
  for (int rank = 0; rank < 3; ++rank) job.Entry(rank, made).parent = job.Entry(rank, MpiJob::kWorld).id;
  job.Entry(2, made).flags |= format::kCommRankUnknown;  // MPI_COMM_NULL
  job.State({2}, made, CommunicatorState::kDestroyed);
  for (int rank = 0; rank < 3; ++rank) job.Finalize(rank);
  ExpectInOrder(job);
}

TEST(MpiCreations, MissingInAGroup) {
  MpiJob job(5);
  for (const int rank : {1, 3, 4}) job.CreateGroup(rank, {4, 3, 2, 1}, 0xabc);
  job.Pass(300);
  Expect(job.Diagnose(), Kind::kInitializationHang, Certainty::kLikely, {2});
}

// MPI_Comm_idup leaves a request: somebody waits once he waits for that.
TEST(MpiCreations, MissingInOneThatDoesNotBlock) {
  MpiJob job(3);
  const int made = job.Comm({0, 2}, "", MpiJob::kWorld);
  for (const int rank : {0, 2}) {
    reader::Communicator& entry = job.Entry(rank, made);
    entry.state = CommunicatorState::kInitializing;
    entry.flags |= format::kCommMpi;
    entry.size = 3;
    const std::uint64_t slot = job.Create(rank, Function::MPI_Comm_idup);
    job.At(rank, slot).flags |= format::kRequest;
    entry.parent_ordinal = job.At(rank, slot).position;
    job.Return(rank, slot);
  }
  job.Pass(300);
  ExpectInOrder(job);
  job.Wait(0, Function::MPI_Wait, {job.Box(0).calls.back().slot});
  job.Pass(300);
  Expect(job.Diagnose(), Kind::kInitializationHang, Certainty::kLikely, {1});
}

// Nobody is waited for who has said that he makes no other call.
TEST(MpiCreations, WhoIsInFinalizeDoesNotJoin) {
  MpiJob job(3);
  for (const int rank : {0, 2}) job.CreateGroup(rank, {0, 1, 2}, 0xabc);
  job.Finalize(1);
  job.Pass(0.5);
  ExpectInOrder(job);
  job.Pass(0.7);
  Expect(job.Diagnose(), Kind::kInitializationHang, Certainty::kLikely, {1});
}

TEST(MpiCreations, GroupsThatWaitForOneAnother) {
  MpiJob job(3);
  for (const int rank : {0, 1}) job.CreateGroup(rank, {0, 1, 2}, 0xabc);
  job.CreateGroup(2, {0, 1, 2}, 0xdef);
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {0, 2});
}

}  // namespace
}  // namespace ncclwatch::testing
