#include <sys/mman.h>

#include <numeric>
#include <vector>

#include "tests/softgpu/checks/cuda_support.h"

namespace softgpu {
namespace {

class Memory : public CudaCheck {
 protected:
  CUdeviceptr Allocate(size_t size) {
    CUdeviceptr memory = 0;
    EXPECT_CU(cuMemAlloc(&memory, size));
    return memory;
  }
};

std::vector<int> Counting(int count) {
  std::vector<int> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

TEST_F(Memory, CopiesThereAndBack) {
  for (int count : {1, 1000, 300000}) {
    std::vector<int> in = Counting(count);
    std::vector<int> out(in.size());
    size_t size = in.size() * sizeof(int);
    CUdeviceptr a = Allocate(size);
    CUdeviceptr b = Allocate(size);
    ASSERT_CU(cuMemcpyHtoD(a, in.data(), size));
    ASSERT_CU(cuMemcpyDtoD(b, a, size));
    ASSERT_CU(cuMemcpyDtoH(out.data(), b, size));
    EXPECT_EQ(in, out);
  }
}

TEST_F(Memory, APageableSourceMayChangeAfterTheCall) {
  CUstream stream = NewStream();
  int value = 7;
  int out = 0;
  CUdeviceptr memory = Allocate(sizeof(int));
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(cuMemcpyHtoDAsync(memory, &value, sizeof(int), stream));
  value = 8;
  ASSERT_CU(softgpuRelease(stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  ASSERT_CU(cuMemcpyDtoH(&out, memory, sizeof(int)));
  EXPECT_EQ(out, 7);
}

TEST_F(Memory, APinnedSourceIsReadWhenTheStreamGetsThere) {
  CUstream stream = NewStream();
  int* pinned = nullptr;
  ASSERT_CU(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), sizeof(int), 0));
  int out = 0;
  CUdeviceptr memory = Allocate(sizeof(int));
  *pinned = 7;
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(cuMemcpyHtoDAsync(memory, pinned, sizeof(int), stream));
  *pinned = 8;
  ASSERT_CU(softgpuRelease(stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  ASSERT_CU(cuMemcpyDtoH(&out, memory, sizeof(int)));
  EXPECT_EQ(out, 8);
  EXPECT_CU(cuMemFreeHost(pinned));
}

TEST_F(Memory, FillsInEveryWidth) {
  CUdeviceptr memory = Allocate(64);
  std::vector<unsigned char> out(64);
  ASSERT_CU(cuMemsetD8(memory, 1, 64));
  ASSERT_CU(cuMemsetD16(memory + 2, 0x0302, 3));
  ASSERT_CU(cuMemsetD32(memory + 12, 0x07060504, 2));
  ASSERT_CU(cuMemcpyDtoH(out.data(), memory, 64));
  std::vector<unsigned char> expected(64, 1);
  for (size_t i = 2; i < 8; ++i) expected[i] = static_cast<unsigned char>(2 + i % 2);
  for (size_t i = 12; i < 20; ++i) expected[i] = static_cast<unsigned char>(4 + i % 4);
  EXPECT_EQ(out, expected);
  EXPECT_EQ(cuMemsetD32(memory + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(memory, 0, 65), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, CopiesRectangles) {
  std::vector<unsigned char> in(std::size_t{8} * 4);
  std::iota(in.begin(), in.end(), 0);
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  ASSERT_CU(cuMemAllocPitch(&memory, &pitch, 8, 4, 4));
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = 8;
  copy.srcXInBytes = 2;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = pitch;
  copy.WidthInBytes = 3;
  copy.Height = 2;
  ASSERT_CU(cuMemcpy2D(&copy));
  unsigned char out[3] = {};
  ASSERT_CU(cuMemcpyDtoH(out, memory + pitch, 3));
  EXPECT_EQ(std::vector<unsigned char>(out, out + 3), (std::vector<unsigned char>{18, 19, 20}));
}

TEST_F(Memory, OutsideAnAllocationACopyIsRefused) {
  char bytes[32] = {};
  CUdeviceptr memory = Allocate(16);
  EXPECT_EQ(cuMemcpyHtoD(memory + 8, bytes, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(bytes), bytes, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(memory + 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemFree(memory));
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemFree(0));
}

TEST_F(Memory, RunsOutAndComesBack) {
  size_t available = 0;
  size_t total = 0;
  ASSERT_CU(cuMemGetInfo(&available, &total));
  CUdeviceptr most = Allocate(available - 4096);
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAlloc(&more, 8192), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&more, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(cuMemAlloc(&more, 4096));
  size_t left = 1;
  ASSERT_CU(cuMemGetInfo(&left, nullptr));
  EXPECT_EQ(left, 0U);
  EXPECT_CU(cuMemFree(most));
  EXPECT_CU(cuMemFree(more));
  ASSERT_CU(cuMemGetInfo(&left, nullptr));
  EXPECT_EQ(left, available);
}

TEST_F(Memory, FreeWaitsForTheDevice) {
  CUstream stream = NewStream();
  CUdeviceptr memory = Allocate(16);
  ASSERT_CU(softgpuStall(stream, 20));
  ASSERT_CU(Say(stream, 'a'));
  ASSERT_CU(cuMemFree(memory));
  EXPECT_EQ(Said(), "a");
}

TEST_F(Memory, PointersTellWhatTheyAre) {
  CUdeviceptr memory = Allocate(100);
  unsigned type = 0;
  int ordinal = -1;
  CUdeviceptr base = 0;
  size_t size = 0;
  EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 10));
  EXPECT_CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
  EXPECT_CU(cuMemGetAddressRange(&base, &size, memory + 99));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(base, memory);
  EXPECT_EQ(size, 100U);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(&type)),
            CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&type, &ordinal};
  EXPECT_CU(cuPointerGetAttributes(2, asked, answers, reinterpret_cast<CUdeviceptr>(&type)));
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(ordinal, static_cast<int>(CU_DEVICE_INVALID));
}

TEST_F(Memory, HostMemoryIsRegisteredOnce) {
  constexpr size_t kSize = 8192;
  void* pages = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  ASSERT_CU(cuMemHostRegister(pages, kSize, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  EXPECT_EQ(cuMemHostRegister(static_cast<char*>(pages) + 4096, 16, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr on_device = 0;
  EXPECT_CU(cuMemHostGetDevicePointer(&on_device, pages, 0));
  EXPECT_EQ(on_device, reinterpret_cast<CUdeviceptr>(pages));
  EXPECT_EQ(cuMemFreeHost(pages), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemHostUnregister(pages));
  ASSERT_EQ(munmap(pages, kSize), 0);
  EXPECT_EQ(cuMemHostRegister(pages, kSize, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, StreamOrderedFreeComesInItsTurn) {
  CUstream stream = NewStream();
  CUdeviceptr memory = 0;
  size_t before = 0;
  size_t after = 0;
  ASSERT_CU(cuMemGetInfo(&before, nullptr));
  ASSERT_CU(cuMemAllocAsync(&memory, 4096, stream));
  ASSERT_CU(softgpuStall(stream, -1));
  ASSERT_CU(cuMemsetD8Async(memory, 1, 4096, stream));
  ASSERT_CU(cuMemFreeAsync(memory, stream));
  ASSERT_CU(softgpuRelease(stream));
  ASSERT_CU(cuStreamSynchronize(stream));
  ASSERT_CU(cuMemGetInfo(&after, nullptr));
  EXPECT_EQ(before, after);
}

}  // namespace
}  // namespace softgpu
