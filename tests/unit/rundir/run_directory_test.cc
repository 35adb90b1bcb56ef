#include "watchdog/rundir/run_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "ncclwatch/format/black_box.h"

namespace ncclwatch::rundir {
namespace {

namespace fs = std::filesystem;

class RunDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ncclwatch-rundir-XXXXXX";
    top_ = mkdtemp(name);
    settings_.directory = top_ + "/run";
    launch_.job = "job-" + top_.substr(top_.size() - 6);  // no other test's: those of one job share its default place
    launch_.rank = 0;
    launch_.world_size = launch_.local_world_size = 2;
    launch_.own_launcher = true;
    setenv("TMPDIR", top_.c_str(), 1);
  }
  void TearDown() override {
    if (mounted_) umount2((top_ + "/small").c_str(), MNT_DETACH);
    fs::remove_all(top_);
  }

  Made Ok(std::uint64_t bytes = 4096) {
    const std::variant<Made, Refused> result = Make(settings_, launch_, {bytes});
    if (const Refused* refused = std::get_if<Refused>(&result)) {
      ADD_FAILURE() << refused->reason;
      return {};
    }
    return std::get<Made>(result);
  }

  // A box as a process that is gone left it, or, with `holder`, of a child that holds its lock until it is told to go.
  // `world`: it has made a communicator of so many ranks.
  void PutBox(const std::string& directory, std::int32_t rank, std::int64_t heartbeat_ns, int* holder = nullptr,
              std::int32_t world = 0) {
    alignas(format::Header) static char page[format::kPage + sizeof(format::Communicator)];
    std::memset(page, 0, sizeof(page));
    auto* header = reinterpret_cast<format::Header*>(page);
    std::memcpy(header->magic, format::kMagic, sizeof(header->magic));
    header->identity.rank = rank;
    header->identity.pid = 1;
    header->heartbeat_ns = heartbeat_ns;
    header->identity.world_size = world;
    header->communicators = {format::kPage, sizeof(format::Communicator), 1, sizeof(format::Communicator)};
    auto* communicator = reinterpret_cast<format::Communicator*>(page + format::kPage);
    communicator->size = static_cast<std::uint32_t>(world);
    if (world > 0) communicator->state = static_cast<std::uint32_t>(format::CommunicatorState::kReady);
    const std::string path = directory + "/h." + std::to_string(rank) + ".box";
    std::ofstream(path, std::ios::binary).write(page, sizeof(page));
    if (!holder) return;
    int ready[2], go[2];
    ASSERT_EQ(pipe(ready) | pipe(go), 0);
    if (fork() == 0) {
      close(go[1]);
      const int fd = open(path.c_str(), O_RDWR);
      struct flock lock = {};
      lock.l_type = F_WRLCK;
      lock.l_len = 1;
      char byte = fcntl(fd, F_SETLK, &lock) == 0 ? 'y' : 'n';
      if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) < 0) _exit(1);
      _exit(0);
    }
    close(go[0]);
    close(ready[1]);
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    ASSERT_EQ(byte, 'y');
    close(ready[0]);
    *holder = go[1];
  }

  static std::int64_t Now() {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  }

  std::string top_;
  settings::Settings settings_;
  Launch launch_;
  bool mounted_ = false;
};

TEST_F(RunDirectory, IsMadeForItsOwnerOnlyAndJoinedByTheOthers) {
  const Made first = Ok();
  EXPECT_EQ(first.path, settings_.directory);
  EXPECT_TRUE(first.remark.empty());
  EXPECT_EQ(fs::status(first.path).permissions(), fs::perms::owner_all);
  launch_.rank = 1;
  EXPECT_EQ(Ok().path, first.path);
}

TEST_F(RunDirectory, AttemptsNeverShareOne) {
  const std::string attempt0 = Ok().path;
  launch_.attempt = 1;
  const Made attempt1 = Ok();
  EXPECT_EQ(attempt1.path, settings_.directory + "/attempt-1");
  EXPECT_TRUE(attempt1.remark.empty());
  EXPECT_EQ(fs::read_symlink(settings_.directory + "/latest"), "attempt-1");
  launch_.attempt = 2;
  EXPECT_EQ(Ok().path, settings_.directory + "/attempt-2");
}

TEST_F(RunDirectory, AnotherJobGetsTheNextOneAndSaysSoOnce) {
  Ok();
  launch_.job = "job-ba9876543210";
  const Made other = Ok();
  EXPECT_EQ(other.path, settings_.directory + "/run-1");
  EXPECT_NE(other.remark.find("run-1"), std::string::npos);
  launch_.rank = 1;
  const Made second_rank = Ok();
  EXPECT_EQ(second_rank.path, other.path);
  EXPECT_TRUE(second_rank.remark.empty());
  launch_.attempt = 1;
  EXPECT_EQ(Ok().path, settings_.directory + "/run-1/attempt-1");
}

TEST_F(RunDirectory, BoxesThatNobodyClaimsAreSomebodyElses) {
  fs::create_directories(settings_.directory);
  fs::permissions(settings_.directory, fs::perms::owner_all);
  PutBox(settings_.directory, 0, 1);
  EXPECT_EQ(Ok().path, settings_.directory + "/run-1");
}

TEST_F(RunDirectory, WithoutALauncherBoxesOfAnEarlierStartCloseIt) {
  launch_.own_launcher = false;
  const std::string first = Ok().path;
  PutBox(first, 0, Now());
  launch_.rank = 1;
  EXPECT_EQ(Ok().path, first);  // a slow rank 1 of the same start: rank 0 died while this process ran already
  launch_.rank = 0;
  EXPECT_EQ(Ok().path, settings_.directory + "/run-1");  // rank 0 has been there
  launch_.rank = 1;
  EXPECT_EQ(Ok().path, settings_.directory + "/run-1");  // decided once: with that the first start is over for all
  fs::remove_all(settings_.directory + "/run-1");
  PutBox(first, 0, 1);
  EXPECT_EQ(Ok().path, settings_.directory + "/run-1");  // gone before this process began
}

TEST_F(RunDirectory, ASurvivorOfAnEarlierStartIsLeftAlone) {
  launch_.own_launcher = false;
  launch_.world_size = 4;
  const std::string first = Ok().path;
  int holder = -1;
  PutBox(first, 3, 1, &holder, 4);  // lives on, of a run in which all four ranks have met
  for (const std::int32_t rank : {0, 3, 1, 2}) {
    launch_.rank = rank;
    EXPECT_EQ(Ok().path, settings_.directory + "/run-1") << rank;
    PutBox(settings_.directory + "/run-1", rank, Now());
  }
  close(holder);
  wait(nullptr);
}

TEST_F(RunDirectory, ALiveBoxOfAnotherRankKeepsItOpen) {
  launch_.own_launcher = false;
  const std::string first = Ok().path;
  int holder = -1;
  PutBox(first, 1, 1, &holder);
  EXPECT_EQ(Ok().path, first);
  PutBox(first, 0, 1);  // rank 0 died alone and was started again: still the same job
  EXPECT_EQ(Ok().path, first);
  const std::vector<Listed> listed = List(settings_);
  ASSERT_FALSE(listed.empty());
  const auto here = std::find_if(listed.begin(), listed.end(), [&](const Listed& one) { return one.path == first; });
  ASSERT_NE(here, listed.end());
  EXPECT_EQ(here->boxes, 2);
  EXPECT_EQ(here->alive, 1);
  EXPECT_EQ(here->job, launch_.job);
  close(holder);
  wait(nullptr);
}

TEST_F(RunDirectory, LinksAndOpenDirectoriesAreNotEntered) {
  fs::create_directories(top_ + "/real");
  fs::permissions(top_ + "/real", fs::perms::owner_all);
  fs::create_directory_symlink(top_ + "/real", settings_.directory);
  const Made instead = Ok();
  EXPECT_FALSE(instead.path.starts_with(top_ + "/run"));
  EXPECT_NE(instead.remark.find("link"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(top_ + "/real"));
  fs::remove_all(instead.path);
  settings_.directory += "/";  // a slash at the end must not make it followed
  const Made again = Ok();
  EXPECT_TRUE(fs::is_empty(top_ + "/real"));
  fs::remove_all(again.path);

  settings_.directory = top_ + "/open";
  fs::create_directories(settings_.directory);
  fs::permissions(settings_.directory, fs::perms::all);
  const Made elsewhere = Ok();
  EXPECT_NE(elsewhere.remark.find("others may write"), std::string::npos);
  fs::remove_all(elsewhere.path);
}

TEST_F(RunDirectory, SomebodyElsesIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  fs::create_directories(settings_.directory);
  ASSERT_EQ(chown(settings_.directory.c_str(), 1, 1), 0);
  const Made instead = Ok();
  EXPECT_NE(instead.remark.find("somebody else"), std::string::npos);
  fs::remove_all(instead.path);
}

TEST_F(RunDirectory, TooLittleRoomGoesToTheNextPlaceForAllRanks) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a small file system";
  fs::create_directories(top_ + "/small");
  if (mount("none", (top_ + "/small").c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) GTEST_SKIP() << "no mount here";
  mounted_ = true;
  settings_.directory = top_ + "/small/run";
  EXPECT_EQ(Ok(200 << 10).path, settings_.directory);
  fs::remove_all(settings_.directory);
  const Made instead = Ok(300 << 10);  // room for both, but more than half of it
  EXPECT_FALSE(instead.path.starts_with(top_ + "/small"));
  EXPECT_NE(instead.remark.find("MiB free"), std::string::npos);
  EXPECT_FALSE(fs::exists(settings_.directory));
  launch_.rank = 1;
  EXPECT_EQ(Ok(300 << 10).path, instead.path);
  fs::remove_all(instead.path);
}

TEST_F(RunDirectory, ASmallerBoxComesBeforeAnotherPlace) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a small file system";
  fs::create_directories(top_ + "/small");
  if (mount("none", (top_ + "/small").c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) GTEST_SKIP() << "no mount here";
  mounted_ = true;
  settings_.directory = top_ + "/small/run";
  const std::vector<std::uint64_t> sizes = {800 << 10, 400 << 10, 200 << 10, 100 << 10};
  for (const std::int32_t rank : {0, 1}) {  // both come to the same, whatever the first has taken by then
    launch_.rank = rank;
    const auto result = Make(settings_, launch_, sizes);
    ASSERT_TRUE(std::holds_alternative<Made>(result));
    const Made& made = std::get<Made>(result);
    EXPECT_EQ(made.path, settings_.directory);
    EXPECT_EQ(made.size, 2u);
    EXPECT_EQ(made.remark.find("at most half") != std::string::npos, rank == 0) << made.remark;
    const std::string box = made.path + "/h." + std::to_string(rank) + ".box";
    std::ofstream(box) << std::string(200 << 10, 'x');
  }
}

TEST_F(RunDirectory, NowhereToGoIsRefusedWithEveryReason) {
  const std::variant<Made, Refused> result = Make(settings_, launch_, {std::uint64_t{1} << 60});
  ASSERT_TRUE(std::holds_alternative<Refused>(result));
  EXPECT_NE(std::get<Refused>(result).reason.find("/dev/shm"), std::string::npos);
  EXPECT_NE(std::get<Refused>(result).reason.find(settings_.directory), std::string::npos);
}

TEST_F(RunDirectory, TheDefaultPlaceIsNamedAfterTheJob) {
  settings_.directory.clear();
  launch_.job = "rundir-test-" + std::to_string(getpid());
  const Made made = Ok();
  EXPECT_EQ(made.path, DefaultBases().front() + "/" + launch_.job);
  fs::remove_all(made.path);
}

TEST_F(RunDirectory, RacingRanksAgree) {
  int results[2];
  ASSERT_EQ(pipe(results), 0);
  constexpr int kRanks = 16;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (fork() != 0) continue;
    launch_.rank = rank;
    launch_.job = rank % 2 ? "odd" : "even";
    char path[256] = {};
    std::snprintf(path, sizeof(path), "%d%s", rank % 2, Ok().path.c_str());
    _exit(write(results[1], path, sizeof(path)) == sizeof(path) ? 0 : 1);
  }
  std::string of[2];
  for (int rank = 0; rank < kRanks; ++rank) {
    char path[256] = {};
    ASSERT_EQ(read(results[0], path, sizeof(path)), 256);
    std::string& expected = of[path[0] - '0'];
    if (expected.empty()) expected = path + 1;
    EXPECT_EQ(expected, path + 1);
  }
  EXPECT_NE(of[0], of[1]);
  while (wait(nullptr) > 0) {
  }
  close(results[0]);
  close(results[1]);
}

}  // namespace
}  // namespace ncclwatch::rundir
