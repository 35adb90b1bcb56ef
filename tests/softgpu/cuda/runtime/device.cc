// Devices, errors and versions.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "tests/softgpu/cuda/runtime/call.h"

// The header of CUDA 12 gives the newest form of this name to callers; both are defined here.
#undef cudaGetDeviceProperties

namespace softgpu::runtime {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int chosen_device = 0;

struct ErrorText {
  int number;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
#define SOFTGPU_ERROR(number, driver_name, runtime_name, text) {number, runtime_name, text},
#include "tests/softgpu/cuda/errors.def"
#undef SOFTGPU_ERROR
};

const ErrorText* Find(cudaError_t number) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const ErrorText& error) { return error.number == static_cast<int>(number); });
  return found == std::end(kErrors) || *found->name == 0 ? nullptr : found;
}

// The runtime holds one reference to a primary context, from its first use to the end.
CUresult PrimaryContext(int device, CUcontext* context) {
  static std::mutex& mutex = *new std::mutex;
  static CUcontext held[64];
  int count = 0;
  if (CUresult result = cuDeviceGetCount(&count); result != CUDA_SUCCESS) return result;
  if (device < 0 || device >= count) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(mutex);
  if (held[device] == nullptr) {
    if (CUresult result = cuDevicePrimaryCtxRetain(&held[device], device); result != CUDA_SUCCESS) return result;
  }
  *context = held[device];
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
cudaError_t Note(CUresult result) { return Note(static_cast<cudaError_t>(result)); }

CUresult MakeInitialised() { return cuInit(0); }

CUresult UseDevice(int device) {
  if (CUresult result = MakeInitialised(); result != CUDA_SUCCESS) return result;
  CUcontext context = nullptr;
  if (CUresult result = PrimaryContext(device, &context); result != CUDA_SUCCESS) return result;
  CUresult result = cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) chosen_device = device;
  return result;
}

CUresult MakeReady() {
  if (CUresult result = MakeInitialised(); result != CUDA_SUCCESS) return result;
  CUcontext current = nullptr;
  if (CUresult result = cuCtxGetCurrent(&current); result != CUDA_SUCCESS) return result;
  return current != nullptr ? CUDA_SUCCESS : UseDevice(chosen_device);
}

namespace {

int Attribute(int device, CUdevice_attribute attribute) {
  int value = 0;
  cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

CUresult Properties(cudaDeviceProp* p, int device) {
  int count = 0;
  if (CUresult result = cuDeviceGetCount(&count); result != CUDA_SUCCESS) return result;
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= count) return CUDA_ERROR_INVALID_DEVICE;
  memset(p, 0, sizeof(*p));
  cuDeviceGetName(p->name, sizeof(p->name), device);
  cuDeviceGetUuid_v2(&p->uuid, device);
  cuDeviceTotalMem_v2(&p->totalGlobalMem, device);
  struct Field {
    int* field;
    CUdevice_attribute attribute;
  };
  const Field fields[] = {
    {&p->regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {&p->warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {&p->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {&p->maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
    {&p->maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
    {&p->maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
    {&p->maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
    {&p->maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
    {&p->maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
    {&p->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {&p->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {&p->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {&p->integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {&p->canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
    {&p->concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {&p->ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {&p->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {&p->pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {&p->pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {&p->asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {&p->unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {&p->memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {&p->l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {&p->maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {&p->streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    {&p->globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED},
    {&p->localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED},
    {&p->regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {&p->managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {&p->concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {&p->computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    {&p->canUseHostPointerForRegisteredMem, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    {&p->cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    {&p->maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    {&p->hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
    {&p->hostRegisterReadOnlySupported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED},
    {&p->memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
#if CUDART_VERSION < 13000
    {&p->clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {&p->memoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
    {&p->deviceOverlap, CU_DEVICE_ATTRIBUTE_GPU_OVERLAP},
#endif
  };
  for (const Field& field : fields) *field.field = Attribute(device, field.attribute);
  auto size = [&](CUdevice_attribute attribute) { return static_cast<size_t>(Attribute(device, attribute)); };
  p->sharedMemPerBlock = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p->sharedMemPerBlockOptin = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p->sharedMemPerMultiprocessor = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p->reservedSharedMemPerBlock = size(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  p->memPitch = size(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  p->totalConstMem = size(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  p->textureAlignment = size(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  p->texturePitchAlignment = size(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  p->surfaceAlignment = size(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult CurrentDevice(int* device) {
  CUcontext current = nullptr;
  if (CUresult result = cuCtxGetCurrent(&current); result != CUDA_SUCCESS) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (current != nullptr) return cuCtxGetDevice(device);
  *device = chosen_device;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace softgpu::runtime

using softgpu::runtime::Call;
using softgpu::runtime::CallWithoutContext;
using softgpu::runtime::Note;

extern "C" {

cudaError_t CUDARTAPI cudaGetLastError(void) { return std::exchange(softgpu::runtime::last_error, cudaSuccess); }
cudaError_t CUDARTAPI cudaPeekAtLastError(void) { return softgpu::runtime::last_error; }

const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  const auto* found = softgpu::runtime::Find(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}
const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  const auto* found = softgpu::runtime::Find(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) { return Note(cuDriverGetVersion(version)); }
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Note(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  if (count != nullptr) *count = 0;
  return CallWithoutContext([&] { return cuDeviceGetCount(count); });
}
cudaError_t CUDARTAPI cudaSetDevice(int device) { return Note(softgpu::runtime::UseDevice(device)); }
cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  return CallWithoutContext([&] { return softgpu::runtime::CurrentDevice(device); });
}
cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int, unsigned int) {
  return CallWithoutContext([&] {
    CUcontext context = nullptr;
    return softgpu::runtime::PrimaryContext(device, &context);
  });
}
cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags) {
  return Call([&] {
    int device = 0;
    CUresult result = softgpu::runtime::CurrentDevice(&device);
    return result == CUDA_SUCCESS ? cuDevicePrimaryCtxSetFlags_v2(device, flags) : result;
  });
}
cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int* flags) {
  return Call([&] { return cuCtxGetFlags(flags); });
}
cudaError_t CUDARTAPI cudaDeviceSynchronize(void) {
  return Call([] { return cuCtxSynchronize(); });
}
cudaError_t CUDARTAPI cudaDeviceReset(void) {
  return Call([] {
    int device = 0;
    CUresult result = softgpu::runtime::CurrentDevice(&device);
    return result == CUDA_SUCCESS ? cuDevicePrimaryCtxReset_v2(device) : result;
  });
}

cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(cudaDeviceProp* properties, int device) {
  return CallWithoutContext([&] { return softgpu::runtime::Properties(properties, device); });
}
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return cudaGetDeviceProperties_v2(properties, device);
}
#endif

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return CallWithoutContext(
      [&] { return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device); });
}
cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return CallWithoutContext([&] { return cuDeviceGetPCIBusId(text, length, device); });
}
cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return CallWithoutContext([&] { return cuDeviceGetByPCIBusId(device, text); });
}
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call([&] { return cuCtxGetStreamPriorityRange(least, greatest); });
}
cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return CallWithoutContext([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}
cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source, int destination) {
  return CallWithoutContext([&] {
    return cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute), source, destination);
  });
}
cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return Call([&] {
    CUcontext context = nullptr;
    CUresult result = softgpu::runtime::PrimaryContext(peer, &context);
    return result == CUDA_SUCCESS ? cuCtxEnablePeerAccess(context, flags) : result;
  });
}
cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
  return Call([&] {
    CUcontext context = nullptr;
    CUresult result = softgpu::runtime::PrimaryContext(peer, &context);
    return result == CUDA_SUCCESS ? cuCtxDisablePeerAccess(context) : result;
  });
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int version,
                                                       unsigned long long flags,
                                                       cudaDriverEntryPointQueryResult* status) {
  return CallWithoutContext([&] {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult result = cuGetProcAddress_v2(symbol, function, static_cast<int>(version), flags, &found);
    if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return result;
  });
}
cudaError_t CUDARTAPI cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                              cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
cudaError_t CUDARTAPI cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                                   cudaDriverEntryPointQueryResult* status) {
  if (flags == cudaEnableDefault) flags = cudaEnablePerThreadDefaultStream;
  return cudaGetDriverEntryPoint(symbol, function, flags, status);
}
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned int version,
                                                            unsigned long long flags,
                                                            cudaDriverEntryPointQueryResult* status) {
  if (flags == cudaEnableDefault) flags = cudaEnablePerThreadDefaultStream;
  return cudaGetDriverEntryPointByVersion(symbol, function, version, flags, status);
}

}  // extern "C"
