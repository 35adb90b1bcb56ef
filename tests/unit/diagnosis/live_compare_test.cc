// The leader's live comparison over real boxes in memory that go on being written.
#include <gtest/gtest.h>

#include <cstring>

#include "core/live/live_compare.h"
#include "tests/unit/support/mpi_job.h"

namespace ncclwatch::testing {
namespace {

using diagnosis::LiveCompare;
using reader::MappedBox;

// Keeps one memory per rank, rewritten in place as the job goes on.
class Live {
 public:
  explicit Live(Job* job, int ranks, std::uint32_t ring = 256) : job_(job), ring_(ring) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<char> bytes = BoxBytes(job->Box(rank), ring_);
      memory_.push_back(static_cast<char*>(::operator new(bytes.size(), std::align_val_t(format::kPage))));
      std::memcpy(memory_.back(), bytes.data(), bytes.size());
      boxes_.push_back(MappedBox::Borrow(reinterpret_cast<const format::Header*>(memory_.back()), "box"));
      compare.Follow(*boxes_.back());
    }
  }
  ~Live() {
    for (const auto& box : boxes_) compare.Forget(*box);
    for (char* memory : memory_) ::operator delete(memory, std::align_val_t(format::kPage));
  }
  bool Poll() {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      const std::vector<char> bytes = BoxBytes(job_->Box(static_cast<int>(rank)), ring_);
      std::memcpy(memory_[rank], bytes.data(), bytes.size());
    }
    return compare.Poll(job_->now_ns());
  }
  LiveCompare compare;

 private:
  Job* job_;
  std::uint32_t ring_;
  std::vector<char*> memory_;
  std::vector<std::unique_ptr<MappedBox>> boxes_;
};

TEST(LiveCompare, QuietWhileAllIsEqual) {
  Job job(3);
  Live live(&job, 3);
  for (int i = 0; i < 50; ++i) {
    job.Pass(0.01);
    job.Call({i % 3}, Job::kWorld, AllReduce(0));
    job.Call({(i + 1) % 3, (i + 2) % 3}, Job::kWorld, AllReduce(0));
    job.Done({0, 1, 2}, Job::kWorld, AllReduce(1 + static_cast<std::uint64_t>(i)));
    EXPECT_FALSE(live.Poll());
  }
  EXPECT_EQ(live.compare.QuietSince(), 0);
}

TEST(LiveCompare, SeesTheFirstDifference) {
  Job job(3);
  Live live(&job, 3);
  job.Done({0, 1, 2}, Job::kWorld, AllReduce());
  job.Call({0}, Job::kWorld, AllReduce());
  EXPECT_FALSE(live.Poll());
  job.Call({2}, Job::kWorld, AllGather());
  ASSERT_TRUE(live.Poll());
  const LiveCompare::Suspicion& suspicion = live.compare.suspicions().front();
  EXPECT_EQ(suspicion.what, LiveCompare::What::kDifferentCall);
  EXPECT_EQ(suspicion.position, 1u);
  EXPECT_EQ(suspicion.arrived, 2u);
  EXPECT_EQ(suspicion.size, 3u);
}

TEST(LiveCompare, SeesAZeroCountFromEitherSide) {
  for (const bool empty_first : {true, false}) {
    Job job(2);
    Live live(&job, 2);
    job.Call({empty_first ? 0 : 1}, Job::kWorld, AllReduce(empty_first ? 0 : 8));
    EXPECT_FALSE(live.Poll());
    job.Call({empty_first ? 1 : 0}, Job::kWorld, AllReduce(empty_first ? 8 : 0));
    ASSERT_TRUE(live.Poll());
    EXPECT_EQ(live.compare.suspicions()[0].what, LiveCompare::What::kZeroCount);
  }
}

TEST(LiveCompare, SeesDifferentSizes) {
  Job job(2, false);
  const int comm = job.Joining(2, {0, 1});
  job.Entry(1, comm).size = 3;
  Live live(&job, 2);
  ASSERT_TRUE(live.Poll());
  EXPECT_EQ(live.compare.suspicions()[0].what, LiveCompare::What::kDifferentSize);
}

TEST(LiveCompare, AcknowledgedIsSilentForAWhileAndComesBack) {
  Job job(2);
  Live live(&job, 2);
  job.Call({0}, Job::kWorld, AllReduce(1));
  job.Call({1}, Job::kWorld, AllReduce(2));
  ASSERT_TRUE(live.Poll());
  const std::uint64_t id = live.compare.suspicions()[0].communicator;
  live.compare.Acknowledge(id, job.now_ns());
  job.Pass(0.1);
  EXPECT_FALSE(live.Poll());
  job.Pass(0.2);
  EXPECT_TRUE(live.Poll());
  live.compare.Acknowledge(id, job.now_ns());
  job.Pass(0.3);
  EXPECT_FALSE(live.Poll());
}

TEST(LiveCompare, ADifferenceIsFoundThoughRecordsWereSkipped) {
  Job job(2);
  Live live(&job, 2, 256);
  live.Poll();
  job.Call({0}, Job::kWorld, AllReduce(1));
  job.Call({1}, Job::kWorld, AllReduce(2));
  for (int i = 0; i < 400; ++i) job.Call({0, 1}, Job::kWorld, AllReduce());  // the ring has wrapped past it
  EXPECT_TRUE(live.Poll());
}

TEST(LiveCompare, RunsFarAheadWithoutForgetting) {
  Job job(2);
  Live live(&job, 2, 4096);
  for (int i = 0; i < 3000; ++i) {
    job.Call({0}, Job::kWorld, AllReduce(1 + static_cast<std::uint64_t>(i)));
    if (i % 500 == 0) live.Poll();
  }
  live.Poll();
  for (int i = 0; i < 2999; ++i) {
    job.Call({1}, Job::kWorld, AllReduce(1 + static_cast<std::uint64_t>(i)));
    if (i % 500 == 0) {
      EXPECT_FALSE(live.Poll());
    }
  }
  job.Call({1}, Job::kWorld, AllGather());
  EXPECT_TRUE(live.Poll());
}

TEST(LiveCompare, FrontsTellWhoHasArrivedAndSinceWhen) {
  Job job(3);
  Live live(&job, 3);
  job.Done({0, 1, 2}, Job::kWorld, AllReduce());
  live.Poll();
  job.Pass(1);
  job.Call({0, 2}, Job::kWorld, AllReduce());
  live.Poll();
  const std::int64_t since = job.now_ns();
  job.Pass(5);
  live.Poll();
  ASSERT_EQ(live.compare.Fronts().size(), 1u);
  const LiveCompare::Front front = live.compare.Fronts()[0];
  EXPECT_EQ(front.members, 3u);
  EXPECT_EQ(front.arrived, 2u);
  EXPECT_EQ(front.ahead, 2u);
  EXPECT_EQ(front.behind, 1u);
  EXPECT_EQ(front.pending, 2u);
  EXPECT_TRUE(front.Waiting());
  EXPECT_EQ(live.compare.QuietSince(), since);
  job.Done({1}, Job::kWorld, AllReduce());
  job.Finish({0, 2}, Job::kWorld);
  live.Poll();
  EXPECT_EQ(live.compare.QuietSince(), 0);
  EXPECT_EQ(live.compare.waits().longest_ns, 5'000'000'000);
}

// The record of the thread that is stuck lies far behind those that the others have made since.
TEST(LiveCompare, OneThreadStuckWhileOthersWentOn) {
  MpiJob job(2);
  Live live(&job, 2);
  job.Recv(0, {.peer = 1});
  EXPECT_FALSE(live.Poll());
  const std::int64_t stuck = live.compare.QuietSince();
  EXPECT_GT(stuck, 0);
  for (int i = 0; i < 20; ++i) {
    job.Pass(0.01);
    job.Sent(0, {.peer = 1, .tag = 1});
    EXPECT_FALSE(live.Poll());
  }
  EXPECT_GT(live.compare.QuietSince(), stuck);
  EXPECT_EQ(live.compare.waits().resolved, 0u);
  const std::int64_t quiet = live.compare.QuietSince();
  job.Pass(5.0);
  EXPECT_FALSE(live.Poll());
  EXPECT_EQ(live.compare.QuietSince(), quiet);
  job.Return(0, 0);
  EXPECT_FALSE(live.Poll());
  EXPECT_EQ(live.compare.QuietSince(), 0);
  EXPECT_EQ(live.compare.waits().resolved, 1u);
}

TEST(LiveCompare, DestroyedCommunicatorsAreForgotten) {
  Job job(2);
  Live live(&job, 2);
  job.Call({0}, Job::kWorld, AllReduce());
  live.Poll();
  EXPECT_NE(live.compare.QuietSince(), 0);
  job.State({0, 1}, Job::kWorld, format::CommunicatorState::kAborted);
  live.Poll();
  EXPECT_TRUE(live.compare.Fronts().empty());
  EXPECT_EQ(live.compare.QuietSince(), 0);
}

}  // namespace
}  // namespace ncclwatch::testing
