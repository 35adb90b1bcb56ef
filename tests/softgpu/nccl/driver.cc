#include "driver.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>

#include "status.h"

namespace softgpu {
namespace {

template <typename F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  if (!*function) Warn("softgpu: libcuda.so.1 has no %s", name);
  return *function != nullptr;
}

const Driver* Load() {
  Dl_info self{};
  if (!dladdr(reinterpret_cast<void*>(&GetDriver), &self) || !self.dli_fname) return nullptr;
  const std::string file = self.dli_fname;
  const size_t slash = file.rfind('/');
  const std::string path = (slash == std::string::npos ? std::string(".") : file.substr(0, slash)) + "/libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    Warn("softgpu: cannot load %s: %s", path.c_str(), dlerror());
    return nullptr;
  }
  static Driver driver;
  const bool found =
      Find(library, "cuInit", &driver.init) && Find(library, "cuDeviceGetCount", &driver.device_count) &&
      Find(library, "cuCtxGetCurrent", &driver.context_get) && Find(library, "cuCtxSetCurrent", &driver.context_set) &&
      Find(library, "cuCtxGetDevice", &driver.context_device) &&
      Find(library, "cuDevicePrimaryCtxRetain", &driver.primary_retain) &&
      Find(library, "cuMemAlloc_v2", &driver.memory_alloc) && Find(library, "cuMemFree_v2", &driver.memory_free) &&
      Find(library, "cuStreamIsCapturing", &driver.stream_capturing) &&
      Find(library, "softgpuEnqueue", &driver.enqueue);
  return found && driver.init(0) == CUDA_SUCCESS ? &driver : nullptr;
}

}  // namespace

const Driver* GetDriver() {
  static const Driver* driver = Load();
  return driver;
}

bool CurrentDevice(int* device) {
  const Driver* driver = GetDriver();
  if (!driver) return false;
  CUcontext context = nullptr;
  if (driver->context_get(&context) != CUDA_SUCCESS) return false;
  if (!context) {
    *device = 0;
    return true;
  }
  CUdevice handle = 0;
  if (driver->context_device(&handle) != CUDA_SUCCESS) return false;
  *device = handle;
  return true;
}

CUcontext PrimaryContext(int device) {
  static auto* mutex = new std::mutex;
  static auto* contexts = new std::map<int, CUcontext>;
  const Driver* driver = GetDriver();
  if (!driver) return nullptr;
  const std::lock_guard lock(*mutex);
  CUcontext& context = (*contexts)[device];
  if (!context && driver->primary_retain(&context, device) != CUDA_SUCCESS) context = nullptr;
  return context;
}

ScopedContext::ScopedContext(CUcontext context) {
  const Driver* driver = GetDriver();
  changed_ = driver->context_get(&previous_) == CUDA_SUCCESS && previous_ != context &&
             driver->context_set(context) == CUDA_SUCCESS;
}

ScopedContext::~ScopedContext() {
  if (changed_) GetDriver()->context_set(previous_);
}

}  // namespace softgpu
