// The implicit order between the legacy default stream and the blocking streams of a context.
#include <thread>

#include "tests/softgpu/checks/cuda_support.h"

namespace softgpu {
namespace {

using LegacyStream = CudaCheck;

constexpr int kRounds = 20;

TEST_F(LegacyStream, WaitsForBlockingStreamsAndTheyForIt) {
  std::string expected;
  for (int round = 0; round < kRounds; ++round) {
    CUstream first = NewStream(CU_STREAM_DEFAULT);
    CUstream second = NewStream(CU_STREAM_DEFAULT);
    CUstream apart = NewStream(CU_STREAM_NON_BLOCKING);
    ASSERT_CU(softgpuStall(first, -1));
    ASSERT_CU(Say(first, 'a'));
    ASSERT_CU(Say(nullptr, 'L'));
    ASSERT_CU(Say(second, 'b'));
    ASSERT_CU(Say(apart, 'n'));
    ASSERT_CU(cuStreamSynchronize(apart));
    expected += 'n';
    EXPECT_EQ(Said(), expected);
    EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    ASSERT_CU(softgpuRelease(first));
    ASSERT_CU(cuStreamSynchronize(second));
    expected += "aLb";
    EXPECT_EQ(Said(), expected);
  }
}

TEST_F(LegacyStream, IsTheSameUnderBothNames) {
  ASSERT_CU(softgpuStall(CU_STREAM_LEGACY, -1));
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  ASSERT_CU(softgpuRelease(nullptr));
  EXPECT_CU(cuStreamSynchronize(CU_STREAM_LEGACY));
}

TEST_F(LegacyStream, SynchronisingItWaitsForBlockingStreams) {
  CUstream stream = NewStream(CU_STREAM_DEFAULT);
  ASSERT_CU(softgpuStall(stream, 20));
  ASSERT_CU(Say(stream, 'a'));
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  ASSERT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(Said(), "a");
}

TEST_F(LegacyStream, IsNotHeldUpByNonBlockingStreams) {
  CUstream stream = NewStream(CU_STREAM_NON_BLOCKING);
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(Say(nullptr, 'L'));
  ASSERT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(Said(), "L");
  ASSERT_CU(softgpuRelease(stream));
}

TEST_F(LegacyStream, EachThreadHasAPerThreadStreamOfItsOwn) {
  ASSERT_CU(softgpuStall(CU_STREAM_PER_THREAD, -1));
  EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
  std::thread([&] {
    EXPECT_CU(cuCtxSetCurrent(context_));
    EXPECT_CU(Say(CU_STREAM_PER_THREAD, 'o'));
    EXPECT_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  }).join();
  EXPECT_EQ(Said(), "o");
  ASSERT_CU(Say(nullptr, 'L'));  // ordered behind the stalled one, as behind any blocking stream
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  ASSERT_CU(softgpuRelease(CU_STREAM_PER_THREAD));
  ASSERT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(Said(), "oL");
}

TEST_F(LegacyStream, EveryContextHasItsOwn) {
  CUcontext other = nullptr;
  ASSERT_CU(cuDevicePrimaryCtxRetain(&other, 1));
  ASSERT_CU(softgpuStall(nullptr, -1));
  ASSERT_CU(cuCtxPushCurrent(other));
  EXPECT_CU(Say(nullptr, 'o'));
  EXPECT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(Said(), "o");
  ASSERT_CU(cuCtxPopCurrent(nullptr));
  ASSERT_CU(softgpuRelease(nullptr));
  EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

}  // namespace
}  // namespace softgpu
