// NCCLWATCH_GPU=both: on the stream, before a call reaches NCCL, there is a start mark; and never where it would lie or
// do harm.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tests/unit/shim/fake_nccl.h"
#include "tests/unit/shim/support.h"

namespace ncclwatch::shim_test {
namespace {

// What is looked at from inside the real call.
std::function<void()> inside;

class ShimStarts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("NCCLWATCH_GPU", "both", 1); }
  void SetUp() override {
    ASSERT_NE(cuda_, nullptr) << dlerror();
    FakeNextResult(ncclSuccess);
  }
  void TearDown() override {
    FakeOnCall(nullptr);
    Stuck() = Refused() = Capturing() = false;
  }
  bool& Stuck() { return *static_cast<bool*>(dlsym(cuda_, "FakeStreamStuck")); }
  bool& Refused() { return *static_cast<bool*>(dlsym(cuda_, "FakeMarksRefused")); }
  bool& Capturing() { return *static_cast<bool*>(dlsym(cuda_, "FakeCapturing")); }
  static void Inside(std::function<void()> look) {
    inside = std::move(look);
    FakeOnCall([] { inside(); });
  }
  static bool Started(const OwnBox& box, ncclComm_t comm, const format::Record& record) {
    return (record.flags & format::kStartMarked) != 0 &&
           box.Of(comm).starts[record.start % format::kStarts] >= record.start;
  }
  // The newest that the GPU has come to; 0: none.
  static std::uint64_t Newest(const OwnBox& box, ncclComm_t comm) {
    std::uint64_t newest = 0;
    for (const std::atomic<std::uint64_t>& start : box.Of(comm).starts) newest = std::max(newest, start.load());
    return newest;
  }
  static ncclResult_t On(ncclComm_t comm, std::uint64_t stream) {
    return ncclAllReduce(nullptr, nullptr, 16, ncclFloat32, ncclSum, comm, reinterpret_cast<cudaStream_t>(stream));
  }

 private:
  void* cuda_ = dlopen(SHIM_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
};

TEST_F(ShimStarts, ACallIsMarkedBeforeItReachesNccl) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  EXPECT_EQ(box.header().gpu_marks, static_cast<std::uint32_t>(format::GpuMarks::kBoth));
  bool started = false, ended = true;
  Inside([&] {
    started = Started(box, comm, box.Newest());
    ended = (box.Newest().flags & format::kMarked) != 0;
  });
  for (std::uint64_t call = 0; call < 3 * format::kStarts; ++call) {
    AllReduce(comm);
    EXPECT_TRUE(started);
    EXPECT_FALSE(ended);
    EXPECT_EQ(box.Newest().start, (call + 1) * format::kStarts);
    EXPECT_TRUE(box.Newest().flags & format::kMarked);
    EXPECT_EQ(box.Newest().ticket, call);
  }
}

TEST_F(ShimStarts, AGroupIsMarkedAtItsEndOnceForEachStream) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  const std::uint64_t first = box.head();
  ncclGroupStart();
  On(comm, 0x40);
  ncclSend(nullptr, 1, ncclInt8, 1, comm, reinterpret_cast<cudaStream_t>(0x40));
  On(comm, 0x80);
  EXPECT_EQ(Newest(box, comm), 0u);  // nothing has been launched
  ncclGroupEnd();
  for (const std::uint64_t slot : {first + 1, first + 2, first + 3})
    EXPECT_TRUE(Started(box, comm, box.record(slot))) << slot;
  EXPECT_EQ(box.record(first + 1).start, box.record(first + 2).start);
  EXPECT_NE(box.record(first + 1).start, box.record(first + 3).start);
}

TEST_F(ShimStarts, NothingIsMarkedThatIsNotLaunched) {
  ncclComm_t comm = MakeComm();
  OwnBox box;
  AllReduce(comm, 0);
  EXPECT_EQ(Newest(box, comm), 0u);
  ncclGroupStart();
  AllReduce(comm);
  AllReduce(comm, 16, ncclSum, static_cast<ncclDataType_t>(77));  // refused: NCCL drops the group
  EXPECT_NE(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Newest(box, comm), 0u);
  Capturing() = true;
  AllReduce(comm);
  EXPECT_EQ(Newest(box, comm), 0u);
  EXPECT_FALSE(box.Newest().flags & format::kStartMarked);
  EXPECT_TRUE(box.Newest().flags & format::kCaptured);
  Capturing() = false;
  box.mutable_header().watching = 0;
  AllReduce(comm);
  box.mutable_header().watching = 1;
  EXPECT_EQ(Newest(box, comm), 0u);
  AllReduce(comm);
  EXPECT_EQ(Newest(box, comm), box.Newest().start);
  EXPECT_NE(Newest(box, comm), 0u);
}

// Its mark is on the stream for good: the number is used up, or the next call would read as begun.
TEST_F(ShimStarts, ARefusedCallKeepsItsNumber) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  FakeNextResult(ncclInvalidArgument);
  EXPECT_EQ(AllReduce(comm), ncclInvalidArgument);
  Stuck() = true;
  AllReduce(comm);
  EXPECT_GT(box.Newest().start, Newest(box, comm));
  EXPECT_NE(Newest(box, comm), 0u);
  EXPECT_EQ(box.Newest().ticket, 0u);
  EXPECT_FALSE(Started(box, comm, box.Newest()));
}

TEST_F(ShimStarts, WhatTheDriverRefusesChangesNothing) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  Refused() = true;
  EXPECT_EQ(AllReduce(comm), ncclSuccess);
  EXPECT_FALSE(box.Newest().flags & (format::kStartMarked | format::kMarked));
  EXPECT_TRUE(box.Newest().flags & format::kMarkUnavailable);
  Refused() = false;
  EXPECT_EQ(AllReduce(comm), ncclSuccess);
  EXPECT_TRUE(Started(box, comm, box.Newest()));
}

TEST_F(ShimStarts, AStreamHasAPlaceOfItsOwnAsLongAsThereAreSome) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  for (std::uint64_t stream = 1; stream <= format::kStarts; ++stream) {
    On(comm, stream * 0x40);
    EXPECT_TRUE(Started(box, comm, box.Newest())) << stream;
    EXPECT_EQ(box.Newest().start % format::kStarts, stream - 1);
  }
  On(comm, 0x1000);
  EXPECT_FALSE(box.Newest().flags & format::kStartMarked);
  EXPECT_TRUE(box.Newest().flags & format::kMarked);
  On(comm, 0x80);
  EXPECT_EQ(box.Newest().start % format::kStarts, 1u);
}

// What an abort ends lets the stream go on to what came after.
TEST_F(ShimStarts, AnAbortRemembersWhatHadNotBegun) {
  ncclComm_t comm = MakeComm();
  const OwnBox box;
  AllReduce(comm);
  const format::Communicator& entry = box.Of(comm);
  Stuck() = true;
  for (int i = 0; i < 3; ++i) AllReduce(comm);
  ncclCommAbort(comm);
  Stuck() = false;
  const std::uint64_t begun = entry.starts[0];
  EXPECT_EQ(entry.aborted_starts[0], begun);
  EXPECT_GT(box.Newest(1).start, begun);
}

}  // namespace
}  // namespace ncclwatch::shim_test
