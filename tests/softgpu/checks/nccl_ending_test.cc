// How communicators end: finalized, aborted, revoked, with the process, in a forked child, a thousand times.
#include <dirent.h>
#include <unistd.h>

#include <barrier>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

TEST(Communicator, AbortFromAnotherThread) {
  std::barrier everybody(2);
  RunThreads(2, [&](const World& world) {
    Rank rank(world);
    int value = 1;
    if (world.rank == 0) {
      EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
      std::thread([&] {
        UseDevice();
        EXPECT_FALSE(rank.DoneWithin(std::chrono::milliseconds(50)));
        rank.Abort();
      }).join();
      // What comes after it on the stream goes on.
      EXPECT_TRUE(rank.DoneWithin(kSoon));
    }
    everybody.arrive_and_wait();
  });
}

#if NCCL_VERSION_CODE >= 22807
TEST(Communicator, Revoke) {
  std::barrier everybody(2);
  RunThreads(2, [&](const World& world) {
    Rank rank(world);
    int value = 1;
    if (world.rank == 0) {
      EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    }
    EXPECT_EQ(ncclInvalidArgument, ncclCommRevoke(rank.comm, 1));
    EXPECT_EQ(ncclSuccess, ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT));
    EXPECT_TRUE(rank.DoneWithin(kSoon));
    EXPECT_EQ(ncclInvalidUsage, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    EXPECT_EQ(ncclInvalidArgument, ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT));
    EXPECT_EQ(ncclInvalidArgument, ncclCommFinalize(rank.comm));
    everybody.arrive_and_wait();
    ncclComm_t child = nullptr;
    ASSERT_EQ(ncclSuccess, ncclCommSplit(rank.comm, 0, 0, &child, nullptr));
    EXPECT_EQ(0b11, Members(child, rank.stream, world.rank));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(child));
    rank.Destroy();
  });
}
#endif

TEST(Communicator, FinalizeTwice) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    EXPECT_EQ(ncclSuccess, ncclCommFinalize(rank.comm));
    EXPECT_EQ(ncclInvalidArgument, ncclCommFinalize(rank.comm));
    rank.Destroy();
  });
}

int FilesIn(const std::string& directory) {
  int count = 0;
  DIR* dir = opendir(directory.c_str());
  if (!dir) return -1;
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

SOFTGPU_BODY(WaitsForNobody) { Rank rank(world); }

// One rank of three waits; killed, it leaves a file; the next job on the machine takes it away.
TEST(Communicator, KilledRanksLeaveNothingForEver) {
  char directory[] = "/tmp/softgpu-nccl-check-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(directory));
  const std::string setting = std::string("SOFTGPU_NCCL_DIR=") + directory;
  World world;
  world.nranks = 3;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  const pid_t first = StartProcess(world, "WaitsForNobody", {setting});
  for (int i = 0; i < 30000 && FilesIn(directory) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(1, FilesIn(directory));
  EndProcess(first);
  EXPECT_EQ(1, FilesIn(directory));
  RunProcesses(2, "SplitByParity", {setting});
  EXPECT_EQ(0, FilesIn(directory));
  rmdir(directory);
}

TEST(Communicator, AThousandOneAfterTheOther) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    std::set<ncclComm_t> handles;
    for (int i = 0; i < 1000; ++i) {
      ncclComm_t child = nullptr;
      ASSERT_EQ(ncclSuccess, ncclCommSplit(rank.comm, 0, world.rank, &child, nullptr));
      handles.insert(child);
      ASSERT_EQ(ncclSuccess, ncclCommDestroy(child));
    }
    // Handles are recycled, as those of malloc are.
    EXPECT_LT(handles.size(), 100u);
    rank.Destroy();
  });
}

TEST(Communicator, ForkedChildDisturbsNobody) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    EXPECT_EQ(0b11, Members(rank.comm, rank.stream, world.rank));
    if (world.rank == 0) {
      const pid_t child = fork();
      if (child == 0) {
        int count = 0;
        const bool refused =
            ncclCommCount(rank.comm, &count) == ncclInvalidUsage && ncclCommDestroy(rank.comm) == ncclInvalidUsage;
        _exit(refused ? 0 : 1);
      }
      EXPECT_EQ(0, WaitProcess(child));
    }
    EXPECT_EQ(0b11, Members(rank.comm, rank.stream, world.rank));
    rank.Destroy();
  });
}

}  // namespace
}  // namespace softgpu::checks
