// Life of communicators: making, splitting, shrinking, non-blocking ones, finalizing, aborting, revoking, forking.
#include <dirent.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <set>
#include <thread>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

// Sum of 1 << rank over the members: tells exactly who took part.
int Members(ncclComm_t comm, CUstream stream, int own_rank) {
  int mask = 1 << own_rank;
  EXPECT_EQ(ncclSuccess, ncclAllReduce(&mask, &mask, 1, ncclInt32, ncclSum, comm, stream));
  EXPECT_EQ(CUDA_SUCCESS, cuStreamSynchronize(stream));
  return mask;
}

// Waits until a non-blocking communicator is ready; returns the state that ended the wait.
ncclResult_t Settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT_EQ(ncclSuccess, ncclCommGetAsyncError(comm, &state));
    std::this_thread::yield();
  }
  return state;
}

SOFTGPU_BODY(SplitByParity) {
  Rank rank(world);
  ncclComm_t child = nullptr;
  // Keys turn the order around.
  ASSERT_EQ(ncclSuccess, ncclCommSplit(rank.comm, world.rank % 2, -world.rank, &child, nullptr));
  int count = 0;
  int own = 0;
  int device = -1;
  EXPECT_EQ(ncclSuccess, ncclCommCount(child, &count));
  EXPECT_EQ(ncclSuccess, ncclCommUserRank(child, &own));
  EXPECT_EQ(ncclSuccess, ncclCommCuDevice(child, &device));
  const int members = (world.nranks + 1 - world.rank % 2) / 2;
  EXPECT_EQ(members, count);
  EXPECT_EQ(members - 1 - world.rank / 2, own);
  EXPECT_EQ(0, device);
  int mask = 0;
  for (int r = world.rank % 2; r < world.nranks; r += 2) mask |= 1 << r;
  EXPECT_EQ(mask, Members(child, rank.stream, world.rank));
  // The parent goes on working beside its children.
  EXPECT_EQ((1 << world.nranks) - 1, Members(rank.comm, rank.stream, world.rank));
  EXPECT_EQ(ncclSuccess, ncclCommDestroy(child));
  rank.Destroy();
}

TEST(Communicator, SplitThreads) { RunThreads(5, SplitByParity); }
TEST(Communicator, SplitProcesses) { RunProcesses(4, "SplitByParity"); }

TEST(Communicator, SplitWithoutColorGivesNothing) {
  RunThreads(3, [](const World& world) {
    Rank rank(world);
    ncclComm_t child = rank.comm;
    ASSERT_EQ(ncclSuccess, ncclCommSplit(rank.comm, world.rank == 1 ? NCCL_SPLIT_NOCOLOR : 9, 0, &child, nullptr));
    EXPECT_EQ(world.rank == 1, child == nullptr);
    if (child) {
      EXPECT_EQ(0b101, Members(child, rank.stream, world.rank));
      EXPECT_EQ(ncclSuccess, ncclCommDestroy(child));
    }
    rank.Destroy();
  });
}

#if NCCL_VERSION_CODE >= 22703
SOFTGPU_BODY(ShrinkByOne) {
  Rank rank(world);
  if (world.rank != 1) {
    int excluded[] = {1};
    ncclComm_t child = nullptr;
    ASSERT_EQ(ncclSuccess, ncclCommShrink(rank.comm, excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_EQ(((1 << world.nranks) - 1) & ~2, Members(child, rank.stream, world.rank));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(child));
  }
  rank.Destroy();
}

TEST(Communicator, ShrinkThreads) { RunThreads(4, ShrinkByOne); }
TEST(Communicator, ShrinkProcesses) { RunProcesses(3, "ShrinkByOne"); }

// Rank 1 never comes to the AllReduce; the others give it up, and go on without it.
TEST(Communicator, ShrinkAbortFreesStuckKernels) {
  RunThreads(3, [](const World& world) {
    Rank rank(world);
    if (world.rank == 1) return;
    int value = 1;
    int excluded[] = {1};
    ncclComm_t child = nullptr;
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    EXPECT_FALSE(rank.DoneWithin(std::chrono::milliseconds(50)));
    ASSERT_EQ(ncclSuccess, ncclCommShrink(rank.comm, excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT));
    EXPECT_TRUE(rank.DoneWithin(kSoon));
    EXPECT_EQ(0b101, Members(child, rank.stream, world.rank));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(child));
  });
}
#endif

TEST(Communicator, InitAll) {
  int devices = 0;
  ASSERT_EQ(CUDA_SUCCESS, cuDeviceGetCount(&devices));
  ASSERT_GE(devices, 1);
  std::vector<ncclComm_t> comms(devices);
  ASSERT_EQ(ncclSuccess, ncclCommInitAll(comms.data(), devices, nullptr));
  for (int i = 0; i < devices; ++i) {
    int rank = -1;
    int device = -1;
    EXPECT_EQ(ncclSuccess, ncclCommUserRank(comms[i], &rank));
    EXPECT_EQ(ncclSuccess, ncclCommCuDevice(comms[i], &device));
    EXPECT_EQ(i, rank);
    EXPECT_EQ(i, device);
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(comms[i]));
  }
  const int twice[] = {0, 0};
  EXPECT_EQ(ncclInvalidUsage, ncclCommInitAll(comms.data(), 2, twice));
  const int unknown[] = {devices};
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitAll(comms.data(), 1, unknown));
}

#if NCCL_VERSION_CODE >= 22304
TEST(Communicator, InitScalable) {
  ncclUniqueId second;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&second));
  RunThreads(3, [&](const World& world) {
    ncclUniqueId ids[] = {world.id, second};
    ncclComm_t comm = nullptr;
    const CUstream stream = NewStream();
    ASSERT_EQ(ncclSuccess, ncclCommInitRankScalable(&comm, world.nranks, world.rank, 2, ids, nullptr));
    EXPECT_EQ(0b111, Members(comm, stream, world.rank));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(comm));
    cuStreamDestroy(stream);
  });
}
#endif

TEST(Communicator, NonBlocking) {
  std::barrier everybody(3);
  RunThreads(3, [&](const World& world) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const CUstream stream = NewStream();
    ncclComm_t comm = nullptr;
    if (world.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const ncclResult_t started = ncclCommInitRankConfig(&comm, world.nranks, world.id, world.rank, &config);
    EXPECT_TRUE(started == ncclInProgress || (world.rank == 2 && started == ncclSuccess)) << started;
    EXPECT_EQ(ncclSuccess, Settle(comm));
    int value = 1;
    const ncclResult_t called = ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, stream);
    EXPECT_TRUE(called == ncclSuccess || called == ncclInProgress) << called;
    EXPECT_EQ(ncclSuccess, Settle(comm));
    EXPECT_EQ(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EXPECT_EQ(3, value);

    ncclComm_t child = nullptr;
    EXPECT_EQ(ncclSuccess, ncclCommSplit(comm, 0, 0, &child, nullptr));
    EXPECT_EQ(ncclSuccess, Settle(comm));
    ASSERT_NE(nullptr, child);
    everybody.arrive_and_wait();
    const ncclResult_t finalized = ncclCommFinalize(comm);
    EXPECT_TRUE(finalized == ncclSuccess || finalized == ncclInProgress) << finalized;
    EXPECT_EQ(ncclSuccess, Settle(comm));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(child));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(comm));
    cuStreamDestroy(stream);
  });
}

TEST(Communicator, NonBlockingInUseBeforeItIsReady) {
  ncclUniqueId id;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
  int count = 0;
  EXPECT_EQ(ncclInvalidArgument, ncclCommCount(comm, &count));
  EXPECT_STREQ("Attempt to use communicator before the previous operation returned ncclSuccess",
               ncclGetLastError(comm));
  // Rank 1 never comes.
  EXPECT_EQ(ncclSuccess, ncclCommAbort(comm));
}

TEST(Communicator, BlockingAndNonBlockingDoNotMix) {
  RunThreads(1, [](const World& world) {
    Rank rank(world);
    ncclUniqueId id;
    ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    EXPECT_EQ(ncclSuccess, Settle(comm));
    int from[2] = {1, 2};
    int to[2] = {0, 0};
    EXPECT_EQ(ncclSuccess, ncclGroupStart());
    EXPECT_EQ(ncclSuccess, ncclSend(&from[0], 1, ncclInt32, 0, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclRecv(&to[0], 1, ncclInt32, 0, rank.comm, rank.stream));
    EXPECT_EQ(ncclInvalidArgument, ncclSend(&from[1], 1, ncclInt32, 0, comm, rank.stream));
    EXPECT_EQ(ncclInvalidArgument, ncclGroupEnd());
    EXPECT_EQ(ncclSuccess, ncclCommAbort(comm));
    rank.Destroy();
  });
}

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

using GrowFunction = ncclResult_t (*)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
using GetIdFunction = ncclResult_t (*)(ncclComm_t, ncclUniqueId*);

// 2.29; looked up, since older headers lack it.
TEST(Communicator, Grow) {
  const auto grow = reinterpret_cast<GrowFunction>(dlsym(RTLD_DEFAULT, "ncclCommGrow"));
  const auto get_id = reinterpret_cast<GetIdFunction>(dlsym(RTLD_DEFAULT, "ncclCommGetUniqueId"));
  ASSERT_TRUE(grow && get_id);
  ncclUniqueId first;
  ncclUniqueId joined;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&first));
  std::barrier id_known(3);
  RunThreads(3, [&](const World& world) {
    const CUstream stream = NewStream();
    ncclComm_t old = nullptr;
    ncclComm_t grown = nullptr;
    if (world.rank < 2) {
      ASSERT_EQ(ncclSuccess, ncclCommInitRank(&old, 2, first, world.rank));
    }
    if (world.rank == 0) {
      ASSERT_EQ(ncclSuccess, get_id(old, &joined));
    }
    id_known.arrive_and_wait();
    ASSERT_EQ(ncclSuccess, grow(old, 3, world.rank == 1 ? nullptr : &joined, old ? -1 : 2, &grown, nullptr));
    EXPECT_EQ(0b111, Members(grown, stream, world.rank));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(grown));
    EXPECT_EQ(ncclSuccess, ncclCommDestroy(old));
    cuStreamDestroy(stream);
  });
}

// NCCL_COMM_ID makes all ids equal; communicators one after the other still come up.
SOFTGPU_BODY(TwoOfOneId) {
  ncclUniqueId id;
  ncclUniqueId again;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&id));
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&again));
  EXPECT_EQ(0, std::memcmp(&id, &again, sizeof id));
  for (int i = 0; i < 3; ++i) {
    Rank rank(World{world.rank, world.nranks, id});
    EXPECT_EQ((1 << world.nranks) - 1, Members(rank.comm, rank.stream, world.rank));
    rank.Destroy();
  }
}

TEST(Communicator, CommIdFromTheEnvironment) {
  RunProcesses(3, "TwoOfOneId", {"NCCL_COMM_ID=127.0.0.1:" + std::to_string(20000 + getpid() % 10000)});
}

TEST(Communicator, UniqueIdsLookLikeThoseOfNccl) {
  std::set<std::string> magics;
  for (int i = 0; i < 50; ++i) {
    ncclUniqueId id;
    std::memset(&id, 0xaa, sizeof id);
    ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&id));
    magics.insert(std::string(id.internal, 8));
    EXPECT_EQ(AF_INET, id.internal[8] | id.internal[9] << 8);
    for (size_t byte = 40; byte < sizeof id.internal; ++byte) EXPECT_EQ(0, id.internal[byte]);
  }
  EXPECT_EQ(50u, magics.size());
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

#if NCCL_VERSION_CODE >= 22703
TEST(Communicator, MemoryAndRegistration) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    void* memory = nullptr;
    void* handle = nullptr;
    ncclWindow_t window = nullptr;
    ASSERT_EQ(ncclSuccess, ncclMemAlloc(&memory, 4096));
    std::memset(memory, world.rank, 4096);
    EXPECT_EQ(ncclSuccess, ncclCommRegister(rank.comm, memory, 4096, &handle));
    EXPECT_EQ(ncclSuccess, ncclCommWindowRegister(rank.comm, memory, 4096, &window, NCCL_WIN_DEFAULT));
    EXPECT_NE(nullptr, window);
    EXPECT_EQ(ncclSuccess, ncclCommWindowDeregister(rank.comm, window));
    EXPECT_EQ(ncclSuccess, ncclCommDeregister(rank.comm, handle));
    EXPECT_EQ(ncclSuccess, ncclMemFree(memory));
    EXPECT_EQ(ncclUnhandledCudaError, ncclMemAlloc(&memory, 0));
    rank.Destroy();
  });
}
#endif

}  // namespace
}  // namespace softgpu::checks
