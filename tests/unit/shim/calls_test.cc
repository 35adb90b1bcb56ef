// What the black box says after calls through the built library, with a libnccl behind it that does nothing.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <cstring>
#include <thread>

#include "ncclwatch/format/fingerprint.h"
#include "tests/unit/shim/fake_nccl.h"
#include "tests/unit/shim/support.h"

namespace ncclwatch::shim_test {
namespace {

using functions::Function;

TEST(ShimCalls, EveryFieldOfACollective) {
  ncclComm_t comm = MakeComm(2, 4);
  const OwnBox box;
  const auto* stream = reinterpret_cast<cudaStream_t>(0x40);
  ASSERT_EQ(ncclBroadcast(nullptr, nullptr, 77, ncclInt64, 3, comm, const_cast<cudaStream_t>(stream)), ncclSuccess);
  const format::Record& record = box.Newest();
  EXPECT_EQ(record.commit, box.head());
  EXPECT_EQ(record.function, Number(Function::ncclBroadcast));
  EXPECT_EQ(record.count, 77u);
  EXPECT_EQ(record.dtype, ncclInt64);
  EXPECT_EQ(record.reduction, format::kNoReduction);
  EXPECT_EQ(record.root, 3);
  EXPECT_EQ(record.stream, 0x40u);
  EXPECT_EQ(record.position, 0u);
  EXPECT_EQ(record.group, 0u);
  EXPECT_EQ(record.result, ncclSuccess);
  EXPECT_EQ(record.thread, static_cast<std::uint32_t>(gettid()));
  EXPECT_GE(record.returned, record.entered);
  EXPECT_EQ(record.chain,
            format::Chain(0, format::Fingerprint(Function::ncclBroadcast, 77, ncclInt64, format::kNoReduction, 3, 0)));
  const format::Communicator& entry = box.Of(comm);
  EXPECT_EQ(entry.entered, 1u);
  EXPECT_EQ(entry.returned, 1u);
  EXPECT_EQ(entry.chain, record.chain);
  EXPECT_EQ(entry.last.count, 77u);
  EXPECT_EQ(entry.last.slot, box.head() - 1);
  EXPECT_EQ(entry.rank, 2u);
  EXPECT_EQ(entry.size, 4u);
  EXPECT_EQ(entry.device, 3);
  EXPECT_EQ(box.header().nccl_version, 22809u);
}

TEST(ShimCalls, SiteIsInTheApplication) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  AllReduce(comm);
  const auto site = box.Newest().site;
  const auto here = reinterpret_cast<std::uint64_t>(&AllReduce);
  EXPECT_GT(site, here);
  EXPECT_LT(site, here + 4096);
}

TEST(ShimCalls, EmptyCallsTakeNoPosition) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  AllReduce(comm);
  AllReduce(comm, 0);
  EXPECT_EQ(box.Newest().position, 1u);
  EXPECT_TRUE(box.Newest().flags & format::kEmpty);
  AllReduce(comm);
  EXPECT_EQ(box.Newest().position, 1u);
  EXPECT_EQ(box.Of(comm).entered, 2u);
  EXPECT_EQ(box.Of(comm).empties, 1u);
}

TEST(ShimCalls, OneRankAndUserReductionAreSaid) {
  ncclComm_t comm = MakeComm(0, 1);
  const OwnBox box;
  AllReduce(comm, 4, static_cast<ncclRedOp_t>(17));
  EXPECT_TRUE(box.Newest().flags & format::kOneRank);
  EXPECT_EQ(box.Newest().reduction, format::kUserReduction);
}

TEST(ShimCalls, RefusedCallTakesNoPosition) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  AllReduce(comm);
  const std::uint64_t chain = box.Of(comm).chain;
  EXPECT_EQ(AllReduce(comm, 4, ncclSum, static_cast<ncclDataType_t>(99)), ncclInvalidArgument);
  EXPECT_EQ(box.Newest().result, ncclInvalidArgument);
  EXPECT_EQ(box.Of(comm).entered, 1u);
  EXPECT_EQ(box.Of(comm).chain, chain);
  EXPECT_EQ(AllReduce(nullptr), ncclInvalidArgument);
  EXPECT_EQ(box.Newest().communicator, format::kNoCommunicator);
}

TEST(ShimCalls, EnteredIsSeenBeforeReturned) {
  ncclComm_t comm = MakeComm();
  static const OwnBox* box;
  static ncclComm_t used;
  const OwnBox own;
  box = &own;
  used = comm;
  static std::uint64_t returned, entered, done;
  static int result;
  FakeOnCall([] {
    returned = box->Newest().returned;
    result = box->Newest().result;
    entered = box->Of(used).entered;
    done = box->Of(used).returned;
  });
  AllReduce(comm);
  FakeOnCall(nullptr);
  EXPECT_EQ(returned, 0u);
  EXPECT_EQ(result, format::kNoResult);
  EXPECT_EQ(entered, 1u);
  EXPECT_EQ(done, 0u);
}

TEST(ShimCalls, WhatTheLibraryCallsItselfIsNotRecorded) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  const std::uint64_t before = box.head();
  ncclBcast(nullptr, 8, ncclInt8, 0, comm, nullptr);
  EXPECT_EQ(box.head(), before + 1);
  EXPECT_EQ(box.Newest().function, Number(Function::ncclBcast));
  EXPECT_EQ(box.Of(comm).entered, 1u);
}

TEST(ShimCalls, PointToPointIsCountedPerPeerAndDirection) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  for (const int peer : {1, 2, 1}) ncclSend(nullptr, 5, ncclInt8, peer, comm, nullptr);
  EXPECT_EQ(box.Newest().position, 1u);
  EXPECT_EQ(box.Newest().root, 1);
  ncclRecv(nullptr, 5, ncclInt8, 1, comm, nullptr);
  EXPECT_EQ(box.Newest().position, 0u);
  EXPECT_EQ(box.PeerOf(comm, 1)->sends, 2u);
  EXPECT_EQ(box.PeerOf(comm, 1)->receives, 1u);
  EXPECT_EQ(box.PeerOf(comm, 2)->sends, 1u);
  EXPECT_EQ(box.Of(comm).sends, 3u);
  EXPECT_EQ(box.Of(comm).entered, 0u);
}

TEST(ShimCalls, SwitchedOffKeepsPositionsTruthful) {
  ncclComm_t comm = MakeComm();
  OwnBox box;
  AllReduce(comm);
  box.mutable_header().watching = 0;
  const std::uint64_t head = box.head();
  AllReduce(comm);
  ncclGroupStart();
  AllReduce(comm);
  ncclGroupEnd();
  EXPECT_EQ(box.head(), head);
  EXPECT_EQ(box.Of(comm).returned, 3u);
  box.mutable_header().watching = 1;
  AllReduce(comm);
  EXPECT_EQ(box.Newest().position, 3u);
}

TEST(ShimCalls, TheRingWrapsAndKeepsTheNewest) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  const std::uint64_t first = box.head();
  for (int i = 0; i < 600; ++i) AllReduce(comm, static_cast<std::size_t>(i) + 1);
  EXPECT_EQ(box.head(), first + 600);
  for (std::uint64_t back = 0; back < 256; ++back) {
    const format::Record& record = box.Newest(back);
    EXPECT_EQ(record.commit, box.head() - back);
    EXPECT_EQ(record.count, 600 - back);
  }
}

TEST(ShimCalls, ManyThreadsLoseNothing) {
  MakeComm();
  const OwnBox box;
  const std::uint64_t before = box.head();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      ncclComm_t comm = MakeComm();
      for (int call = 0; call < 5000; ++call) AllReduce(comm);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(box.head(), before + std::uint64_t{4} * 5001);
  for (std::uint64_t back = 0; back < 256; ++back) EXPECT_EQ(box.Newest(back).commit, box.head() - back);
}

std::jmp_buf escape;
[[gnu::noinline]] void CallDeep(ncclComm_t comm, int depth) {
  volatile char room[256];
  room[0] = static_cast<char>(depth);
  if (depth > 0) return CallDeep(comm, depth - room[0] + depth - 1);
  AllReduce(comm);
}

TEST(ShimCalls, JumpingOutOfACallDoesNotBlindUs) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  FakeOnCall([] { std::longjmp(escape, 1); });
  if (setjmp(escape) == 0) AllReduce(comm);
  FakeOnCall(nullptr);
  EXPECT_EQ(box.Newest().returned, 0u);
  const std::uint64_t before = box.head();
  AllReduce(comm);
  CallDeep(comm, 8);
  EXPECT_EQ(box.head(), before + 2);
}

TEST(ShimCalls, ErrnoIsAsTheLibraryLeftIt) {
  FakeOnCall([] { errno = ENOTTY; });
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  EXPECT_EQ((errno = 0, ncclCommInitRank(&comm, 2, id, 0), errno), ENOTTY);
  EXPECT_EQ((errno = 0, ncclGroupStart(), errno), ENOTTY);
  EXPECT_EQ((errno = 0, AllReduce(comm), errno), ENOTTY);
  EXPECT_EQ((errno = 0, ncclGroupEnd(), errno), ENOTTY);
  EXPECT_EQ((errno = 0, AllReduce(FakeUnseen(0, 2)), errno), ENOTTY);
  EXPECT_EQ((errno = 0, ncclCommDestroy(comm), errno), ENOTTY);
  FakeOnCall(nullptr);
}

TEST(ShimCalls, AConfigurationWithoutItsMagicNumberIsNotBelieved) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config;
  std::memset(&config, 0x5a, sizeof config);  // its pointers point nowhere
  ncclComm_t comm = nullptr;
  ncclCommInitRankConfig(&comm, 2, id, 0, &config);
  EXPECT_STREQ(OwnBox().Of(comm).label, "");
}

TEST(ShimCalls, WhereAHandleAppearedIsNotReadAgain) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* place = static_cast<ncclComm_t*>(memory);
  ASSERT_EQ(ncclCommInitRankConfig(place, 4, id, 1, &config), ncclInProgress);
  ncclComm_t comm = *place;
  munmap(memory, page);  // like the stack of a thread that has ended
  AllReduce(FakeUnseen(0, 2));
  FakeSettle(comm, ncclSuccess);
  ncclResult_t state;
  ncclCommGetAsyncError(comm, &state);
  EXPECT_EQ(OwnBox().Of(comm).state, static_cast<std::uint32_t>(format::CommunicatorState::kReady));
}

TEST(ShimCalls, AChildOfForkHasABoxOfItsOwnOrNone) {
  ncclComm_t comm = MakeComm();
  AllReduce(comm);
  const OwnBox box;
  const std::uint64_t before = box.head();
  int status = 0;
  const pid_t idle = fork();
  if (idle == 0) _exit(BoxFiles().size() == 1 ? 7 : 1);
  ASSERT_EQ(waitpid(idle, &status, 0), idle);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(box.header().last_words.written, 0u);

  const pid_t busy = fork();
  if (busy == 0) {
    ncclComm_t own = MakeComm();
    AllReduce(own);
    const OwnBox childs;
    const bool right = childs.Of(own).entered == 1 && childs.header().identity.pid == static_cast<unsigned>(getpid());
    _exit(right ? 9 : 1);
  }
  ASSERT_EQ(waitpid(busy, &status, 0), busy);
  EXPECT_EQ(WEXITSTATUS(status), 9);
  EXPECT_EQ(box.head(), before);
  EXPECT_EQ(BoxFiles().size(), 2u);
}

}  // namespace
}  // namespace ncclwatch::shim_test
