#include <pthread.h>
#include <signal.h>

#include <thread>
#include <vector>

#include "tests/softgpu/checks/cuda_support.h"
#include "tests/softgpu/cuda/newer.h"

namespace softgpu {
namespace {

using Streams = CudaCheck;

TEST_F(Streams, RunInOrder) {
  CUstream stream = NewStream();
  std::string expected;
  for (int i = 0; i < 500; ++i) {
    char letter = static_cast<char>('a' + i % 26);
    expected += letter;
    ASSERT_CU(Say(stream, letter));
  }
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Said(), expected);
}

TEST_F(Streams, AreAsynchronous) {
  CUstream stream = NewStream();
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(Say(stream, 'a'));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(Said(), "");
  ASSERT_CU(softgpuRelease(stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(Said(), "a");
  EXPECT_CU(cuStreamQuery(stream));
}

TEST_F(Streams, AStuckOneHoldsUpNoOther) {
  CUstream stuck = NewStream();
  CUstream other = NewStream();
  ASSERT_CU(softgpuStall(stuck, -1));
  ASSERT_CU(Say(other, 'a'));
  ASSERT_CU(cuStreamSynchronize(other));
  EXPECT_EQ(Said(), "a");
  EXPECT_EQ(cuStreamQuery(stuck), CUDA_ERROR_NOT_READY);
  ASSERT_CU(softgpuRelease(stuck));
}

TEST_F(Streams, AStallCanEndByItself) {
  CUstream stream = NewStream();
  ASSERT_CU(softgpuStall(stream, 1));
  EXPECT_CU(cuStreamSynchronize(stream));
}

TEST_F(Streams, FinishTheirWorkWhenDestroyed) {
  CUstream stream = NewStream();
  ASSERT_CU(softgpuStall(stream, 20));
  ASSERT_CU(Say(stream, 'a'));
  ASSERT_CU(cuStreamDestroy(stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_CU(cuCtxSynchronize());
  EXPECT_EQ(Said(), "a");
}

TEST_F(Streams, TellWhatTheyAre) {
  CUstream stream = nullptr;
  ASSERT_CU(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99));
  int priority = 0;
  unsigned flags = 0;
  CUcontext context = nullptr;
  CUdevice device = -1;
  EXPECT_CU(cuStreamGetPriority(stream, &priority));
  EXPECT_CU(cuStreamGetFlags(stream, &flags));
  EXPECT_CU(cuStreamGetCtx(stream, &context));
  EXPECT_CU(cuStreamGetDevice(stream, &device));
  EXPECT_EQ(priority, -5);
  EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(context, context_);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuStreamCreate(&stream, 64), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Streams, TheirThreadsTakeNoSignals) {
  CUstream stream = NewStream();
  sigset_t blocked;
  sigemptyset(&blocked);
  auto look = [](void* argument) { pthread_sigmask(SIG_SETMASK, nullptr, static_cast<sigset_t*>(argument)); };
  ASSERT_CU(cuLaunchHostFunc(stream, look, &blocked));
  ASSERT_CU(cuStreamSynchronize(stream));
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
}

TEST_F(Streams, HostFunctionsMayNotCallTheDriver) {
  CUstream stream = NewStream();
  CUresult result = CUDA_SUCCESS;
  auto call = [](void* argument) {
    CUdeviceptr memory = 0;
    *static_cast<CUresult*>(argument) = cuMemAlloc(&memory, 16);
  };
  ASSERT_CU(cuLaunchHostFunc(stream, call, &result));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(result, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(Streams, CallbacksGetTheStreamAndItsStatus) {
  struct Got {
    CUstream stream = nullptr;
    CUresult status = CUDA_ERROR_UNKNOWN;
  } got;
  CUstream stream = NewStream();
  auto callback = [](CUstream s, CUresult status, void* argument) { *static_cast<Got*>(argument) = {s, status}; };
  ASSERT_CU(cuStreamAddCallback(stream, callback, &got, 0));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(got.stream, stream);
  EXPECT_CU(got.status);
}

TEST_F(Streams, KernelsOwnTheirArgument) {
  struct Argument {
    std::atomic<int> runs{0};
    std::atomic<int> destroyed{0};
  } argument;
  CUstream stream = NewStream();
  auto run = [](void* a) { ++static_cast<Argument*>(a)->runs; };
  auto destroy = [](void* a) { ++static_cast<Argument*>(a)->destroyed; };
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(softgpuEnqueue(stream, run, &argument, destroy));
  EXPECT_EQ(argument.destroyed, 0);
  ASSERT_CU(softgpuRelease(stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(argument.runs, 1);
  EXPECT_EQ(argument.destroyed, 1);
  EXPECT_EQ(softgpuEnqueue(reinterpret_cast<CUstream>(&argument), run, &argument, destroy), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(argument.destroyed, 2);
}

TEST_F(Streams, KernelsMayCallTheDriver) {
  CUstream stream = NewStream();
  struct Argument {
    CUcontext context;
    CUresult result;
  } argument{context_, CUDA_ERROR_UNKNOWN};
  auto run = [](void* a) {
    auto* mine = static_cast<Argument*>(a);
    CUdeviceptr memory = 0;
    cuCtxSetCurrent(mine->context);
    mine->result = cuMemAlloc(&memory, 16);
  };
  ASSERT_CU(softgpuEnqueue(stream, run, &argument, nullptr));
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_CU(argument.result);
}

TEST_F(Streams, TakeWorkFromManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  CUstream stream = NewStream();
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      CUstream own = nullptr;
      EXPECT_EQ(cuStreamCreate(&own, CU_STREAM_DEFAULT), CUDA_ERROR_INVALID_CONTEXT);  // none is current here yet
      EXPECT_CU(cuCtxSetCurrent(context_));
      own = NewStream(CU_STREAM_DEFAULT);
      auto count = [](void* a) { ++*static_cast<std::atomic<int>*>(a); };
      for (int i = 0; i < kEach; ++i) {
        EXPECT_CU(cuLaunchHostFunc(stream, count, &runs));
        EXPECT_CU(cuLaunchHostFunc(own, count, &runs));
      }
      EXPECT_CU(cuStreamSynchronize(own));
      EXPECT_CU(cuStreamDestroy(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_CU(cuStreamSynchronize(stream));
  EXPECT_EQ(runs, 2 * kThreads * kEach);
}

}  // namespace
}  // namespace softgpu
