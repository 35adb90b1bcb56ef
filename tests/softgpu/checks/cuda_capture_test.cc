// The rules of capture, and what breaking one does.
#include <thread>

#include "tests/softgpu/checks/cuda_support.h"

namespace softgpu {
namespace {

class CaptureRules : public CudaCheck {
 protected:
  void Begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_CU(cuStreamBeginCapture(stream, mode));
  }

  CUstreamCaptureStatus Status(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_CU(cuStreamIsCapturing(stream, &status));
    return status;
  }

  // The capture was spoilt, and its end says so and leaves the stream usable.
  void ExpectSpoilt(CUstream stream) {
    EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(Say(stream, 'x'), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph = reinterpret_cast<CUgraph>(this);
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_CU(cuStreamSynchronize(stream));
  }

  void ExpectSound(CUstream stream) {
    EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CUgraph graph = nullptr;
    EXPECT_CU(cuStreamEndCapture(stream, &graph));
    EXPECT_CU(cuGraphDestroy(graph));
  }

  CUresult AllocateInOtherThread(CUstreamCaptureMode mode) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread([&] {
      CUdeviceptr memory = 0;
      EXPECT_CU(cuCtxSetCurrent(context_));
      EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
      result = cuMemAlloc(&memory, 16);
    }).join();
    return result;
  }
};

TEST_F(CaptureRules, SynchroniseAndQueryOfTheStreamAreRefused) {
  for (auto call : {cuStreamSynchronize, cuStreamQuery}) {
    CUstream stream = NewStream();
    Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(call(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ExpectSpoilt(stream);
  }
}

TEST_F(CaptureRules, SynchroniseOfTheContextIsRefused) {
  CUstream stream = NewStream();
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ExpectSpoilt(stream);
}

TEST_F(CaptureRules, ACapturedEventCanNotBeAsked) {
  for (auto call : {cuEventQuery, cuEventSynchronize}) {
    CUstream stream = NewStream();
    CUevent event = NewEvent();
    Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    ASSERT_CU(cuEventRecord(event, stream));
    EXPECT_EQ(call(event), CUDA_ERROR_CAPTURED_EVENT);
    ExpectSpoilt(stream);
    EXPECT_EQ(call(event), CUDA_ERROR_CAPTURED_EVENT);  // for as long as that is its last record
    ASSERT_CU(cuEventRecord(event, stream));
    EXPECT_CU(cuEventSynchronize(event));
  }
}

TEST_F(CaptureRules, AGlobalCaptureForbidsUnsafeCallsInEveryThread) {
  CUstream stream = NewStream();
  CUevent event = NewEvent();
  Begin(stream);
  EXPECT_EQ(AllocateInOtherThread(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ExpectSpoilt(stream);
  Begin(stream);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);  // captured or not
  ExpectSpoilt(stream);
  Begin(stream);
  EXPECT_CU(AllocateInOtherThread(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CU(AllocateInOtherThread(CU_STREAM_CAPTURE_MODE_RELAXED));
  ExpectSound(stream);
}

TEST_F(CaptureRules, AThreadLocalCaptureForbidsThemInItsOwn) {
  CUstream stream = NewStream();
  CUdeviceptr memory = 0;
  Begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_CU(AllocateInOtherThread(CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ExpectSpoilt(stream);
}

TEST_F(CaptureRules, ARelaxedCaptureForbidsThemNowhere) {
  CUstream stream = NewStream();
  CUdeviceptr memory = 0;
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(AllocateInOtherThread(CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(cuMemAlloc(&memory, 16));
  EXPECT_CU(cuEventQuery(NewEvent()));
  ExpectSound(stream);
}

TEST_F(CaptureRules, AThreadCanLiftTheRuleForItself) {
  CUstream stream = NewStream();
  CUdeviceptr memory = 0;
  Begin(stream);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_CU(cuMemAlloc(&memory, 16));
  ASSERT_CU(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  ExpectSound(stream);
}

TEST_F(CaptureRules, TheLegacyStreamIsOutOfBoundsWhileABlockingOneCaptures) {
  CUstream stream = NewStream(CU_STREAM_DEFAULT);
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CUstreamCaptureStatus status;
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);  // asking spoils nothing
  EXPECT_EQ(Say(nullptr, 'x'), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  ExpectSpoilt(stream);
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CUdeviceptr memory = 0;
  int value = 0;
  ASSERT_CU(cuMemAlloc(&memory, 16));
  EXPECT_EQ(cuMemcpyHtoD(memory, &value, sizeof(value)), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  ExpectSpoilt(stream);
}

TEST_F(CaptureRules, TheLegacyStreamIsFreeWhileANonBlockingOneCaptures) {
  CUstream stream = NewStream();
  Begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(Say(nullptr, 'L'));
  EXPECT_CU(cuStreamSynchronize(nullptr));
  EXPECT_EQ(Said(), "L");
  ExpectSound(stream);
}

TEST_F(CaptureRules, TheLegacyStreamItselfCanNotCapture) {
  EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_CU(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ExpectSound(CU_STREAM_PER_THREAD);
}

TEST_F(CaptureRules, AForkHasToBeJoined) {
  CUstream stream = NewStream();
  CUstream side = NewStream();
  CUevent fork = NewEvent();
  Begin(stream);
  ASSERT_CU(cuEventRecord(fork, stream));
  ASSERT_CU(cuStreamWaitEvent(side, fork, 0));
  EXPECT_EQ(Status(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_CU(Say(side, 's'));
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(Status(side), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureRules, OnlyTheStreamAndThreadThatBeganMayEnd) {
  CUstream stream = NewStream();
  CUstream side = NewStream();
  CUevent fork = NewEvent();
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
  Begin(stream);
  std::thread([&] {
    EXPECT_CU(cuCtxSetCurrent(context_));
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  ExpectSound(stream);
  Begin(stream);
  ASSERT_CU(cuEventRecord(fork, stream));
  ASSERT_CU(cuStreamWaitEvent(side, fork, 0));
  EXPECT_EQ(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  ExpectSpoilt(stream);
}

TEST_F(CaptureRules, CapturesDoNotMerge) {
  CUstream first = NewStream();
  CUstream second = NewStream();
  CUevent event = NewEvent();
  Begin(first, CU_STREAM_CAPTURE_MODE_RELAXED);
  Begin(second, CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_CU(cuEventRecord(event, first));
  EXPECT_EQ(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  ExpectSpoilt(first);
  ExpectSpoilt(second);
}

TEST_F(CaptureRules, WorkOutsideIsOutOfReach) {
  CUstream stream = NewStream();
  CUstream outside = NewStream();
  CUevent event = NewEvent();
  Begin(stream);
  EXPECT_CU(cuStreamWaitEvent(stream, event, 0));  // never recorded
  ASSERT_CU(cuEventRecord(event, outside));
  EXPECT_EQ(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  ExpectSpoilt(stream);
}

TEST_F(CaptureRules, InfoNamesTheCaptureAndItsGraph) {
  CUstream stream = NewStream();
  Begin(stream);
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  size_t count = 9;
  ASSERT_CU(Say(stream, 'a'));
#if CUDA_VERSION >= 13000
  ASSERT_CU(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, nullptr, &count));
#else
  ASSERT_CU(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, &count));
#endif
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0U);
  ASSERT_EQ(count, 1U);
  CUgraphNodeType type;
  ASSERT_CU(cuGraphNodeGetType(dependencies[0], &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_HOST);
  CUgraph ended = nullptr;
  ASSERT_CU(cuStreamEndCapture(stream, &ended));
  EXPECT_EQ(ended, graph);
}

TEST_F(CaptureRules, CallbacksCanNotBeCaptured) {
  CUstream stream = NewStream();
  Begin(stream);
  EXPECT_EQ(cuStreamAddCallback(
                stream, [](CUstream, CUresult, void*) {}, nullptr, 0),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ExpectSpoilt(stream);
}

TEST_F(CaptureRules, DestroyingTheStreamEndsTheCapture) {
  CUstream stream = NewStream();
  CUdeviceptr memory = 0;
  Begin(stream);
  ASSERT_CU(cuStreamDestroy(stream));
  EXPECT_CU(cuMemAlloc(&memory, 16));
}

}  // namespace
}  // namespace softgpu
