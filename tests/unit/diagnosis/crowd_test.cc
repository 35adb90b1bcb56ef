// Thousands of ranks that wait for thousands: not an edge for each pair, and yet the same verdict.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/waits/waits.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Diagnosis;
using diagnosis::Kind;

TEST(GroupWait, HalfOfAThousandHaveNotCome) {
  Job job(1000);
  job.Done(Range(0, 1000), Job::kWorld, AllReduce());
  job.Call(Range(0, 500), Job::kWorld, AllReduce());
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  ASSERT_EQ(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].kind, Kind::kMissingParticipant);
  EXPECT_EQ(diagnosis.findings[0].culprits, Range(500, 1000));
  EXPECT_EQ(diagnosis.findings[0].victims, Range(0, 500));

  const diagnosis::Snapshot snapshot = job.Snapshot();
  const diagnosis::WaitGraph graph = diagnosis::MakeWaits(diagnosis::MakeView(snapshot), {});
  EXPECT_LE(graph.waits.size(), 2u * 64 * 500);
  ASSERT_EQ(graph.group_waits.size(), 1u);
  for (int node = 0; node < 1000; ++node) EXPECT_EQ(graph.Waits(node), node < 500) << node;
  for (int node = 500; node < 1000; ++node) EXPECT_FALSE(graph.in[static_cast<std::size_t>(node)].empty()) << node;
  EXPECT_EQ(graph.Upstream({777}), Range(0, 500));
}

// All wait for one another, but one that does nothing: it stands behind those that have edges.
TEST(GroupWait, HidesNobodyWhoWaitsForNobody) {
  Job job(300);
  constexpr int kIdle = 290;
  std::vector<int> others = Range(0, 300);
  std::erase(others, kIdle);
  const int second = job.Comm(others, "", Job::kWorld);
  job.Done(Range(0, 300), Job::kWorld, AllReduce());
  job.Call(Range(0, 100), Job::kWorld, AllReduce());
  std::vector<int> behind = Range(100, 300);
  std::erase(behind, kIdle);
  job.Call(behind, second, AllReduce());
  const Diagnosis diagnosis = job.DiagnoseAt(100);
  ASSERT_GE(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].kind, Kind::kMissingParticipant);
  EXPECT_EQ(diagnosis.findings[0].culprits, std::vector<int>{kIdle});
  EXPECT_EQ(diagnosis.findings[0].victims, others);
}

TEST(GroupWait, ManyThatDiedInARow) {
  Job job(400);
  job.Done(Range(0, 400), Job::kWorld, AllReduce());
  job.Call(Range(0, 200), Job::kWorld, AllReduce());
  for (int rank = 399; rank >= 200; --rank) {
    job.Pass(1);
    job.Die(rank, Job::Signal(11));
  }
  const Diagnosis diagnosis = job.Diagnose();
  ASSERT_GE(diagnosis.findings.size(), 1u);
  EXPECT_EQ(diagnosis.findings[0].kind, Kind::kDeadRank);
  EXPECT_EQ(diagnosis.findings[0].culprits, std::vector<int>{399});
  EXPECT_EQ(diagnosis.findings[0].victims, Range(0, 200));
}

}  // namespace
}  // namespace ncclwatch::testing
