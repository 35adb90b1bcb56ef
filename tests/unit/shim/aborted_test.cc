// A communicator is aborted by another thread while a call on it is stuck, and its entry goes to the next one before
// the call comes back: nothing of the old may be seen in the new.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/unit/shim/fake_nccl.h"
#include "tests/unit/shim/support.h"

namespace ncclwatch::shim_test {
namespace {

using format::CommunicatorState;
using functions::Function;

struct Driver {
  void* handle = dlopen(SHIM_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  int* written = static_cast<int*>(dlsym(handle, "FakeMarksWritten"));
  bool* stuck = static_cast<bool*>(dlsym(handle, "FakeStreamStuck"));
  void (**on_mark)() = static_cast<void (**)()>(dlsym(handle, "FakeOnMark"));
};
Driver& FakeDriver() {
  static Driver driver;
  return driver;
}

// What the other thread does, from inside the call of the first.
struct Meanwhile {
  ncclComm_t old = nullptr;
  std::uint32_t index = 0;  // of the entry
  ncclComm_t next = nullptr;
  std::vector<ncclComm_t> made;
} meanwhile;

void Reuse() {
  const OwnBox box;
  for (std::uint32_t i = 0; i <= format::kDefaultCommunicators; ++i) {
    ncclComm_t comm = MakeComm();
    meanwhile.made.push_back(comm);
    if (&box.Of(comm) != &box.communicator(meanwhile.index)) continue;
    meanwhile.next = comm;
    return;
  }
}

void AbortAndReuse() {
  FakeOnCall(nullptr);
  *FakeDriver().on_mark = nullptr;
  std::thread([] {
    ncclCommAbort(meanwhile.old);
    Reuse();
  }).join();
}

class ShimAborted : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(FakeDriver().handle, nullptr) << dlerror();
    meanwhile = {};
    meanwhile.old = MakeComm();
    const OwnBox box;
    meanwhile.index = static_cast<std::uint32_t>(&box.Of(meanwhile.old) - &box.communicator(0));
    generation_ = box.communicator(meanwhile.index).generation;
  }
  void TearDown() override {
    FakeOnCall(nullptr);
    *FakeDriver().on_mark = nullptr;
    *FakeDriver().stuck = false;
    for (ncclComm_t comm : meanwhile.made) ncclCommDestroy(comm);
  }
  // The entry is the new communicator's, on which nothing has been called.
  void ExpectUntouched(const OwnBox& box, std::uint64_t tickets) {
    ASSERT_NE(meanwhile.next, nullptr);
    const format::Communicator& entry = box.communicator(meanwhile.index);
    EXPECT_EQ(entry.generation, generation_ + 1);
    EXPECT_EQ(entry.state.load(), static_cast<std::uint32_t>(CommunicatorState::kReady));
    EXPECT_EQ(entry.entered, 0u);
    EXPECT_EQ(entry.returned, 0u);
    EXPECT_EQ(entry.sends, 0u);
    EXPECT_EQ(entry.chain, 0u);
    EXPECT_EQ(entry.tickets, tickets);
  }
  // A call on the new communicator is not done before its own mark is written.
  void ExpectOwnMarks(const OwnBox& box) {
    static const OwnBox* seen;
    static bool early;
    seen = &box;
    *FakeDriver().on_mark = [] {
      const format::Communicator& entry = seen->communicator(meanwhile.index);
      early = entry.marks[entry.tickets % format::kMarks] > entry.tickets;
    };
    AllReduce(meanwhile.next);
    EXPECT_FALSE(early);
    const format::Communicator& entry = box.communicator(meanwhile.index);
    ASSERT_TRUE(box.Newest().flags & format::kMarked);
    EXPECT_GT(entry.marks[box.Newest().ticket % format::kMarks], box.Newest().ticket);
  }
  std::uint32_t generation_ = 0;
};

TEST_F(ShimAborted, ACollectiveComesBackFine) {
  for (int i = 0; i < 5; ++i) AllReduce(meanwhile.old);
  const OwnBox box;
  const std::uint64_t tickets = box.communicator(meanwhile.index).tickets;
  ASSERT_GE(tickets, 5u);
  const int written = *FakeDriver().written;
  const std::uint64_t stuck = box.head();
  FakeOnCall(AbortAndReuse);
  AllReduce(meanwhile.old);
  ExpectUntouched(box, tickets + 1);
  EXPECT_EQ(*FakeDriver().written, written);
  if (box.head() - stuck < box.header().ring.count / 2) {
    EXPECT_FALSE(box.record(stuck).flags & format::kMarked);
  }
  ExpectOwnMarks(box);
}

TEST_F(ShimAborted, ACollectiveComesBackWithAnError) {
  AllReduce(meanwhile.old);
  const OwnBox box;
  FakeOnCall([] {
    AbortAndReuse();
    FakeNextResult(ncclSystemError);
  });
  const std::uint64_t tickets = box.communicator(meanwhile.index).tickets;
  EXPECT_EQ(AllReduce(meanwhile.old), ncclSystemError);
  ExpectUntouched(box, tickets + 1);
}

TEST_F(ShimAborted, ARefusedCallGivesNoPositionBack) {
  const OwnBox box;
  FakeOnCall([] {
    AbortAndReuse();
    std::thread([] { AllReduce(meanwhile.next); }).join();
    FakeNextResult(ncclInvalidArgument);
  });
  EXPECT_EQ(AllReduce(meanwhile.old), ncclInvalidArgument);
  EXPECT_EQ(box.communicator(meanwhile.index).entered, 1u);
  EXPECT_EQ(box.communicator(meanwhile.index).returned, 1u);
}

TEST_F(ShimAborted, AGroupComesBack) {
  AllReduce(meanwhile.old);
  const OwnBox box;
  ncclGroupStart();
  AllReduce(meanwhile.old);
  ncclSend(nullptr, 1, ncclInt8, 1, meanwhile.old, nullptr);
  const int written = *FakeDriver().written;
  const std::uint64_t tickets = box.communicator(meanwhile.index).tickets;
  FakeOnCall(AbortAndReuse);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  ExpectUntouched(box, tickets + 1);
  EXPECT_EQ(*FakeDriver().written, written);
  EXPECT_EQ(box.PeerOf(meanwhile.next, 1), nullptr);
}

TEST_F(ShimAborted, WhileTheDriverTakesTheMark) {
  for (int i = 0; i < 100; ++i) AllReduce(meanwhile.old);  // more than there are marks
  const OwnBox box;
  const std::uint64_t tickets = box.communicator(meanwhile.index).tickets;
  *FakeDriver().on_mark = [] {
    AbortAndReuse();
    std::thread([] { AllReduce(meanwhile.next); }).join();
  };
  AllReduce(meanwhile.old);
  const format::Communicator& entry = box.communicator(meanwhile.index);
  EXPECT_EQ(entry.generation, generation_ + 1);
  EXPECT_EQ(entry.entered, 1u);
  EXPECT_EQ(entry.returned, 1u);
  EXPECT_EQ(entry.tickets, tickets + 2);
  for (std::uint64_t ticket = entry.tickets - format::kMarks; ticket < entry.tickets; ++ticket)
    EXPECT_GT(entry.marks[ticket % format::kMarks], ticket);
  ExpectOwnMarks(box);
}

TEST_F(ShimAborted, WhatWasUnfinishedBeforeIsKept) {
  for (int i = 0; i < 10; ++i) AllReduce(meanwhile.old);
  *FakeDriver().stuck = true;
  for (int i = 0; i < 100; ++i) AllReduce(meanwhile.old);  // more than there are marks
  const OwnBox box;
  const format::Communicator& entry = box.communicator(meanwhile.index);
  const std::uint64_t tickets = entry.tickets;
  std::uint64_t marks[format::kMarks];
  for (std::uint64_t ticket = 0; ticket < format::kMarks; ++ticket) marks[ticket] = entry.marks[ticket];
  ncclCommAbort(meanwhile.old);
  EXPECT_NE(entry.aborted, 0u);
  EXPECT_EQ(entry.aborted_tickets, tickets);
  for (std::uint64_t i = 0; i < format::kMarks; ++i) EXPECT_EQ(entry.aborted_tickets - entry.unfinished[i], marks[i]);
  *FakeDriver().stuck = false;
  Reuse();
  ASSERT_NE(meanwhile.next, nullptr);
  EXPECT_EQ(entry.aborted, 0u);
}

int CountAdopted(const OwnBox& box) {
  int count = 0;
  for (std::uint32_t i = 0; i < box.header().communicators_used; ++i)
    count += (box.communicator(i).flags & format::kCommIdentityUnknown) != 0;
  return count;
}

TEST(ShimLifecycle, AnUnknownCommunicatorIsEndedWithoutQuestions) {
  MakeComm();
  const OwnBox box;
  const int adopted = CountAdopted(box);
  // One that is pending, so that the handle might be its.
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t pending = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&pending, 4, id, 1, &config), ncclInProgress);
  FakeQuestions();
  ncclCommFinalize(FakeUnseen(0, 2));
  ncclCommAbort(FakeUnseen(0, 2));
  ncclCommDestroy(FakeUnseen(0, 2));
  EXPECT_EQ(FakeQuestions(), 0);
  EXPECT_EQ(CountAdopted(box), adopted);
  EXPECT_EQ(box.Newest().function, Number(Function::ncclCommDestroy));
  EXPECT_EQ(box.Newest().communicator, format::kNoCommunicator);
}

}  // namespace
}  // namespace ncclwatch::shim_test
