// order_mismatch and argument_mismatch, and everything that looks like one and is none.
#include <gtest/gtest.h>

#include "core/report/render.h"
#include "tests/unit/support/job_builder.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Finding;
using diagnosis::Kind;

Job WarmedUp(int ranks, int calls = 5) {
  Job job(ranks);
  for (int i = 0; i < calls; ++i) {
    job.Pass(0.01);
    job.Done(Range(0, ranks), Job::kWorld, AllReduce());
  }
  job.Pass(0.01);
  return job;
}

const Finding& Only(const Diagnosis& diagnosis) {
  static const Finding none;
  EXPECT_EQ(diagnosis.findings.size(), 1u) << diagnosis::ToText(diagnosis);
  return diagnosis.findings.empty() ? none : diagnosis.findings.front();
}

void ExpectMismatch(const Finding& finding, Kind kind, const std::vector<int>& culprits, std::uint64_t position) {
  EXPECT_EQ(Name(finding.kind), Name(kind)) << finding.summary;
  EXPECT_EQ(finding.certainty, Certainty::kCertain);
  EXPECT_EQ(finding.culprits, culprits);
  EXPECT_EQ(finding.position, position);
}

TEST(Mismatch, OtherOperationIsFoundAtOnceWhetherOrNotItHangs) {
  Job job = WarmedUp(4);
  job.Done({0, 1, 3}, Job::kWorld, AllReduce());
  job.Done({2}, Job::kWorld, AllGather());
  const Diagnosis diagnosis = job.Diagnose();
  const Finding& finding = Only(diagnosis);
  ExpectMismatch(finding, Kind::kOrderMismatch, {2}, 5);
  EXPECT_EQ(finding.victims, (std::vector<int>{0, 1, 3}));
  EXPECT_FALSE(finding.unsettled);
  ASSERT_EQ(finding.calls.size(), 2u);
  EXPECT_EQ(finding.calls[0].ranks, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(finding.calls[0].op, "AllReduce");
  EXPECT_EQ(finding.calls[1].op, "AllGather");
}

TEST(Mismatch, EachArgumentCounts) {
  const Spec other[] = {AllReduce(4097), AllReduce(4096, kBfloat16), AllReduce(4096, kFloat32, kMax)};
  for (const Spec& spec : other) {
    Job job = WarmedUp(4);
    job.Call({0, 2, 3}, Job::kWorld, AllReduce());
    job.Call({1}, Job::kWorld, spec);
    ExpectMismatch(Only(job.Diagnose()), Kind::kArgumentMismatch, {1}, 5);
  }
  Job job = WarmedUp(4);
  job.Call({0, 2, 3}, Job::kWorld, Broadcast(0));
  job.Call({1}, Job::kWorld, Broadcast(1));
  ExpectMismatch(Only(job.Diagnose()), Kind::kArgumentMismatch, {1}, 5);
}

TEST(Mismatch, TheFirstDifferenceIsNamedNotTheLaterOnes) {
  Job job = WarmedUp(3);
  job.Call({0, 1}, Job::kWorld, AllReduce(100));
  job.Call({2}, Job::kWorld, AllReduce(1));  // one call too many: from here on it runs one behind
  for (std::uint64_t i = 0; i < 4; ++i) job.Call({0, 1, 2}, Job::kWorld, AllReduce(200 + i));
  ExpectMismatch(Only(job.Diagnose()), Kind::kArgumentMismatch, {2}, 5);
}

TEST(Mismatch, ATieAccusesBothSidesAndSaysSo) {
  Job job = WarmedUp(4);
  job.Call({0, 1}, Job::kWorld, AllReduce());
  job.Call({2, 3}, Job::kWorld, AllGather());
  const Diagnosis diagnosis = job.Diagnose();
  ExpectMismatch(Only(diagnosis), Kind::kOrderMismatch, {0, 1, 2, 3}, 5);
  EXPECT_NE(Only(diagnosis).summary.find("either side"), std::string::npos);
}

TEST(Mismatch, UnsettledUntilEverybodyLivingHasArrived) {
  Job job = WarmedUp(4);
  job.Call({0}, Job::kWorld, AllReduce());
  job.Call({3}, Job::kWorld, AllGather());
  EXPECT_TRUE(Only(job.Diagnose()).unsettled);
  job.Call({1, 2}, Job::kWorld, AllReduce());
  EXPECT_FALSE(Only(job.Diagnose()).unsettled);
  ExpectMismatch(Only(job.Diagnose()), Kind::kOrderMismatch, {3}, 5);
}

TEST(Mismatch, BytesAreBytesWhereNcclOnlyMovesThem) {
  Job job = WarmedUp(2);
  job.Done({0}, Job::kWorld, AllGather(1024, kFloat32));
  job.Done({1}, Job::kWorld, AllGather(4096, kInt8));
  job.Done({0}, Job::kWorld, Broadcast(0, 4, kFloat32));
  Spec in_place = Broadcast(0, 16, kInt8);
  in_place.function = Function::ncclBcast;
  job.Done({1}, Job::kWorld, in_place);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Mismatch, UserMadeReductionsAreOne) {
  Job job = WarmedUp(2);
  job.Done({0, 1}, Job::kWorld, AllReduce(16, kFloat32, format::kUserReduction));
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Mismatch, AGroupMayPermuteItsCalls) {
  Job job = WarmedUp(2);
  job.Group(0, [&] { job.Call({0}, Job::kWorld, AllReduce(10)), job.Call({0}, Job::kWorld, AllReduce(20)); });
  job.Group(1, [&] { job.Call({1}, Job::kWorld, AllReduce(20)), job.Call({1}, Job::kWorld, AllReduce(10)); });
  job.Done({0, 1}, Job::kWorld, AllReduce(30));
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Call({0}, Job::kWorld, AllReduce(40));  // and what follows is still compared
  job.Call({1}, Job::kWorld, AllReduce(41));
  ExpectMismatch(Only(job.Diagnose()), Kind::kArgumentMismatch, {0, 1}, 8);
}

TEST(Mismatch, AGroupWithOtherCallsIsOne) {
  Job job = WarmedUp(2);
  job.Group(0, [&] { job.Call({0}, Job::kWorld, AllReduce(10)), job.Call({0}, Job::kWorld, AllReduce(20)); });
  job.Group(1, [&] { job.Call({1}, Job::kWorld, AllReduce(10)), job.Call({1}, Job::kWorld, AllReduce(21)); });
  ExpectMismatch(Only(job.Diagnose()), Kind::kArgumentMismatch, {0, 1}, 6);
}

TEST(Mismatch, AnOpenGroupIsNotJudgedYet) {
  Job job = WarmedUp(2);
  job.Group(0, [&] { job.Call({0}, Job::kWorld, AllReduce(10)), job.Call({0}, Job::kWorld, AllReduce(20)); });
  job.Group(
      1, [&] { job.Call({1}, Job::kWorld, AllReduce(20)); }, false);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Mismatch, ZeroCountOnOneRankOnly) {
  Job job = WarmedUp(4);
  job.Call({0, 1, 3}, Job::kWorld, AllReduce());
  job.Call({2}, Job::kWorld, AllReduce(0));
  const Diagnosis diagnosis = job.Diagnose();
  ExpectMismatch(Only(diagnosis), Kind::kArgumentMismatch, {2}, 5);
  EXPECT_EQ(Only(diagnosis).calls.at(1).count, 0u);
}

TEST(Mismatch, ZeroCountOnAllRanksIsNothing) {
  Job job = WarmedUp(3);
  for (int i = 0; i < 3; ++i) {
    job.Done({0, 1, 2}, Job::kWorld, AllReduce(0));
    job.Done({0, 1, 2}, Job::kWorld, AllReduce());
  }
  job.Call({0}, Job::kWorld, AllReduce(0));  // one rank ahead
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Mismatch, ARefusedCallIsNotEnqueued) {
  Job job = WarmedUp(2);
  const std::uint64_t slot = job.Enter(1, Job::kWorld, AllReduce(7));
  const std::uint64_t chain = job.Box(1).calls.at(slot - 1).chain;
  job.Return(1, slot, 4);
  job.Entry(1, Job::kWorld).chain = chain;
  job.Done({0, 1}, Job::kWorld, AllReduce());
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(Mismatch, AfterTheRingHasWrapped) {
  Job job = WarmedUp(2, 50);
  for (int rank : {0, 1}) {
    reader::BoxImage& box = job.Box(rank);
    box.calls.erase(box.calls.begin(), box.calls.begin() + 40);
    box.first_slot = 40;
  }
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Call({0}, Job::kWorld, AllReduce(1));
  job.Call({1}, Job::kWorld, AllReduce(2));
  EXPECT_EQ(Only(job.Diagnose()).position, 50u);
}

TEST(Mismatch, IdentityUnknownIsNotComparedAndSaidSo) {
  Job job = WarmedUp(2);
  for (int rank : {0, 1}) job.Entry(rank, Job::kWorld).flags |= format::kCommIdentityUnknown;
  job.Call({0}, Job::kWorld, AllReduce());
  job.Call({1}, Job::kWorld, AllGather());
  const Diagnosis diagnosis = job.Diagnose();
  EXPECT_TRUE(diagnosis.healthy());
  ASSERT_FALSE(diagnosis.notes.empty());
  EXPECT_NE(diagnosis.notes.back().find("not compared"), std::string::npos);
}

// Whoever has not come would say which of the two is odd, also if it has died on its way.
TEST(Mismatch, ATieIsCertainOnlyOnceAllHaveSpoken) {
  Job job = WarmedUp(4);
  job.Call({0}, Job::kWorld, AllReduce());
  job.Call({1}, Job::kWorld, AllGather());
  EXPECT_EQ(Only(job.Diagnose()).certainty, Certainty::kLikely);
  Job dead = job;
  for (const int rank : {2, 3}) dead.Die(rank, Job::Signal(9));
  const Diagnosis afterwards = dead.Diagnose();
  ASSERT_FALSE(afterwards.findings.empty());
  EXPECT_EQ(afterwards.findings[0].kind, Kind::kOrderMismatch);
  EXPECT_EQ(afterwards.findings[0].certainty, Certainty::kLikely);
  job.Call({2, 3}, Job::kWorld, AllReduce());
  ExpectMismatch(Only(job.Diagnose()), Kind::kOrderMismatch, {1}, 5);
}

// Two of five have not come, or their calls are lost: they could turn two against one. Equal chains say what they
// called.
TEST(Mismatch, AMajorityIsCertainOnceTheOthersCannotTurnIt) {
  Job job = WarmedUp(5);
  job.Call({0, 1}, Job::kWorld, AllReduce());
  job.Call({2}, Job::kWorld, AllGather());
  EXPECT_EQ(Only(job.Diagnose()).certainty, Certainty::kLikely);
  Job others = job;
  job.Call({3, 4}, Job::kWorld, AllReduce());
  others.Call({3, 4}, Job::kWorld, Broadcast(0));
  for (Job* lost : {&job, &others}) {
    for (const int rank : {3, 4}) {
      reader::BoxImage& box = lost->Box(rank);
      box.first_slot = box.calls.back().slot + 1;
      box.calls.clear();
    }
  }
  ExpectMismatch(Only(job.Diagnose()), Kind::kOrderMismatch, {2}, 5);
  EXPECT_EQ(Only(others.Diagnose()).certainty, Certainty::kLikely);
}

TEST(Mismatch, ProcessesOfAnotherWorldAreSaidToBeNotCompared) {
  Job job = WarmedUp(2);
  for (int rank : {0, 1}) job.Entry(rank, Job::kWorld).flags |= format::kCommIdentityUnknown | format::kCommForeign;
  job.Call({0}, Job::kWorld, AllReduce());
  job.Call({1}, Job::kWorld, AllGather());
  const Diagnosis diagnosis = job.Diagnose();
  EXPECT_TRUE(diagnosis.healthy());
  EXPECT_EQ(diagnosis.notes,
            (std::vector<std::string>{
                "2 communicators with processes of another MPI_COMM_WORLD: not compared across ranks"}));
}

TEST(Mismatch, MembersAreJobRanksInSubCommunicators) {
  Job job(8);
  const int odd = job.Comm({1, 3, 5, 7}, "tp", Job::kWorld);
  job.Call({1, 3, 7}, odd, AllReduce());
  job.Call({5}, odd, AllReduce(5));
  const Diagnosis diagnosis = job.Diagnose();
  ExpectMismatch(Only(diagnosis), Kind::kArgumentMismatch, {5}, 0);
  EXPECT_EQ(Only(diagnosis).communicator->members, (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(Only(diagnosis).communicator->label, "tp");
}

TEST(Mismatch, DeathsAfterItAreConsequences) {
  Job job = WarmedUp(4);
  job.Call({0, 1, 3}, Job::kWorld, AllReduce());
  job.Call({2}, Job::kWorld, AllGather());
  job.Pass(0.5);
  job.Die(3, Job::Signal(6));
  const Diagnosis diagnosis = job.Diagnose();
  ASSERT_EQ(diagnosis.findings.size(), 2u);
  EXPECT_EQ(diagnosis.findings[0].kind, Kind::kOrderMismatch);
  EXPECT_EQ(diagnosis.findings[1].kind, Kind::kDeadRank);
  EXPECT_EQ(diagnosis.findings[1].caused_by, 0u);
}

}  // namespace
}  // namespace ncclwatch::testing
