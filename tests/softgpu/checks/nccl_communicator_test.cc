// How communicators are made: split, shrunk, grown, from several ids, from one id for all, and what belongs to them.
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <set>
#include <string>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

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
