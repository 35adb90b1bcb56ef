// Errors as NCCL gives them, and the ones that a test can inject.
#include <dlfcn.h>

#include <thread>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

int target = 0;

TEST(Error, NullCommunicator) {
  EXPECT_EQ(ncclInvalidArgument, ncclAllReduce(&target, &target, 1, ncclInt32, ncclSum, nullptr, nullptr));
  EXPECT_STREQ("AllReduce : comm argument is NULL", ncclGetLastError(nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclReduce(&target, &target, 1, ncclInt32, ncclSum, 0, nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclBroadcast(&target, &target, 1, ncclInt32, 0, nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclBcast(&target, 1, ncclInt32, 0, nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclAllGather(&target, &target, 1, ncclInt32, nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclReduceScatter(&target, &target, 1, ncclInt32, ncclSum, nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclSend(&target, 1, ncclInt32, 0, nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclRecv(&target, 1, ncclInt32, 0, nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclCommCount(nullptr, &target));
  EXPECT_EQ(ncclInvalidArgument, ncclCommUserRank(nullptr, &target));
  EXPECT_EQ(ncclInvalidArgument, ncclCommCuDevice(nullptr, &target));
  ncclResult_t state;
  EXPECT_EQ(ncclInvalidArgument, ncclCommGetAsyncError(nullptr, &state));
  ncclComm_t child = nullptr;
  EXPECT_EQ(ncclInvalidArgument, ncclCommSplit(nullptr, 0, 0, &child, nullptr));
  // Ending no communicator is fine.
  EXPECT_EQ(ncclSuccess, ncclCommDestroy(nullptr));
  EXPECT_EQ(ncclSuccess, ncclCommAbort(nullptr));
  EXPECT_EQ(ncclSuccess, ncclCommFinalize(nullptr));
}

TEST(Error, Arguments) {
  RunThreads(2, [](const World& world) {
    Rank rank(world);
    const auto broadcast = [&](int root, int type) {
      return ncclBroadcast(&target, &target, 1, static_cast<ncclDataType_t>(type), root, rank.comm, rank.stream);
    };
    EXPECT_EQ(ncclInvalidArgument, broadcast(-1, ncclInt32));
    EXPECT_EQ(ncclInvalidArgument, broadcast(2, ncclInt32));
    EXPECT_EQ(ncclInvalidArgument, broadcast(0, -1));
    EXPECT_EQ(ncclInvalidArgument, broadcast(0, 12));
    EXPECT_EQ(ncclInvalidArgument, ncclSend(&target, 1, ncclInt32, 2, rank.comm, rank.stream));
    EXPECT_EQ(ncclInvalidArgument,
              ncclAllReduce(&target, &target, 1, ncclInt32, static_cast<ncclRedOp_t>(1000), rank.comm, rank.stream));
    EXPECT_EQ(ncclInvalidArgument, ncclCommCount(rank.comm, nullptr));
    EXPECT_EQ(ncclInvalidArgument, ncclCommGetAsyncError(rank.comm, nullptr));
    // Nothing of all that was launched.
    EXPECT_TRUE(rank.DoneWithin(std::chrono::milliseconds(0)));
    rank.Destroy();
  });
}

TEST(Error, InitArguments) {
  ncclUniqueId id;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclInvalidArgument, ncclGetUniqueId(nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(nullptr, 1, id, 0));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, 2));
  EXPECT_STREQ("Invalid rank requested : 2/2", ncclGetLastError(nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, -1));
  EXPECT_EQ(nullptr, comm);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
}

TEST(Error, Reductions) {
  RunThreads(1, [](const World& world) {
    Rank rank(world);
    EXPECT_EQ(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, rank.comm));
    EXPECT_EQ(ncclInvalidArgument, ncclRedOpDestroy(static_cast<ncclRedOp_t>(77), rank.comm));
    float scalar = 2;
    float value = 3;
    ncclRedOp_t op;
    ASSERT_EQ(ncclSuccess, ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, rank.comm));
    EXPECT_EQ(ncclInvalidArgument, ncclAllReduce(&value, &value, 1, ncclInt32, op, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclFloat32, op, rank.comm, rank.stream));
    EXPECT_EQ(ncclSuccess, ncclRedOpDestroy(op, rank.comm));
    EXPECT_EQ(ncclInvalidArgument, ncclRedOpDestroy(op, rank.comm));
    rank.Sync();
    EXPECT_EQ(6.0f, value);
    rank.Destroy();
  });
}

TEST(Error, UseAfterDestroy) {
  RunThreads(1, [](const World& world) {
    Rank rank(world);
    const ncclComm_t gone = rank.comm;
    rank.Destroy();
    EXPECT_EQ(ncclInvalidArgument, ncclAllReduce(&target, &target, 1, ncclInt32, ncclSum, gone, rank.stream));
    EXPECT_EQ(ncclInvalidArgument, ncclCommDestroy(gone));
  });
}

SOFTGPU_BODY(GetsAnAsynchronousError) {
  Rank rank(world);
  int value = 1;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
  }
  if (world.rank == 1) {
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) {
      EXPECT_EQ(ncclSuccess, ncclCommGetAsyncError(rank.comm, &error));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(ncclRemoteError, error);
    EXPECT_EQ(ncclRemoteError, ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
  }
  EXPECT_FALSE(rank.DoneWithin(kNever));
  EXPECT_EQ(4, value);  // two of the three were done
  rank.Abort();
  EXPECT_TRUE(rank.DoneWithin(kSoon));
}

TEST(Error, InjectedAsynchronousError) {
  RunProcesses(2, "GetsAnAsynchronousError", {"SOFTGPU_NCCL_ASYNC_ERROR=1:2:6"});
}

SOFTGPU_BODY(GetsAnErrorAtTheCall) {
  Rank rank(world);
  int value = 1;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world.rank == 0 && i == 1 ? ncclSystemError : ncclSuccess,
              ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, rank.comm, rank.stream));
  }
  EXPECT_EQ(world.rank == 0, rank.DoneWithin(world.rank == 0 ? kSoon : kNever));
  rank.Abort();
}

TEST(Error, InjectedResult) {
  World world;
  world.nranks = 2;
  ASSERT_EQ(ncclSuccess, ncclGetUniqueId(&world.id));
  std::vector<pid_t> ranks;
  for (world.rank = 0; world.rank < 2; ++world.rank) {
    ranks.push_back(StartProcess(world, "GetsAnErrorAtTheCall", {"SOFTGPU_NCCL_RESULT=0:1:2"}));
  }
  for (const pid_t pid : ranks) EXPECT_EQ(0, WaitProcess(pid));
}

// SOFTGPU_NCCL_MISMATCH=wrong: equal bytes of different types or reductions go through, as with the real NCCL.
SOFTGPU_BODY(ReducesByDifferentOperators) {
  Rank rank(world);
  int value = 5 + world.rank;
  const ncclRedOp_t op = world.rank == 0 ? ncclSum : ncclMax;
  EXPECT_EQ(ncclSuccess, ncclAllReduce(&value, &value, 1, ncclInt32, op, rank.comm, rank.stream));
  EXPECT_TRUE(rank.DoneWithin(kSoon));
  EXPECT_EQ(world.rank == 0 ? 11 : 6, value);
  rank.Destroy();
}

TEST(Error, SilentMismatch) { RunProcesses(2, "ReducesByDifferentOperators", {"SOFTGPU_NCCL_MISMATCH=wrong"}); }

SOFTGPU_BODY(ReportsVersion22703) {
  int version = 0;
  EXPECT_EQ(ncclSuccess, ncclGetVersion(&version));
  EXPECT_EQ(22703, version);
}

TEST(Error, Version) {
  int version = 0;
  EXPECT_EQ(ncclSuccess, ncclGetVersion(&version));
  EXPECT_EQ(22809, version);
  EXPECT_EQ(ncclInvalidArgument, ncclGetVersion(nullptr));
  RunProcesses(1, "ReportsVersion22703", {"SOFTGPU_NCCL_VERSION=2.27.3"});
}

// Every public name is there twice, at one address, as in the real library.
TEST(Error, ExportedNames) {
  for (const char* name : {"ncclAllGather",
                           "ncclAllReduce",
                           "ncclAlltoAll",
                           "ncclBcast",
                           "ncclBroadcast",
                           "ncclCommAbort",
                           "ncclCommCount",
                           "ncclCommCuDevice",
                           "ncclCommDeregister",
                           "ncclCommDestroy",
                           "ncclCommFinalize",
                           "ncclCommGetAsyncError",
                           "ncclCommInitAll",
                           "ncclCommInitRank",
                           "ncclCommInitRankConfig",
                           "ncclCommInitRankScalable",
                           "ncclCommRegister",
                           "ncclCommRevoke",
                           "ncclCommShrink",
                           "ncclCommSplit",
                           "ncclCommUserRank",
                           "ncclCommWindowDeregister",
                           "ncclCommWindowRegister",
                           "ncclDevCommCreate",
                           "ncclDevCommDestroy",
                           "ncclGather",
                           "ncclGetErrorString",
                           "ncclGetLastError",
                           "ncclGetUniqueId",
                           "ncclGetVersion",
                           "ncclGinBarrierCreateRequirement",
                           "ncclGroupEnd",
                           "ncclGroupSimulateEnd",
                           "ncclGroupStart",
                           "ncclLLA2ACalcSlots",
                           "ncclLLA2ACreateRequirement",
                           "ncclLsaBarrierCreateRequirement",
                           "ncclMemAlloc",
                           "ncclMemFree",
                           "ncclRecv",
                           "ncclRedOpCreatePreMulSum",
                           "ncclRedOpDestroy",
                           "ncclReduce",
                           "ncclReduceScatter",
                           "ncclResetDebugInit",
                           "ncclScatter",
                           "ncclSend",
                           "ncclTeamLsa",
                           "ncclTeamRail",
                           "ncclTeamRankToLsa",
                           "ncclTeamRankToWorld",
                           "ncclTeamWorld"}) {
    void* weak = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(nullptr, weak) << name;
    EXPECT_EQ(weak, dlsym(RTLD_DEFAULT, ("p" + std::string(name)).c_str())) << name;
  }
}

}  // namespace
}  // namespace softgpu::checks
