// The CUDA driver, as far as marks and the names of GPUs need it: found among the loaded libraries by handle, never
// linked, never by a global symbol (another libcuda may stand there).
#pragma once

#include <cuda.h>

namespace ncclwatch::shim::device {

struct Driver {
  decltype(&cuCtxGetCurrent) context_current = nullptr;
  decltype(&cuCtxPushCurrent) context_push = nullptr;
  decltype(&cuCtxPopCurrent) context_pop = nullptr;
  decltype(&cuCtxGetDevice) context_device = nullptr;
  decltype(&cuDevicePrimaryCtxRetain) primary_retain = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) primary_release = nullptr;
  decltype(&cuMemHostRegister) host_register = nullptr;
  decltype(&cuMemHostGetDevicePointer) host_device_pointer = nullptr;
  decltype(&cuStreamIsCapturing) stream_is_capturing = nullptr;
  decltype(&cuStreamWriteValue64) stream_write = nullptr;
  // Null where the driver lacks it.
  decltype(&cuDriverGetVersion) version = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuDeviceGetUuid) device_uuid = nullptr;    // of the whole GPU
  decltype(&cuDeviceGetUuid) instance_uuid = nullptr;  // of the MIG instance, if the device is one; CUDA 11.4
  decltype(&cuDeviceGetPCIBusId) pci_bus_id = nullptr;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode = nullptr;  // null in drivers before 10.1
};

// The driver beside the libnccl at `nccl_path` if there is one, else the one that is loaded. False if there is none,
// or it lacks what is needed.
bool LoadDriver(const char* nccl_path, Driver* driver);

}  // namespace ncclwatch::shim::device
