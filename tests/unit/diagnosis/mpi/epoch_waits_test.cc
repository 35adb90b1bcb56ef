// Epochs of MPI_Win_start and MPI_Win_post, and locks: who waits for whom, and what falls into one epoch.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/mpi/window_job.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;
using format::AccessEpoch;

class PartnersJob : public WindowJob {
 public:
  PartnersJob() : WindowJob(4) {}
  void Start(int rank, const std::vector<int>& targets) { Return(rank, Named(rank, Function::MPI_Win_start, targets)); }
  void Post(int rank, const std::vector<int>& origins) { Return(rank, Named(rank, Function::MPI_Win_post, origins)); }
  void Do(int rank, Function function) { Return(rank, Enter(rank, function)); }
};

void ExpectNothing(const PartnersJob& job) {
  for (const diagnosis::Finding& finding : job.Diagnose().findings) ADD_FAILURE() << finding.summary;
}

TEST(MpiEpochWaits, AWaitForOneThatIsInACollectiveIsACycleAtOnce) {
  PartnersJob job;
  job.Post(2, {1});
  job.Enter(2, Function::MPI_Win_wait);
  job.Collective(1, Function::MPI_Barrier);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kDeadlock, Certainty::kCertain, {1, 2});
  const std::vector<std::string>& evidence = diagnosis.findings.at(0).evidence;
  EXPECT_TRUE(std::any_of(evidence.begin(), evidence.end(), [](const std::string& line) {
    return line.find("rank 2 waits for rank 1 in Win_wait") != std::string::npos &&
           line.find("until it calls Win_complete") != std::string::npos;
  }));
}

// MPI may return from it before anybody has posted.
TEST(MpiEpochWaits, AStartIsNoneBeforeItHasLasted) {
  PartnersJob job;
  job.Named(2, Function::MPI_Win_start, {1});
  job.Collective(1, Function::MPI_Barrier);
  ExpectNothing(job);
  job.Pass(1.1);
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {1, 2});
}

TEST(MpiEpochWaits, WhoHasPostedIsNotWaitedFor) {
  PartnersJob job;
  job.Post(1, {2});
  job.Start(2, {1});
  job.Enter(2, Function::MPI_Win_complete);
  job.Collective(1, Function::MPI_Barrier);
  job.Pass(1.1);
  ExpectNothing(job);
}

TEST(MpiEpochWaits, EachStartNeedsAPostOfItsOwn) {
  PartnersJob job;
  job.Post(1, {2, 3});
  job.Start(2, {1});
  job.Do(2, Function::MPI_Win_complete);
  job.Start(3, {1});
  job.Do(3, Function::MPI_Win_complete);
  job.Do(1, Function::MPI_Win_wait);
  job.Post(1, {3});
  job.Start(2, {1});
  job.Enter(2, Function::MPI_Win_complete);
  job.Enter(1, Function::MPI_Win_wait);
  job.Recv(3, {.peer = 2});
  job.Pass(1.1);
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kCertain, {1, 2, 3});
}

TEST(MpiEpochWaits, WhoIsInACompleteHasCome) {
  PartnersJob job;
  job.Start(1, {2, 3});
  job.Post(2, {1});
  job.Enter(1, Function::MPI_Win_complete);
  job.Enter(2, Function::MPI_Win_wait);
  job.Recv(3, {.peer = 2});
  job.Pass(1.1);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  for (const diagnosis::Finding& finding : diagnosis.findings) EXPECT_NE(finding.certainty, Certainty::kCertain);
}

TEST(MpiEpochWaits, WhoHasComeToFinalizeOpensNoEpoch) {
  PartnersJob job;
  job.Start(2, {1});
  job.Enter(2, Function::MPI_Win_complete);
  job.Finalize(1);
  job.Pass(1.5);
  const diagnosis::Diagnosis diagnosis = job.Diagnose();
  Expect(diagnosis, Kind::kEpochError, Certainty::kLikely, {1});
  EXPECT_NE(diagnosis.findings.at(0).summary.find("has not called Win_post on window"), std::string::npos)
      << diagnosis.findings.at(0).summary;
}

// What the ring has lost may have been the other half.
TEST(MpiEpochWaits, NothingIsSaidWhereCallsAreLost) {
  PartnersJob job;
  job.Post(1, {3});
  job.Post(2, {1});
  job.Enter(2, Function::MPI_Win_wait);
  const std::uint64_t barrier = job.Collective(1, Function::MPI_Barrier);
  job.Forget(1, barrier);
  job.Pass(1.1);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) EXPECT_NE(finding.certainty, Certainty::kCertain);
}

// MPI may grant a lock where it is first used, and a target that is busy may hold up as well.
TEST(MpiEpochWaits, ALockIsNeverCertain) {
  PartnersJob job;
  job.Lock(1, 0, AccessEpoch::kExclusive);
  job.Lock(2, 0, AccessEpoch::kShared);
  job.Enter(2, Function::MPI_Win_unlock, 0);
  job.Recv(1, {.peer = 2});
  job.Pass(1.1);
  ExpectNothing(job);
  job.Pass(100.0);
  Expect(job.Diagnose(), Kind::kDeadlock, Certainty::kLikely, {1, 2});
}

TEST(MpiEpochWaits, SharedLocksExcludeNobody) {
  PartnersJob job;
  job.Lock(1, 0, AccessEpoch::kShared);
  job.Lock(2, 0, AccessEpoch::kShared);
  job.Enter(2, Function::MPI_Win_unlock, 0);
  job.Recv(1, {.peer = 2});
  job.Pass(100.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) EXPECT_NE(finding.kind, Kind::kDeadlock);
}

TEST(MpiEpochWaits, APostWaitsForNobody) {
  PartnersJob job;
  job.Lock(1, 0, AccessEpoch::kExclusive);
  job.Named(2, Function::MPI_Win_post, {1});
  job.Recv(1, {.peer = 2});
  job.Pass(100.0);
  for (const diagnosis::Finding& finding : job.Diagnose().findings) EXPECT_NE(finding.kind, Kind::kDeadlock);
}

constexpr Touch kPut{.epoch = AccessEpoch::kStarted};

TEST(MpiEpochWaits, PutsOfTwoOriginsIntoOneEpochAreCertain) {
  PartnersJob job;
  job.Post(0, {1, 2});
  for (const int rank : {1, 2}) {
    job.Start(rank, {0});
    job.Access(rank, kPut);
    job.Do(rank, Function::MPI_Win_complete);
  }
  job.Do(0, Function::MPI_Win_wait);
  Expect(job.Diagnose(), Kind::kEpochError, Certainty::kCertain, {1, 2});
}

TEST(MpiEpochWaits, EpochsOrder) {
  PartnersJob job;
  for (const int rank : {1, 2, 1}) {
    job.Post(0, {rank});
    job.Start(rank, {0});
    job.Access(rank, kPut);
    job.Do(rank, Function::MPI_Win_complete);
    job.Do(0, Function::MPI_Win_wait);
  }
  ExpectNothing(job);
}

}  // namespace
}  // namespace ncclwatch::testing
