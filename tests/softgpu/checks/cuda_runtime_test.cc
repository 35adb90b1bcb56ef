// libcudart: the same machinery through the runtime's names.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/softgpu/cuda/softgpu.h"

namespace {

#define ASSERT_RT(expression) ASSERT_EQ(expression, cudaSuccess)
#define EXPECT_RT(expression) EXPECT_EQ(expression, cudaSuccess)

TEST(Runtime, DevicesAreChosenPerThread) {
  int count = 0;
  int device = -1;
  ASSERT_RT(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 8);
  ASSERT_RT(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  ASSERT_RT(cudaSetDevice(3));
  std::thread([] {
    int here = -1;
    EXPECT_RT(cudaGetDevice(&here));
    EXPECT_EQ(here, 0);
  }).join();
  ASSERT_RT(cudaGetDevice(&device));
  EXPECT_EQ(device, 3);
  EXPECT_EQ(cudaSetDevice(count), cudaErrorInvalidDevice);
}

TEST(Runtime, ErrorsStayUntilTheyAreTaken) {
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

TEST(Runtime, PropertiesAreFilledIn) {
  cudaDeviceProp properties;
  ASSERT_RT(cudaGetDeviceProperties(&properties, 1));
  EXPECT_STREQ(properties.name, "softgpu");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(properties.pciBusID, 2);
  EXPECT_GT(properties.totalGlobalMem, 0U);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 99), cudaErrorInvalidDevice);
  int version = 0;
  ASSERT_RT(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version, CUDART_VERSION);
}

TEST(Runtime, CopiesInEveryDirection) {
  std::vector<int> in(1000);
  std::vector<int> out(1000);
  std::iota(in.begin(), in.end(), 0);
  size_t size = in.size() * sizeof(int);
  void* a = nullptr;
  void* b = nullptr;
  ASSERT_RT(cudaMalloc(&a, size));
  ASSERT_RT(cudaMalloc(&b, size));
  ASSERT_RT(cudaMemcpy(a, in.data(), size, cudaMemcpyHostToDevice));
  ASSERT_RT(cudaMemcpy(b, a, size, cudaMemcpyDeviceToDevice));
  ASSERT_RT(cudaMemcpy(out.data(), b, size, cudaMemcpyDefault));
  EXPECT_EQ(in, out);
  ASSERT_RT(cudaMemset(a, 0xff, size));
  ASSERT_RT(cudaMemcpyPeer(b, 0, a, 0, size / 2));
  ASSERT_RT(cudaMemcpy(out.data(), b, size, cudaMemcpyDeviceToHost));
  EXPECT_EQ(out[0], -1);
  EXPECT_EQ(out[999], 999);
  EXPECT_EQ(cudaMemcpy(a, in.data(), size, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy(in.data(), out.data(), size, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_RT(cudaFree(a));
  EXPECT_RT(cudaFree(b));
  EXPECT_RT(cudaFree(nullptr));
  void* huge = nullptr;
  EXPECT_EQ(cudaMalloc(&huge, size_t{1} << 50), cudaErrorMemoryAllocation);
}

TEST(Runtime, PointersHaveAttributes) {
  void* device = nullptr;
  void* host = nullptr;
  int pageable = 0;
  ASSERT_RT(cudaSetDevice(2));
  ASSERT_RT(cudaMalloc(&device, 16));
  ASSERT_RT(cudaMallocHost(&host, 16));
  cudaPointerAttributes attributes;
  ASSERT_RT(cudaPointerGetAttributes(&attributes, device));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 2);
  EXPECT_EQ(attributes.devicePointer, device);
  ASSERT_RT(cudaPointerGetAttributes(&attributes, host));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, host);
  ASSERT_RT(cudaPointerGetAttributes(&attributes, &pageable));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_RT(cudaFree(device));
  EXPECT_RT(cudaFreeHost(host));
}

TEST(Runtime, StreamsEventsAndHostFunctions) {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  std::atomic<int> runs{0};
  ASSERT_RT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ASSERT_RT(cudaEventCreate(&start));
  ASSERT_RT(cudaEventCreate(&end));
  ASSERT_RT(cudaEventRecord(start, stream));
  ASSERT_EQ(softgpuStall(stream, 5), CUDA_SUCCESS);
  ASSERT_RT(cudaLaunchHostFunc(
      stream, [](void* a) { ++*static_cast<std::atomic<int>*>(a); }, &runs));
  ASSERT_RT(cudaStreamAddCallback(
      stream, [](cudaStream_t, cudaError_t, void* a) { ++*static_cast<std::atomic<int>*>(a); }, &runs, 0));
  ASSERT_RT(cudaEventRecord(end, stream));
  ASSERT_RT(cudaEventSynchronize(end));
  EXPECT_EQ(runs, 2);
  float milliseconds = 0;
  ASSERT_RT(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 5.0F);
  EXPECT_RT(cudaStreamQuery(stream));
  ASSERT_RT(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

TEST(Runtime, CapturedGraphsReplay) {
  cudaStream_t stream = nullptr;
  std::atomic<int> runs{0};
  ASSERT_RT(cudaStreamCreate(&stream));
  ASSERT_RT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ASSERT_RT(cudaLaunchHostFunc(
      stream, [](void* a) { ++*static_cast<std::atomic<int>*>(a); }, &runs));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ASSERT_RT(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_RT(cudaStreamEndCapture(stream, &graph));
  ASSERT_RT(cudaGraphInstantiate(&executable, graph, 0));
  ASSERT_RT(cudaGraphLaunch(executable, stream));
  ASSERT_RT(cudaGraphLaunch(executable, stream));
  ASSERT_RT(cudaStreamSynchronize(stream));
  EXPECT_EQ(runs, 2);
  ASSERT_RT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST(Runtime, FindsDriverEntryPoints) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
#if CUDART_VERSION >= 13000
  ASSERT_RT(
      cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &function, CUDART_VERSION, cudaEnableDefault, &status));
#else
  ASSERT_RT(cudaGetDriverEntryPoint("cuStreamWriteValue64", &function, cudaEnableDefault, &status));
#endif
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuStreamWriteValue64));
}

TEST(Runtime, AResetFreesEverything) {
  ASSERT_RT(cudaSetDevice(4));
  size_t before = 0;
  size_t after = 0;
  void* memory = nullptr;
  ASSERT_RT(cudaMemGetInfo(&before, nullptr));
  ASSERT_RT(cudaMalloc(&memory, 4096));
  ASSERT_RT(cudaDeviceReset());
  ASSERT_RT(cudaMemGetInfo(&after, nullptr));
  EXPECT_EQ(before, after);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
}

}  // namespace
