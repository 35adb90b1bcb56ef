// Which requests somebody waits for at the instant of an image.
#include "core/reader/awaited.h"

#include <gtest/gtest.h>

#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

class Awaited : public ::testing::Test {
 protected:
  reader::BoxImage Image() const { return job.Snapshot().boxes.at(0); }
  reader::Call At(std::uint64_t slot) const { return Image().calls.at(slot); }

  MpiJob job{2};
  const std::uint64_t receive = job.Irecv(0, {.peer = 1});
};

TEST_F(Awaited, NobodyWaits) {
  EXPECT_FALSE(At(receive).awaited);
  EXPECT_FALSE(At(receive).BlocksCaller());
}

TEST_F(Awaited, WhileTheWaitIsInProgress) {
  const auto wait = job.Wait(0, Function::MPI_Wait, {receive});
  EXPECT_TRUE(At(receive).BlocksCaller());
  EXPECT_FALSE(At(receive).polled);
  EXPECT_FALSE(At(receive).wait_any);
  job.Return(0, wait);  // with an error, say: the request is still open
  EXPECT_FALSE(At(receive).BlocksCaller());
}

TEST_F(Awaited, NotWhatIsCompleted) {
  const auto other = job.Irecv(0, {.peer = 1});
  job.Wait(0, Function::MPI_Waitall, {receive, other});
  job.Complete(0, receive);
  EXPECT_FALSE(At(receive).awaited);
  EXPECT_TRUE(At(other).awaited);
}

TEST_F(Awaited, OnlyTheLastWaitCounts) {
  const auto other = job.Irecv(0, {.peer = 1});
  const auto first = job.Wait(0, Function::MPI_Waitany, {receive, other});
  job.Complete(0, receive);
  job.Return(0, first);
  EXPECT_FALSE(At(other).awaited);
  job.Wait(0, Function::MPI_Wait, {other});
  EXPECT_TRUE(At(other).awaited);
  EXPECT_FALSE(At(other).wait_any);
}

TEST_F(Awaited, AnyOfThem) {
  const auto other = job.Irecv(0, {.peer = 1});
  for (const Function function : {Function::MPI_Waitany, Function::MPI_Waitsome}) {
    const auto wait = job.Wait(0, function, {receive, other});
    EXPECT_TRUE(At(receive).wait_any);
    EXPECT_TRUE(At(other).wait_any);
    job.Return(0, wait);
  }
}

TEST_F(Awaited, TestsInALoop) {
  for (int i = 0; i < 3; ++i) job.Poll(0, Function::MPI_Test, {receive});
  EXPECT_TRUE(At(receive).awaited);
  EXPECT_TRUE(At(receive).polled);
  EXPECT_EQ(At(receive + 1).count, 3u);
  EXPECT_EQ(At(receive + 1).returned_ns, 0);
}

TEST_F(Awaited, ARowOfTestsEndsWithTheNextCall) {
  job.Pass(1);
  job.Poll(0, Function::MPI_Test, {receive});
  const std::int64_t polled = job.now_ns();
  job.Pass(1);
  job.Sent(0, {.peer = 1});
  EXPECT_FALSE(At(receive).awaited);
  EXPECT_EQ(At(receive + 1).returned_ns, polled);
  job.Pass(1);
  job.Poll(0, Function::MPI_Test, {receive});
  EXPECT_TRUE(At(receive).awaited);
}

// MPI_Testsome over and over: it finds one of two, and the row goes on over the other one.
TEST_F(Awaited, ARowGoesOnAfterATestThatFoundSomething) {
  const auto other = job.Irecv(0, {.peer = 1});
  job.Poll(0, Function::MPI_Testsome, {receive, other});
  const std::uint64_t row = other + 1;
  job.Pass(1);
  job.Return(0, job.Wait(0, Function::MPI_Testsome, {other}));
  job.Complete(0, other);
  EXPECT_EQ(Image().calls.at(row).returned_ns, Image().calls.at(row).completed_ns);
  job.Pass(1);
  job.At(0, row).completed_ns = job.now_ns();
  job.At(0, receive).waiter = row + 1;
  EXPECT_TRUE(At(receive).awaited);
  EXPECT_EQ(At(row).returned_ns, 0);
}

TEST_F(Awaited, TwoRowsGoOnInTurns) {
  job.Poll(0, Function::MPI_Test, {receive});
  job.PollProbe(0, {.peer = kAny, .tag = kAny});
  EXPECT_TRUE(At(receive).awaited);
  EXPECT_EQ(At(receive + 1).returned_ns, 0);
  EXPECT_EQ(At(receive + 2).returned_ns, 0);
}

TEST_F(Awaited, AnotherThreadsCallsEndNoRow) {
  job.Poll(0, Function::MPI_Test, {receive});
  job.Sent(0, {.peer = 1});
  job.Box(0).calls.back().thread += 1;
  EXPECT_TRUE(At(receive).awaited);
}

TEST_F(Awaited, TheWaitIsLostFromTheRing) {
  const auto wait = job.Wait(0, Function::MPI_Wait, {receive});
  reader::BoxImage image = Image();
  std::erase_if(image.calls, [&](const reader::Call& call) { return call.slot == wait; });
  reader::MarkAwaited(&image);
  EXPECT_FALSE(image.calls.at(receive).awaited);
}

}  // namespace
}  // namespace ncclwatch::testing
