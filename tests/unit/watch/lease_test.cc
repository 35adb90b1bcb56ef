#include "watchdog/watch/base/lease.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ncclwatch::watch {
namespace {

class LeaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/dev/shm/ncclwatch-lease-XXXXXX";
    top_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(top_); }
  std::unique_ptr<LeaseFile> Open() {
    std::string why;
    std::unique_ptr<LeaseFile> lease = LeaseFile::Open(descriptors::Directory::Own(top_), &why);
    EXPECT_TRUE(lease) << why;
    return lease;
  }
  std::string top_;
};

constexpr std::int64_t kNow = 1'000'000'000'000;

TEST_F(LeaseTest, IsFreeAtFirstAndThenHeld) {
  const auto one = Open(), two = Open();
  EXPECT_TRUE(one->Open(kNow));
  EXPECT_TRUE(one->Take(one->Holder(), kNow));
  EXPECT_TRUE(one->Mine());
  EXPECT_EQ(one->Generation(), 1u);
  EXPECT_EQ(two->HolderPid(), getpid());
  EXPECT_FALSE(two->Open(kNow + kLeaseLength_ns));
  EXPECT_FALSE(two->Mine());
}

TEST_F(LeaseTest, ASilentHolderIsOvertakenAndNotices) {
  const auto one = Open(), two = Open();
  ASSERT_TRUE(one->Take(0, kNow));
  const std::int64_t later = kNow + kLeaseLength_ns + 1;
  EXPECT_TRUE(two->Open(later));
  EXPECT_TRUE(two->Take(two->Holder(), later));
  EXPECT_FALSE(one->Mine());
  EXPECT_TRUE(two->Mine());
  EXPECT_FALSE(one->Open(later));  // the new holder's heartbeat counts
  one->Release();                  // of one that leads no more: changes nothing
  EXPECT_TRUE(two->Mine());
}

TEST_F(LeaseTest, OnlyOneOfTwoCandidatesWins) {
  const auto one = Open(), two = Open();
  const std::uint64_t seen = one->Holder();
  EXPECT_TRUE(one->Take(seen, kNow));
  EXPECT_FALSE(two->Take(seen, kNow));
  EXPECT_TRUE(one->Mine());
}

TEST_F(LeaseTest, GivenBackItIsFreeAtOnce) {
  const auto one = Open(), two = Open();
  ASSERT_TRUE(one->Take(0, kNow));
  one->Release();
  EXPECT_TRUE(two->Open(kNow));
  EXPECT_TRUE(two->Take(two->Holder(), kNow));
  EXPECT_EQ(two->Generation(), 2u);
}

TEST_F(LeaseTest, RacingProcessesMakeOneFileAndOneHolder) {
  constexpr int kProcesses = 12;
  for (int i = 0; i < kProcesses; ++i) {
    if (fork() != 0) continue;
    std::string why;
    const auto lease = LeaseFile::Open(descriptors::Directory::Own(top_), &why);
    _exit(lease && lease->Take(0, kNow) ? 1 : lease ? 0 : 2);
  }
  int winners = 0, status = 0;
  while (wait(&status) > 0) {
    EXPECT_NE(WEXITSTATUS(status), 2);
    winners += WEXITSTATUS(status) == 1;
  }
  EXPECT_EQ(winners, 1);
}

TEST_F(LeaseTest, TheHolderIsAProcessOnlyWhereItsPidMeansOne) {
  const auto one = Open(), two = Open();
  EXPECT_FALSE(two->NearHolder());
  ASSERT_TRUE(one->Take(0, kNow));
  const auto own = rundir::StatOf(getpid());
  ASSERT_TRUE(own && two->NearHolder());
  EXPECT_EQ(two->NearHolder()->pid, getpid());
  EXPECT_EQ(two->NearHolder()->holder, two->Holder());
  EXPECT_TRUE(two->NearHolder()->Is(*own));
  rundir::ProcessStat other = *own;
  ++other.start_time;
  EXPECT_FALSE(two->NearHolder()->Is(other));

  format::Lease& words = two->words();
  const std::uint64_t place = words.holder_place, start = words.holder_start;
  words.holder_place = place ^ 1;  // another container, or another boot
  EXPECT_FALSE(two->NearHolder());
  words.holder_place = place - (std::uint64_t{1} << 32);  // left from the holder before
  EXPECT_FALSE(two->NearHolder());
  words.holder_place = place;
  words.holder_start = start + (std::uint64_t{1} << 48);
  EXPECT_FALSE(two->NearHolder());
  words.holder_start = start;
  EXPECT_TRUE(two->NearHolder());
  one->Release();
  EXPECT_FALSE(two->NearHolder());
}

TEST(PidPlace, TellsBootsAndNamespacesApart) {
  EXPECT_EQ(format::PidPlace("boot", 4026531836), format::PidPlace("boot", 4026531836));
  EXPECT_NE(format::PidPlace("boot", 4026531836), format::PidPlace("boot", 4026532191));
  EXPECT_NE(format::PidPlace("boot", 4026531836), format::PidPlace("toob", 4026531836));
}

TEST_F(LeaseTest, AForeignOrShortFileIsRefusedWithAReason) {
  std::ofstream(top_ + "/lease") << "short";
  std::string why;
  EXPECT_FALSE(LeaseFile::Open(descriptors::Directory::Own(top_), &why));
  EXPECT_NE(why.find("lease"), std::string::npos);
  std::ofstream(top_ + "/lease") << std::string(4096, 'x');
  EXPECT_FALSE(LeaseFile::Open(descriptors::Directory::Own(top_), &why));
  EXPECT_NE(why.find("version"), std::string::npos);
}

}  // namespace
}  // namespace ncclwatch::watch
