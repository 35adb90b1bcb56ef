#include "tests/softgpu/checks/cuda_support.h"

namespace softgpu {
namespace {

using Events = CudaCheck;

TEST_F(Events, AreCompleteBeforeTheirFirstRecord) {
  CUevent event = NewEvent();
  EXPECT_CU(cuEventQuery(event));
  EXPECT_CU(cuEventSynchronize(event));
}

TEST_F(Events, CompleteWhenTheStreamGetsThere) {
  CUstream stream = NewStream();
  CUevent event = NewEvent();
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(cuEventRecord(event, stream));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  ASSERT_CU(softgpuRelease(stream));
  EXPECT_CU(cuEventSynchronize(event));
  EXPECT_CU(cuEventQuery(event));
}

TEST_F(Events, StandForTheirLastRecord) {
  CUstream done = NewStream();
  CUstream stuck = NewStream();
  CUevent event = NewEvent();
  ASSERT_CU(cuEventRecord(event, done));
  ASSERT_CU(cuEventSynchronize(event));
  ASSERT_CU(softgpuStall(stuck, -1));
  ASSERT_CU(cuEventRecord(event, stuck));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  ASSERT_CU(softgpuRelease(stuck));
  EXPECT_CU(cuEventSynchronize(event));
}

TEST_F(Events, OrderOneStreamBehindAnother) {
  CUstream first = NewStream();
  CUstream second = NewStream();
  CUevent event = NewEvent(CU_EVENT_DISABLE_TIMING);
  ASSERT_CU(softgpuStall(first, -1));
  ASSERT_CU(Say(first, 'a'));
  ASSERT_CU(cuEventRecord(event, first));
  ASSERT_CU(cuStreamWaitEvent(second, event, 0));
  ASSERT_CU(Say(second, 'b'));
  // What the event stands for was settled when the wait was given: neither of these changes it.
  ASSERT_CU(cuEventRecord(event, second));
  ASSERT_CU(cuEventDestroy(event));
  ASSERT_CU(softgpuRelease(first));
  ASSERT_CU(cuStreamSynchronize(second));
  EXPECT_EQ(Said(), "ab");
}

TEST_F(Events, AWaitForOneNeverRecordedIsNoWait) {
  CUstream stream = NewStream();
  ASSERT_CU(cuStreamWaitEvent(stream, NewEvent(), 0));
  EXPECT_CU(cuStreamSynchronize(stream));
}

TEST_F(Events, MeasureTime) {
  CUstream stream = NewStream();
  CUevent start = NewEvent();
  CUevent end = NewEvent();
  float milliseconds = 0;
  ASSERT_CU(cuEventRecord(start, stream));
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);  // end is not recorded
  ASSERT_CU(softgpuStall(stream, 20));
  ASSERT_CU(cuEventRecord(end, stream));
  CUresult early = cuEventElapsedTime(&milliseconds, start, end);
  EXPECT_TRUE(early == CUDA_ERROR_NOT_READY || early == CUDA_SUCCESS);
  ASSERT_CU(cuEventSynchronize(end));
  ASSERT_CU(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 20.0F);
  CUevent untimed = NewEvent(CU_EVENT_DISABLE_TIMING);
  ASSERT_CU(cuEventRecord(untimed, stream));
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Events, BelongToOneContext) {
  CUcontext other = nullptr;
  ASSERT_CU(cuDevicePrimaryCtxRetain(&other, 1));
  CUevent event = NewEvent();
  ASSERT_CU(cuCtxPushCurrent(other));
  CUstream foreign = NewStream();
  EXPECT_EQ(cuEventRecord(event, foreign), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuStreamWaitEvent(foreign, event, 0));  // waiting across contexts is allowed
  ASSERT_CU(cuCtxPopCurrent(nullptr));
  EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

TEST_F(Events, AStaleHandleIsRefused) {
  CUevent event = NewEvent();
  ASSERT_CU(cuEventDestroy(event));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace softgpu
