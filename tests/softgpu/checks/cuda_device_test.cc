#include <cstring>
#include <set>
#include <string>

#include "tests/softgpu/checks/cuda_support.h"

namespace softgpu {
namespace {

using Device = CudaCheck;

TEST_F(Device, EachHasAnIdentity) {
  int count = 0;
  ASSERT_CU(cuDeviceGetCount(&count));
  EXPECT_EQ(count, 8);
  std::set<std::string> uuids;
  for (int i = 0; i < count; ++i) {
    CUuuid uuid;
    char bus_id[16] = "";
    CUdevice found = -1;
    ASSERT_CU(cuDeviceGetUuid(&uuid, i));
    ASSERT_CU(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), i));
    ASSERT_CU(cuDeviceGetByPCIBusId(&found, bus_id));
    EXPECT_EQ(found, i);
    uuids.insert(std::string(uuid.bytes, sizeof(uuid.bytes)));
  }
  EXPECT_EQ(uuids.size(), static_cast<size_t>(count));
  CUdevice device = 0;
  EXPECT_EQ(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Device, ContextsStack) {
  CUcontext one = nullptr;
  CUcontext top = nullptr;
  CUdevice device = -1;
  ASSERT_CU(cuDevicePrimaryCtxRetain(&one, 1));
  ASSERT_CU(cuCtxPushCurrent(one));
  ASSERT_CU(cuCtxGetDevice(&device));
  EXPECT_EQ(device, 1);
  ASSERT_CU(cuCtxPopCurrent(&top));
  EXPECT_EQ(top, one);
  ASSERT_CU(cuCtxGetCurrent(&top));
  EXPECT_EQ(top, context_);
  ASSERT_CU(cuCtxSetCurrent(nullptr));
  ASSERT_CU(cuCtxGetCurrent(&top));
  EXPECT_EQ(top, nullptr);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&device)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

TEST_F(Device, ErrorsHaveNames) {
  const char* text = nullptr;
  ASSERT_CU(cuGetErrorName(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT");
  ASSERT_CU(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(Device, EntryPointsFollowTheVersionAskedFor) {
  void* old_form = nullptr;
  void* new_form = nullptr;
  void* per_thread = nullptr;
  CUdriverProcAddressQueryResult status;
  ASSERT_CU(cuGetProcAddress("cuStreamGetCaptureInfo", &old_form, 11000, 0, &status));
  ASSERT_CU(cuGetProcAddress("cuStreamGetCaptureInfo", &new_form, 12030, 0, &status));
  ASSERT_CU(cuGetProcAddress("cuStreamGetCaptureInfo", &per_thread, 12030,
                             CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  EXPECT_NE(old_form, nullptr);
  EXPECT_NE(old_form, new_form);
  EXPECT_NE(per_thread, new_form);
  void* allocate = nullptr;
  ASSERT_CU(cuGetProcAddress("cuMemAlloc", &allocate, CUDA_VERSION, 0, &status));
  EXPECT_EQ(allocate, reinterpret_cast<void*>(&cuMemAlloc));
  ASSERT_CU(cuGetProcAddress("cuNoSuchFunction", &new_form, 12030, 0, &status));
  EXPECT_EQ(new_form, nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_F(Device, DeviceCodeIsRefused) {
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, ""), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(Device, PeersAreEnabledOnce) {
  CUcontext peer = nullptr;
  int can = 0;
  ASSERT_CU(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  ASSERT_CU(cuDevicePrimaryCtxRetain(&peer, 1));
  EXPECT_CU(cuCtxEnablePeerAccess(peer, 0));
  EXPECT_EQ(cuCtxEnablePeerAccess(peer, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_CU(cuCtxDisablePeerAccess(peer));
  EXPECT_EQ(cuCtxDisablePeerAccess(peer), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

}  // namespace
}  // namespace softgpu
