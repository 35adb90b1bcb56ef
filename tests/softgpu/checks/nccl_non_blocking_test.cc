// Non-blocking communicators: in progress until they are asked about.
#include <barrier>
#include <chrono>
#include <thread>

#include "nccl_harness.h"

namespace softgpu::checks {
namespace {

// Waits until a non-blocking communicator is ready; returns the state that ended the wait.
ncclResult_t Settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    EXPECT_EQ(ncclSuccess, ncclCommGetAsyncError(comm, &state));
    std::this_thread::yield();
  }
  return state;
}

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

}  // namespace
}  // namespace softgpu::checks
