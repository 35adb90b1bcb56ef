// MPI: somebody alive for whom others wait.
#include <gtest/gtest.h>

#include "core/diagnose.h"
#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;

// The root of a scatter, and whoever has its part, goes on while another has not come to it yet.
TEST(MpiStall, OthersWaitFurtherOnForOneThatIsBehind) {
  MpiJob job(4);
  for (const int rank : {0, 1, 2}) job.Return(rank, job.Collective(rank, Function::MPI_Scatter, 0));
  for (const int rank : {0, 1, 2}) job.Collective(rank, Function::MPI_Barrier);
  job.Pass(5.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kLikely, {3});
}

// Whoever is behind holds nobody up who waits for the root alone.
TEST(MpiStall, ARootThatIsMissingBesideOneThatIsFurtherBehind) {
  MpiJob job(4);
  for (const int rank : {0, 1, 2}) job.Return(rank, job.Collective(rank, Function::MPI_Bcast, 0));
  for (const int rank : {0, 1}) job.Collective(rank, Function::MPI_Bcast, 2);
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kLikely, {2});
}

TEST(MpiStall, ANeighbourThatIsMissingBesideOthersThatAreFurtherBehind) {
  MpiJob job(4);
  const auto neighbour = [](int rank) {
    return std::vector{format::Part{static_cast<std::uint32_t>(rank), 0, 0, 0}, Ints(1)};
  };
  for (const int rank : {0, 1})
    job.Return(rank, job.Amounts(rank, Function::MPI_Neighbor_alltoall, neighbour(1 - rank), neighbour(1 - rank)));
  job.Amounts(0, Function::MPI_Neighbor_alltoall, neighbour(1), neighbour(1));
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kLikely, {1});
}

// Those that are back from it have called it all the same.
TEST(MpiStall, ACollectiveThatMostHaveCalledIsNotOneTooMany) {
  MpiJob job(7);
  for (int rank = 3; rank < 7; ++rank) {
    const auto neighbour = [rank](int step) {
      return format::Part{static_cast<std::uint32_t>((rank + step) % 7), 0, 0, 0};
    };
    const std::vector<format::Part> both = {neighbour(6), Ints(1), neighbour(1), Ints(1)};
    const auto slot = job.Amounts(rank, Function::MPI_Neighbor_alltoall, both, both);
    if (rank == 4 || rank == 5) job.Return(rank, slot);
  }
  for (const int rank : {0, 1, 2, 4, 5}) job.Finalize(rank);
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kLikely, {0, 2});
}

TEST(MpiStall, AllThatHaveCalledItOnceTooOftenAreNamed) {
  MpiJob job(200);
  std::vector<int> reversed, callers;
  for (int rank = 199; rank >= 0; --rank) reversed.push_back(rank);
  const int other = job.MpiComm(reversed);
  for (int rank = 0; rank < 200; ++rank) {
    if (rank < 80) callers.push_back(rank);
    if (rank < 80)
      job.Collective(rank, Function::MPI_Barrier, format::kNoRank, other);
    else
      job.Finalize(rank);
  }
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kOrderMismatch, Certainty::kLikely, callers);
}

// Its machine is slow, or the network is: no GPU has anything to do with it.
TEST(MpiStall, ALateOneInACollectiveThatAllHaveCalledIsNobodysFault) {
  MpiJob job(4);
  for (const int rank : {0, 1, 2}) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
  job.Collective(3, Function::MPI_Barrier);
  job.Pass(100.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

// Another thread of it calls after that.
TEST(MpiStall, OneWhoseLastCallIsNotItsFinalizeHasComeToTheEnd) {
  MpiJob job(3);
  for (const int rank : {0, 1, 2}) job.Finalize(rank);
  job.At(1, job.Recv(1, {.peer = 0})).thread = 101;
  job.Pass(100.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

// No reason is known, and that is said.
TEST(MpiStall, AllInsideACollectiveThatAllHaveCalled) {
  MpiJob job(4);
  for (const int rank : {0, 1, 2, 3}) job.Collective(rank, Function::MPI_Barrier);
  job.Pass(0.1);
  EXPECT_EQ(job.Diagnose().unexplained, "");
  job.Pass(100.0);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  for (const diagnosis::Finding& finding : diagnosis.findings) ADD_FAILURE() << finding.summary;
  EXPECT_TRUE(diagnosis.unexplained.starts_with("all 4 ranks have been inside MPI calls for 100.1 s, MPI_Barrier (4)"))
      << diagnosis.unexplained;
  ASSERT_FALSE(diagnosis.notes.empty());
  EXPECT_EQ(diagnosis.notes.back(), diagnosis.unexplained);
}

// Nobody can tell what holds it up in there; it has called what the others have left, and that is said.
TEST(MpiStall, OneThatIsStillInsideWhatOthersHaveLeft) {
  MpiJob job(4);
  for (const int rank : {0, 1, 2}) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
  job.Collective(3, Function::MPI_Barrier);
  for (const int rank : {0, 1, 2}) job.Collective(rank, Function::MPI_Allreduce);
  job.Pass(100.0);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kSuspected, {3});
  EXPECT_NE(diagnosis.findings[0].summary.find("is still inside Barrier of 1 MPI_INT and has not called Allreduce"),
            std::string::npos)
      << diagnosis.findings[0].summary;
}

TEST(MpiStall, OneThatIsBehindInACycle) {
  MpiJob job(3);
  for (const int rank : {0, 1}) job.Return(rank, job.Collective(rank, Function::MPI_Scatter, 0));
  for (const int rank : {0, 1}) job.Collective(rank, Function::MPI_Barrier);
  job.Recv(2, {.peer = 1});
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {1, 2});
}

TEST(MpiStall, OneThatDoesNotComeToTheEnd) {
  MpiJob job(4);
  for (const int rank : {0, 1, 2, 3}) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
  for (const int rank : {0, 1, 3}) job.Finalize(rank);
  job.Pass(0.1);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
  job.Pass(100.0);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kMissingParticipant, Certainty::kLikely, {2});
  EXPECT_EQ(diagnosis.findings[0].victims, (std::vector<int>{0, 1, 3}));
  EXPECT_NE(diagnosis.findings[0].summary.find("has not called MPI_Finalize; ranks 0-1,3 have waited"),
            std::string::npos)
      << diagnosis.findings[0].summary;
  EXPECT_FALSE(diagnosis.findings[0].position);
}

// All are seen dead only afterwards, as by `ncclwatch diagnose`.
MpiJob Left(int status) {
  MpiJob job(2);
  for (const int rank : {0, 1}) {
    job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
    job.Box(rank).state = format::ProcessState::kExiting;
    job.Box(rank).last_words = {true, status, 0, job.now_ns(), ""};
    job.Die(rank, Job::Status(status));
  }
  return job;
}

TEST(MpiEnd, OfWhomOnlyASummaryTellsNothingIsSaid) {
  MpiJob job = Left(0);
  for (const int rank : {0, 1}) {
    job.Box(rank).from_summary = true;
    job.Box(rank).calls.clear();
  }
  for (const diagnosis::Finding& finding : diagnosis::Diagnose(job.Snapshot()).findings)
    ADD_FAILURE() << finding.summary;
}

TEST(MpiEnd, WithoutFinalize) { Expect(Left(0).Diagnose(), Kind::kMissingFinalize, Certainty::kCertain, {0, 1}); }

TEST(MpiEnd, InsideACallItWasMpiOrAHandler) {
  MpiJob job(1);
  job.Return(0, job.Collective(0, Function::MPI_Barrier));
  job.Collective(0, Function::MPI_Bcast, 0);
  job.Box(0).state = format::ProcessState::kExiting;
  job.Box(0).last_words = {true, 53, 0, job.now_ns(), ""};
  job.Die(0, Job::Status(53));
  const auto diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kLibraryError, Certainty::kLikely, {0});
  EXPECT_NE(diagnosis.findings[0].summary.find("was ended inside Bcast"), std::string::npos);
}

// A launcher that is ended lets go of it, though others have not come to the end.
TEST(MpiEnd, WhomFinalizeHasLetGoMayBeInTheRight) {
  MpiJob job(2);
  job.Recv(0, {.peer = 1});
  job.Finalize(1);
  job.Return(1, job.Box(1).calls.back().slot);
  job.Box(1).state = format::ProcessState::kExiting;
  job.Box(1).last_words = {true, 0, 0, job.now_ns(), ""};
  job.Die(1, Job::Status(0));
  Expect(job.Diagnose(), Kind::kEarlyExit, Certainty::kLikely, {1});
}

// ... and is not named with those that are certainly in the wrong.
TEST(MpiEnd, WhomFinalizeHasLetGoBesideOneThatLeftWithoutIt) {
  MpiJob job(3);
  job.Collective(0, Function::MPI_Barrier);
  job.Finalize(1);
  job.Return(1, job.Box(1).calls.back().slot);
  for (const int rank : {1, 2}) {
    job.Box(rank).state = format::ProcessState::kExiting;
    job.Box(rank).last_words = {true, 0, 0, job.now_ns(), ""};
    job.Die(rank, Job::Status(0));
  }
  Expect(job.Diagnose(), Kind::kEarlyExit, Certainty::kCertain, {2});
}

TEST(MpiEnd, AStatusOfItsOwnAfterFinalizeIsNoDeath) {
  MpiJob job(2);
  for (const int rank : {0, 1}) {
    job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
    job.Finalize(rank);
    job.Box(rank).calls.back().returned_ns = job.now_ns();
    job.Box(rank).state = format::ProcessState::kExiting;
    job.Box(rank).last_words = {true, 1, 0, job.now_ns(), ""};
    job.Die(rank, Job::Status(1));
  }
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiEnd, WhoIsKilledForTheStatusOfAnotherIsNoCulprit) {
  MpiJob job(2);
  for (const int rank : {0, 1}) {
    job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
    job.Finalize(rank);
  }
  job.Box(0).calls.back().returned_ns = job.now_ns();
  job.Box(0).state = format::ProcessState::kExiting;
  job.Box(0).last_words = {true, 1, 0, job.now_ns(), ""};
  job.Die(0, Job::Status(1));
  job.Pass(0.02);
  job.Die(1, Job::Signal(9));
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiEnd, ACrashOfTheOnlyProcessIsReported) {
  MpiJob job(1);
  job.Return(0, job.Collective(0, Function::MPI_Barrier));
  job.Die(0, Job::Signal(11));
  Expect(job.Diagnose(), Kind::kDeadRank, Certainty::kCertain, {0});
}

TEST(MpiEnd, EndedByNcclwatch) {
  for (const diagnosis::Finding& finding : Left(86).Diagnose().findings) ADD_FAILURE() << finding.summary;
}

// Rank 2 has never called the broadcast that rank 0 and 1 have left.
MpiJob Uneven() {
  MpiJob job(3);
  for (const int rank : {0, 1, 2}) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
  for (const int rank : {0, 1}) job.Return(rank, job.Collective(rank, Function::MPI_Bcast, 0));
  for (const int rank : {0, 1, 2}) job.Other(rank, Function::MPI_Finalize);
  return job;
}

TEST(MpiEnd, AfterACollectiveThatOneNeverCalled) {
  Expect(Uneven().Diagnose(), Kind::kMissingParticipant, Certainty::kCertain, {2});
}

TEST(MpiEnd, ACallbackOfFinalizeMayStillCallIt) {
  MpiJob job = Uneven();
  job.Box(2).calls.back().returned_ns = 0;
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiEnd, OfThreadsNobodyKnowsWhatIsLeft) {
  MpiJob job = Uneven();
  job.Box(2).calls.front().thread = 77;
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

// Whoever else makes a communicator from its parent, or has made one before, has nothing to do with it.
TEST(MpiStall, ACommunicatorOfAGroupNeedsOnlyTheGroup) {
  MpiJob job(4);
  for (const int rank : {0, 1, 2, 3}) job.Other(rank, Function::MPI_Comm_dup, kWorld);
  const int child = job.Comm({2, 3}, "", kWorld);
  for (const int rank : {2, 3}) {  // 0 is still to come
    reader::Communicator& entry = job.Entry(rank, child);
    entry.state = format::CommunicatorState::kInitializing;
    entry.size = 0;
    entry.flags |= format::kCommMpi | format::kCommRankUnknown;
    job.Other(rank, Function::MPI_Comm_create_group, kWorld);
    job.Box(rank).calls.back().returned_ns = 0;
  }
  for (const double seconds : {0.5, 5.0}) {
    job.Pass(seconds);
    for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
  }
}

// One of the requests of a test in a loop may be a collective: who has not come to it holds it up.
TEST(MpiStall, TestsOfACollectiveWaitForWhoeverIsMissing) {
  MpiJob job(3);
  for (const int rank : {0, 1}) {
    const auto begun = job.Collective(rank, Function::MPI_Ibarrier);
    job.At(rank, begun).flags |= format::kRequest;
    job.Return(rank, begun);
    job.Poll(rank, Function::MPI_Testany, {begun});
  }
  job.Recv(2, {.peer = 0});
  job.Pass(100.0);
  for (const int rank : {0, 1}) job.Poll(rank, Function::MPI_Testany, {});
  const auto findings = job.Diagnose().findings;
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(Name(findings[0].kind), Name(Kind::kDeadlock)) << findings[0].summary;
  EXPECT_EQ(Name(findings[0].certainty), Name(Certainty::kLikely));
  EXPECT_EQ(findings[0].culprits, (std::vector<int>{0, 2}));
}

// Nothing comes any more of who is in MPI_Finalize: neither a collective nor a message.
TEST(MpiStall, WhoIsInFinalizeDoesNotCome) {
  MpiJob job(3);
  for (const int rank : {0, 1}) job.Collective(rank, Function::MPI_Allreduce);
  job.Finalize(2);
  job.Pass(0.5);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
  job.Pass(0.7);
  Expect(job.Diagnose(), Kind::kMissingParticipant, Certainty::kLikely, {2});
}

TEST(MpiStall, WhoIsInFinalizeSendsNothing) {
  MpiJob job(2);
  job.Recv(0, {.peer = 1});
  job.Finalize(1);
  job.Pass(1.2);
  Expect(job.Diagnose(), Kind::kPointToPointMismatch, Certainty::kLikely, {1});
}

TEST(MpiStall, WhoIsInFinalizeHasSentWhatIsUnderWay) {
  MpiJob job(2);
  job.Isend(1, {.peer = 0});
  job.Recv(0, {.peer = 1});
  job.Finalize(1);
  job.Pass(5.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiStall, OneOfSeveralInFinalizeIsNotMissedByAWildcardReceive) {
  MpiJob job(3);
  job.Recv(0, {.peer = kAny});
  job.Finalize(1);
  job.Pass(5.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

}  // namespace
}  // namespace ncclwatch::testing
