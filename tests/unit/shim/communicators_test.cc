// Communicators and groups in the black box.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/unit/shim/fake_nccl.h"
#include "tests/unit/shim/support.h"

namespace ncclwatch::shim_test {
namespace {

using format::CommunicatorState;

CommunicatorState StateOf(const format::Communicator& entry) {
  return static_cast<CommunicatorState>(entry.state.load());
}

int CountOf(const OwnBox& box, CommunicatorState state) {
  int count = 0;
  for (std::uint32_t i = 0; i < box.header().communicators_used; ++i) count += StateOf(box.communicator(i)) == state;
  return count;
}

TEST(ShimCommunicators, TheCreatingCallIsSeenBeforeItReturns) {
  MakeComm();
  static const OwnBox* box;
  const OwnBox own;
  box = &own;
  static CommunicatorState state;
  static std::uint32_t rank, size;
  FakeOnCall([] {
    const auto& entry = box->communicator(box->header().communicators_used - 1);
    state = StateOf(entry);
    rank = entry.rank;
    size = entry.size;
  });
  ncclComm_t comm = MakeComm(5, 8);
  FakeOnCall(nullptr);
  EXPECT_EQ(state, CommunicatorState::kInitializing);
  EXPECT_EQ(rank, 5u);
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(StateOf(box->Of(comm)), CommunicatorState::kReady);
}

TEST(ShimCommunicators, TheSameIdTwiceIsTwoCommunicators) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t first, second, other_rank;
  ncclCommInitRank(&first, 2, id, 0);
  ncclCommInitRank(&second, 2, id, 0);
  ncclCommInitRank(&other_rank, 2, id, 1);
  const OwnBox box;
  EXPECT_NE(box.Of(first).id, box.Of(second).id);
  EXPECT_EQ(box.Of(first).id, box.Of(other_rank).id);
}

TEST(ShimCommunicators, FailedCreation) {
  MakeComm();
  const OwnBox box;
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  FakeNextResult(ncclSystemError);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
  EXPECT_EQ(StateOf(box.communicator(box.header().communicators_used - 1)), CommunicatorState::kFailed);
  EXPECT_EQ(box.Newest().result, ncclSystemError);
}

TEST(ShimCommunicators, SplitsAgreeOnTheirIdentityWithoutAMessage) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t parents[2], left[2], right, none;
  for (int rank = 0; rank < 2; ++rank) ncclCommInitRank(&parents[rank], 2, id, rank);
  const OwnBox box;
  for (int rank = 0; rank < 2; ++rank) ncclCommSplit(parents[rank], 1, 0, &left[rank], nullptr);
  EXPECT_EQ(box.Of(left[0]).id, box.Of(left[1]).id);
  EXPECT_EQ(box.Of(left[0]).parent, box.Of(parents[0]).id);
  EXPECT_EQ(box.Of(left[0]).parent_ordinal, 0u);
  EXPECT_EQ(box.Of(left[0]).size, 1u);
  EXPECT_EQ(box.Of(left[0]).color, 1);
  EXPECT_FALSE(box.Of(left[0]).flags & format::kCommRankUnknown);
  // One collective more on one rank changes nothing.
  AllReduce(parents[0]);
  const std::uint32_t used = box.header().communicators_used;
  ncclCommSplit(parents[1], NCCL_SPLIT_NOCOLOR, 0, &none, nullptr);
  EXPECT_EQ(box.header().communicators_used, used);
  ncclCommSplit(parents[0], 4, 0, &right, nullptr);
  EXPECT_EQ(box.Of(right).parent_ordinal, 1u);
  EXPECT_EQ(box.Of(parents[1]).creations, 2u);
  EXPECT_NE(box.Of(right).id, box.Of(left[0]).id);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
TEST(ShimCommunicators, AShrinkDoesNotRenameTheLaterSplitsOfThoseLeftOut) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t parents[3], shrunk[2], again, split[3];
  for (int rank = 0; rank < 3; ++rank) ncclCommInitRank(&parents[rank], 3, id, rank);
  const OwnBox box;
  int excluded[] = {2};
  for (int rank = 0; rank < 2; ++rank) ncclCommShrink(parents[rank], excluded, 1, &shrunk[rank], nullptr, 0);
  EXPECT_EQ(box.Of(shrunk[0]).id, box.Of(shrunk[1]).id);
  ncclCommShrink(parents[0], excluded, 1, &again, nullptr, 0);
  EXPECT_NE(box.Of(again).id, box.Of(shrunk[0]).id);
  for (int rank = 0; rank < 3; ++rank) ncclCommSplit(parents[rank], 0, 0, &split[rank], nullptr);
  EXPECT_EQ(box.Of(split[0]).id, box.Of(split[2]).id);
  EXPECT_EQ(box.Of(split[1]).id, box.Of(split[2]).id);
}
#endif

TEST(ShimCommunicators, InitAllMakesEveryRank) {
  ncclComm_t comms[3];
  ASSERT_EQ(ncclCommInitAll(comms, 3, nullptr), ncclSuccess);
  const OwnBox box;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(box.Of(comms[rank]).rank, rank);
    EXPECT_EQ(box.Of(comms[rank]).size, 3u);
    EXPECT_EQ(box.Of(comms[rank]).id, box.Of(comms[0]).id);
    EXPECT_EQ(StateOf(box.Of(comms[rank])), CommunicatorState::kReady);
  }
}

TEST(ShimCommunicators, NonBlockingSettlesWhenTheApplicationIsReported) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 4, id, 1, &config), ncclInProgress);
  const OwnBox box;
  EXPECT_EQ(StateOf(box.Of(comm)), CommunicatorState::kInitializing);
  ncclResult_t state;
  ncclCommGetAsyncError(comm, &state);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(StateOf(box.Of(comm)), CommunicatorState::kInitializing);
  FakeSettle(comm, ncclSuccess);
  ncclCommGetAsyncError(comm, &state);
  EXPECT_EQ(StateOf(box.Of(comm)), CommunicatorState::kReady);
  AllReduce(comm);
  EXPECT_TRUE(box.Newest().flags & format::kNonBlocking);
}

#if NCCL_VERSION_CODE >= 22700
TEST(ShimCommunicators, TheNameGivenToNcclIsTheLabel) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "tensor parallel";
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 4, id, 1, &config), ncclSuccess);
  EXPECT_STREQ(OwnBox().Of(comm).label, "tensor parallel");
}
#endif

TEST(ShimCommunicators, AHandleNeverSeenBefore) {
  MakeComm();
  const OwnBox box;
  ncclComm_t stranger = FakeUnseen(1, 4);
  AllReduce(stranger);
  EXPECT_TRUE(box.Of(stranger).flags & format::kCommIdentityUnknown);
  EXPECT_EQ(box.Of(stranger).rank, 1u);
  EXPECT_EQ(box.Of(stranger).size, 4u);
  EXPECT_EQ(box.Of(stranger).entered, 1u);
  ncclCommDestroy(stranger);
}

TEST(ShimCommunicators, EntriesOfTheDestroyedAreReused) {
  MakeComm();
  const OwnBox box;
  std::map<std::uint64_t, int> identities;
  for (std::uint32_t i = 0; i < 2 * format::kDefaultCommunicators; ++i) {
    ncclComm_t comm = MakeComm();
    AllReduce(comm);
    EXPECT_EQ(box.Of(comm).entered, 1u);
    EXPECT_EQ(identities[box.Of(comm).id]++, 0);
    EXPECT_EQ(box.Newest().generation, box.Of(comm).generation);
    ncclCommDestroy(comm);
  }
  EXPECT_EQ(box.header().communicators_used, format::kDefaultCommunicators);
  EXPECT_EQ(box.header().communicators_lost, 0u);
}

TEST(ShimCommunicators, CountsOfTheDestroyedMakeRoom) {
  ncclComm_t lasting = MakeComm();
  const OwnBox box;
  ncclSend(nullptr, 1, ncclInt8, 3, lasting, nullptr);
  constexpr std::uint32_t kCommunicators = 100'000;
  for (std::uint32_t i = 1; i <= kCommunicators; ++i) {
    ncclComm_t comm = MakeComm();
    ncclSend(nullptr, 1, ncclInt8, 1, comm, nullptr);
    ncclSend(nullptr, 1, ncclInt8, 1, comm, nullptr);
    if (i % 997 == 0 || i == kCommunicators) {
      ASSERT_NE(box.PeerOf(comm, 1), nullptr) << i;
      EXPECT_EQ(box.PeerOf(comm, 1)->sends, 2u) << i;
      EXPECT_EQ(box.PeerOf(comm, 1)->receives, 0u) << i;
      ncclRecv(nullptr, 1, ncclInt8, 3, lasting, nullptr);
    }
    ncclCommDestroy(comm);
    FakeCalls();
  }
  EXPECT_EQ(box.header().peers_lost, 0u);
  EXPECT_EQ(box.PeerOf(lasting, 3)->sends, 1u);
  EXPECT_EQ(box.PeerOf(lasting, 3)->receives, kCommunicators / 997 + 1);
}

TEST(ShimCommunicators, WhatHasEndedGivesWayToWhatLives) {
  const int peers = 1 << 15;  // twice what the table holds
  ncclComm_t ended = MakeComm(0, peers);
  const OwnBox box;
  for (int peer = 0; peer < peers; ++peer) ncclSend(nullptr, 1, ncclInt8, peer, ended, nullptr);
  const std::uint32_t lost = box.header().peers_lost;
  EXPECT_GT(lost, 0u);
  ncclCommDestroy(ended);
  ncclComm_t comm = MakeComm();
  for (int peer = 0; peer < 4; ++peer) {
    ncclRecv(nullptr, 1, ncclInt8, peer, comm, nullptr);
    ASSERT_NE(box.PeerOf(comm, static_cast<std::uint32_t>(peer)), nullptr) << peer;
    EXPECT_EQ(box.PeerOf(comm, static_cast<std::uint32_t>(peer))->sends, 0u);
    EXPECT_EQ(box.PeerOf(comm, static_cast<std::uint32_t>(peer))->receives, 1u);
  }
  EXPECT_GE(box.header().peers_lost, lost);
}

TEST(ShimCommunicators, AFullTableIsSaidOnceAndHarmsNobody) {
  ExpectSaid(
      [] {
        std::vector<ncclComm_t> comms;
        MakeComm();
        const OwnBox box;
        for (std::uint32_t i = 0; i < format::kDefaultCommunicators + 10; ++i) comms.push_back(MakeComm());
        return AllReduce(comms.back()) == ncclSuccess && box.header().communicators_lost > 0;
      },
      "communicators");
}

TEST(ShimGroups, CallsReturnAtTheOutermostEnd) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  ncclGroupStart();
  const std::uint64_t start = box.head();
  EXPECT_EQ(box.Newest().group, start);
  ncclGroupStart();
  AllReduce(comm);
  const format::Record& inside = box.Newest();
  ncclSend(nullptr, 1, ncclInt8, 1, comm, nullptr);
  const format::Record& sent = box.Newest();
  ncclGroupEnd();
  EXPECT_EQ(inside.returned, 0u);
  EXPECT_EQ(inside.group, start);
  EXPECT_TRUE(inside.flags & format::kGrouped);
  EXPECT_EQ(box.Of(comm).returned, 0u);
  FakeNextResult(ncclSystemError);
  EXPECT_EQ(ncclGroupEnd(), ncclSystemError);
  EXPECT_EQ(box.Newest().group, start);
  EXPECT_EQ(inside.result, ncclSystemError);
  EXPECT_EQ(sent.result, ncclSystemError);
  EXPECT_NE(inside.returned, 0u);
  EXPECT_EQ(box.Of(comm).returned, 1u);
  AllReduce(comm);
  EXPECT_EQ(box.Newest().group, 0u);
}

TEST(ShimGroups, OneRefusedCallDropsThemAll) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  AllReduce(comm);
  const std::uint64_t chain = box.Of(comm).chain;
  ncclGroupStart();
  AllReduce(comm);
  AllReduce(comm, 4, ncclSum, static_cast<ncclDataType_t>(99));
  ncclSend(nullptr, 1, ncclInt8, 1, comm, nullptr);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(box.Of(comm).entered, 1u);
  EXPECT_EQ(box.Of(comm).returned, 1u);
  EXPECT_EQ(box.Of(comm).chain, chain);
  EXPECT_EQ(box.Of(comm).sends, 0u);
  EXPECT_EQ(box.PeerOf(comm, 1)->sends, 0u);
}

TEST(ShimGroups, SplitsAppearAtTheEnd) {
  ncclComm_t comm = MakeComm(0, 8);
  const OwnBox box;
  ncclComm_t half = nullptr;
  ncclGroupStart();
  ncclCommSplit(comm, 0, 0, &half, nullptr);
  const format::Record& split = box.Newest();
  EXPECT_EQ(split.returned, 0u);
  EXPECT_EQ(CountOf(box, CommunicatorState::kInitializing), 1);
  ncclGroupEnd();
  EXPECT_EQ(CountOf(box, CommunicatorState::kInitializing), 0);
  EXPECT_NE(split.returned, 0u);
  EXPECT_EQ(box.Of(half).rank, 1u);
  EXPECT_EQ(box.Of(half).size, 4u);
  EXPECT_EQ(StateOf(box.Of(half)), CommunicatorState::kReady);
}

TEST(ShimGroups, AnEndWithoutAStartIsPassedOn) {
  MakeComm();
  const OwnBox box;
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(box.Newest().result, ncclInvalidUsage);
  EXPECT_EQ(box.Newest().group, 0u);
}

}  // namespace
}  // namespace ncclwatch::shim_test
