// epoch_error of accesses to the same memory of a window: which contradict one another, and what orders them.
#include <gtest/gtest.h>

#include "ncclwatch/format/mpi_record.h"
#include "ncclwatch/format/stores.h"
#include "tests/unit/diagnosis/mpi/window_job.h"
#include "tests/unit/diagnosis/verdicts.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::Certainty;
using diagnosis::Diagnosis;
using diagnosis::Kind;
using format::AccessEpoch;

constexpr std::uint8_t kAddition = 66, kNoOp = 77;  // numbers of mpi_types.def; the first is any but MPI_NO_OP
// Two ranks between the same two fences.
Diagnosis Of(const Touch& one, const Touch& other) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(1, one);
  job.Access(2, other);
  job.Fence(Range(0, 4));
  return job.Diagnose();
}

TEST(MpiEpochs, PutsOfTwoRanksThatOverlapAreCertain) {
  const Diagnosis diagnosis = Of({.at = 4, .count = 4}, {.at = 7, .count = 2});
  Expect(diagnosis, Kind::kEpochError, Certainty::kCertain, {1, 2});
  const diagnosis::Finding& finding = diagnosis.findings.at(0);
  EXPECT_NE(finding.summary.find("the same 4 bytes of rank 0's memory in window"), std::string::npos)
      << finding.summary;
  ASSERT_EQ(finding.calls.size(), 2u);
  EXPECT_EQ(finding.calls[0].op, "Put");
}

// The memory of each has ten units.
Diagnosis Reaching(const Touch& touch) {
  WindowJob job(4);
  for (int rank = 0; rank < 4; ++rank) job.Entry(rank, job.window()).memory = 10 * kUnit + 1;
  job.Fence(Range(0, 4));
  job.Access(1, touch);
  job.Fence(Range(0, 4));
  return job.Diagnose();
}

TEST(MpiEpochs, PastTheEndOfTheTargetsMemory) {
  EXPECT_TRUE(Reaching({.target = 2, .at = 6, .count = 4}).healthy());
  for (const Touch& touch : {Touch{.target = 2, .at = 6, .count = 5}, Touch{.target = 2, .at = 1 << 20},
                             Touch{.function = Function::MPI_Get, .target = 2, .at = 10}}) {
    const Diagnosis diagnosis = Reaching(touch);
    Expect(diagnosis, Kind::kInvalidArgument, Certainty::kCertain, {1});
    EXPECT_NE(diagnosis.findings[0].summary.find("of rank 2's memory"), std::string::npos);
  }
}

TEST(MpiEpochs, OfOtherPlacesOrTargetsAreNone) {
  EXPECT_TRUE(Of({.at = 4, .count = 4}, {.at = 8, .count = 2}).healthy());
  EXPECT_TRUE(Of({.target = 0}, {.target = 3}).healthy());
}

TEST(MpiEpochs, APutAndWhateverElse) {
  Expect(Of({}, {.function = Function::MPI_Get}), Kind::kEpochError, Certainty::kCertain, {1, 2});
  Expect(Of({}, {.function = Function::MPI_Accumulate, .reduction = kAddition}), Kind::kEpochError, Certainty::kCertain,
         {1, 2});
  Expect(Of({}, {.function = Function::MPI_Get_accumulate, .reduction = kNoOp}), Kind::kEpochError, Certainty::kCertain,
         {1, 2});
  Expect(Of({.function = Function::MPI_Get}, {.function = Function::MPI_Compare_and_swap}), Kind::kEpochError,
         Certainty::kCertain, {1, 2});
}

TEST(MpiEpochs, WhatOnlyReadsOrAccumulatesAlikeIsNone) {
  const Touch get{.function = Function::MPI_Get};
  const Touch add{.function = Function::MPI_Accumulate, .reduction = kAddition};
  const Touch fetch{.function = Function::MPI_Get_accumulate, .reduction = kNoOp};
  EXPECT_TRUE(Of(get, get).healthy());
  EXPECT_TRUE(Of(get, fetch).healthy());
  EXPECT_TRUE(Of(add, add).healthy());
  EXPECT_TRUE(Of(add, fetch).healthy());
  EXPECT_TRUE(Of(add, {.function = Function::MPI_Compare_and_swap}).healthy());
}

// A window may be told that its operators are mixed.
TEST(MpiEpochs, OtherOperatorsAreLikely) {
  const Touch add{.function = Function::MPI_Accumulate, .reduction = kAddition};
  const Touch other{.function = Function::MPI_Accumulate, .reduction = kAddition + 1};
  Expect(Of(add, other), Kind::kEpochError, Certainty::kLikely, {1, 2});
}

TEST(MpiEpochs, AFenceOrders) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(1, {});
  job.Fence(Range(0, 4));
  job.Access(2, {});
  job.Access(3, {.at = 1});
  job.Fence(Range(0, 4));
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiEpochs, OfOneRank) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(2, {.at = 0, .count = 4});
  job.Access(2, {.at = 2, .count = 4});
  Expect(job.Diagnose(), Kind::kEpochError, Certainty::kCertain, {2});
}

TEST(MpiEpochs, ALineThatPutsAgainIsNone) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  for (int i = 0; i < 3; ++i) job.Access(2, {.count = 4}).site = 0x4711;
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Access(2, {.count = 4}).site = 0x4712;
  Expect(job.Diagnose(), Kind::kEpochError, Certainty::kCertain, {2});
}

TEST(MpiEpochs, OfTwoRanksTheSameLineIsOne) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  for (const int rank : {1, 2}) job.Access(rank, {}).site = 0x4711;
  Expect(job.Diagnose(), Kind::kEpochError, Certainty::kCertain, {1, 2});
}

TEST(MpiEpochs, AFlushOrdersThoseOfOneRank) {
  WindowJob job(4);
  job.Synchronize(2, Function::MPI_Win_lock, 0);
  job.Access(2, {.epoch = AccessEpoch::kExclusive});
  job.Synchronize(2, Function::MPI_Win_flush, 0);
  job.Access(2, {.epoch = AccessEpoch::kExclusive});
  EXPECT_TRUE(job.Diagnose().healthy());
  job.Access(2, {.function = Function::MPI_Get, .epoch = AccessEpoch::kExclusive});
  Expect(job.Diagnose(), Kind::kEpochError, Certainty::kCertain, {2});
}

TEST(MpiEpochs, AGetThatWasWaitedForIsOver) {
  WindowJob job(4);
  job.Synchronize(2, Function::MPI_Win_lock, 0);
  reader::Call& get = job.Access(2, {.function = Function::MPI_Rget, .epoch = AccessEpoch::kExclusive});
  get.flags |= format::kRequest;
  get.completed_ns = job.now_ns();
  job.Pass(0.001);
  job.Access(2, {.epoch = AccessEpoch::kExclusive});
  EXPECT_TRUE(job.Diagnose().healthy());
}

// What orders ranks that hold shared locks (messages, barriers, time) nobody sees for certain.
TEST(MpiEpochs, SharedLocksAtOneTimeAreLikely) {
  const Touch put{.epoch = AccessEpoch::kShared};
  WindowJob job(4);
  for (const int rank : {1, 2}) job.Synchronize(rank, Function::MPI_Win_lock_all);
  job.Access(1, put);
  job.Access(2, put);
  for (const int rank : {1, 2}) job.Synchronize(rank, Function::MPI_Win_unlock_all);
  Expect(job.Diagnose(), Kind::kEpochError, Certainty::kLikely, {1, 2});
}

TEST(MpiEpochs, SharedLocksOneAfterTheOtherAreNone) {
  const Touch put{.epoch = AccessEpoch::kShared};
  WindowJob job(4);
  for (const int rank : {1, 2}) job.Synchronize(rank, Function::MPI_Win_lock_all);
  job.Access(1, put);
  job.Synchronize(1, Function::MPI_Win_flush, 0);
  job.Access(2, put);
  for (const int rank : {1, 2}) job.Synchronize(rank, Function::MPI_Win_unlock_all);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiEpochs, ExclusiveLocksOrder) {
  const Touch put{.epoch = AccessEpoch::kExclusive};
  WindowJob job(4);
  for (const int rank : {1, 2}) job.Synchronize(rank, Function::MPI_Win_lock, 0);  // the second is granted in its time
  job.Access(1, put);
  job.Access(2, put);
  for (const int rank : {1, 2}) job.Synchronize(rank, Function::MPI_Win_unlock, 0);
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiEpochs, WhatHasGapsIsNotCompared) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(1, {}).bytes = 0;
  job.Access(2, {});
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiEpochs, OfSeveralThreadsAreLikely) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(1, {}).thread = 1;
  job.Access(1, {.at = 9}).thread = 2;
  job.Access(2, {});
  Expect(job.Diagnose(), Kind::kEpochError, Certainty::kLikely, {1, 2});
}

// Rank 0 changes bytes 8 to 11 itself, and what the others do comes between the same two fences.
Diagnosis StoredAnd(const std::vector<std::pair<int, Touch>>& accesses,
                    const std::vector<format::Stored>& stores = {{8, 4}}) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  for (const auto& [rank, touch] : accesses) job.Access(rank, touch);
  job.FenceAfterStores(0, stores);
  job.Fence({1, 2, 3});
  return job.Diagnose();
}

constexpr Touch kGet{.function = Function::MPI_Get, .at = 2};

TEST(MpiStores, WhatTheOwnerChangesAndAnotherGetsIsLikely) {
  const Diagnosis diagnosis = StoredAnd({{2, kGet}});
  Expect(diagnosis, Kind::kEpochError, Certainty::kLikely, {0, 2});
  const diagnosis::Finding& finding = diagnosis.findings.at(0);
  EXPECT_NE(finding.summary.find("Rank 0 changes its own memory in window"), std::string::npos) << finding.summary;
  EXPECT_NE(finding.evidence.at(1).find("bytes 8 to 11"), std::string::npos) << finding.evidence.at(1);
  Expect(StoredAnd({{2, {.function = Function::MPI_Get_accumulate, .at = 2, .reduction = kNoOp}}}), Kind::kEpochError,
         Certainty::kLikely, {0, 2});
}

TEST(MpiStores, OtherBytesAreNobodysBusiness) {
  EXPECT_TRUE(StoredAnd({{2, {.function = Function::MPI_Get, .at = 1}}}).healthy());
  EXPECT_TRUE(StoredAnd({{2, {.function = Function::MPI_Get, .at = 3}}}).healthy());
  EXPECT_TRUE(StoredAnd({{2, {.function = Function::MPI_Get, .target = 1, .at = 2}}}).healthy());
  EXPECT_TRUE(StoredAnd({{0, kGet}}).healthy());
  EXPECT_TRUE(StoredAnd({}).healthy());
}

TEST(MpiStores, WhatAnAccessHasPutThereIsNoStore) {
  EXPECT_TRUE(StoredAnd({{1, {.at = 2}}}).healthy());
  EXPECT_TRUE(StoredAnd({{1, {.function = Function::MPI_Accumulate, .at = 2, .reduction = kAddition}},
                         {2, {.function = Function::MPI_Get_accumulate, .at = 2, .reduction = kNoOp}}})
                  .healthy());
}

TEST(MpiStores, WhatIsBesideAPutIsOne) {
  Expect(StoredAnd({{1, {.at = 3, .count = 2}}, {2, kGet}}, {{8, 12}}), Kind::kEpochError, Certainty::kLikely, {0, 2});
}

TEST(MpiStores, NothingIsSaidWhereAnAccessIsNotKnownWhole) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(2, kGet);
  job.Access(3, {.at = 40}).bytes = 0;
  job.FenceAfterStores(0, {{8, 4}});
  job.Fence({1, 2, 3});
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiStores, NothingIsSaidWhereACallMayHaveOrderedThem) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  for (const int rank : Range(0, 4)) job.Return(rank, job.Collective(rank, Function::MPI_Barrier));
  job.Access(2, kGet);
  job.FenceAfterStores(0, {{8, 4}});
  job.Fence({1, 2, 3});
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiStores, NothingIsSaidUntilAllHaveCome) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(2, kGet);
  job.FenceAfterStores(0, {{8, 4}});
  job.Fence({1, 2});
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiStores, AnotherEpochIsAnother) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  job.Access(2, kGet);
  job.Fence(Range(0, 4));
  job.FenceAfterStores(0, {{8, 4}});
  job.Fence({1, 2, 3});
  EXPECT_TRUE(job.Diagnose().healthy());
}

TEST(MpiStores, TheyAreNoAmountsOfACollective) {
  WindowJob job(4);
  job.Fence(Range(0, 4));
  for (const int rank : Range(0, 4)) job.FenceAfterStores(rank, {{0, 4}, {8, 4}, {16, 4}, {24, 4}});
  EXPECT_TRUE(job.Diagnose().healthy());
}

}  // namespace
}  // namespace ncclwatch::testing
