// MPI: somebody alive for whom others wait.
#include <gtest/gtest.h>

#include "tests/unit/diagnosis/verdicts.h"
#include "tests/unit/mpi_job.h"

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
  for (const diagnosis::Finding& finding : job.Judge().findings) ADD_FAILURE() << finding.summary;
  job.Pass(100.0);
  Expect(job.Judge(), Kind::kMissingParticipant, Certainty::kLikely, {3});
}

TEST(MpiStall, OneThatIsBehindInACircle) {
  MpiJob job(3);
  for (const int rank : {0, 1}) job.Return(rank, job.Collective(rank, Function::MPI_Scatter, 0));
  for (const int rank : {0, 1}) job.Collective(rank, Function::MPI_Barrier);
  job.Recv(2, {.peer = 1});
  Expect(job.Judge(), Kind::kDeadlock, Certainty::kCertain, {1, 2});
}

}  // namespace
}  // namespace ncclwatch::testing
