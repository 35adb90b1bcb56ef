#include "shim/recorder/driver.h"

#include <dlfcn.h>

#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim::device {
namespace {

template <class Pointer>
bool Find(void* library, const char* newer, const char* older, Pointer* function) {
  void* found = resolve::Dlsym(library, newer);
  if (!found && older) found = resolve::Dlsym(library, older);
  *function = reinterpret_cast<Pointer>(found);
  return found != nullptr;
}

}  // namespace

bool LoadDriver(const char* nccl_path, Driver* driver) {
  resolve::Module module;
  if (!resolve::ModuleNamed("libcuda.so", nccl_path, &module)) return false;
  void* library = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return false;
  Find(library, "cuDriverGetVersion", nullptr, &driver->version);
  Find(library, "cuDeviceGet", nullptr, &driver->device_get);
  Find(library, "cuDeviceGetUuid", nullptr, &driver->device_uuid);
  Find(library, "cuDeviceGetUuid_v2", nullptr, &driver->instance_uuid);
  Find(library, "cuDeviceGetPCIBusId", nullptr, &driver->pci_bus_id);
  Find(library, "cuThreadExchangeStreamCaptureMode", nullptr, &driver->exchange_capture_mode);
  return Find(library, "cuCtxGetCurrent", nullptr, &driver->context_current) &&
         Find(library, "cuCtxPushCurrent_v2", nullptr, &driver->context_push) &&
         Find(library, "cuCtxPopCurrent_v2", nullptr, &driver->context_pop) &&
         Find(library, "cuCtxGetDevice", nullptr, &driver->context_device) &&
         Find(library, "cuDevicePrimaryCtxRetain", nullptr, &driver->primary_retain) &&
         Find(library, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", &driver->primary_release) &&
         Find(library, "cuMemHostRegister_v2", nullptr, &driver->host_register) &&
         Find(library, "cuMemHostGetDevicePointer_v2", nullptr, &driver->host_device_pointer) &&
         Find(library, "cuStreamIsCapturing", nullptr, &driver->stream_is_capturing) &&
         // The first version needs a module option of drivers before 12.0; the second always works.
         Find(library, "cuStreamWriteValue64_v2", "cuStreamWriteValue64", &driver->stream_write);
}

}  // namespace ncclwatch::shim::device
