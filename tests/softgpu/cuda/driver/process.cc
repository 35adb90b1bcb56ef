#include "tests/softgpu/cuda/driver/process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace softgpu {
namespace {

constexpr int kDefaultDevices = 8;
constexpr int kMostDevices = 64;
constexpr size_t kDefaultMemory = size_t{16} << 30;

// One byte in a page that the kernel wipes in every child that copies this address space, however it was made.
// Published with release in InitialiseProcess; Enter's acquire pairs with it.
std::atomic<volatile unsigned char*> alive_page{nullptr};

thread_local int host_function_depth = 0;

long NumberFrom(const char* name, long missing) {
  const char* text = getenv(name);
  if (text == nullptr || *text == 0) return missing;
  char* end = nullptr;
  long value = strtol(text, &end, 10);
  return *end == 0 && value >= 0 ? value : missing;
}

size_t BytesFrom(const char* name, size_t missing) {
  const char* text = getenv(name);
  if (text == nullptr || *text == 0) return missing;
  char* end = nullptr;
  unsigned long long value = strtoull(text, &end, 10);
  int shift = 0;
  if (*end == 'K' || *end == 'k') shift = 10;
  if (*end == 'M' || *end == 'm') shift = 20;
  if (*end == 'G' || *end == 'g') shift = 30;
  if (end == text || *(end + (shift != 0)) != 0) return missing;
  return static_cast<size_t>(value) << shift;
}

std::vector<int> VisibleDevices() {
  long count = NumberFrom("SOFTGPU_DEVICES", kDefaultDevices);
  if (count > kMostDevices) count = kMostDevices;
  std::vector<int> visible;
  const char* text = getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  // The real driver reads up to the first entry that is no device and ignores the rest.
  while (*text != 0) {
    char* end = nullptr;
    long index = strtol(text, &end, 10);
    if (end == text || (*end != 0 && *end != ',') || index < 0 || index >= count) break;
    visible.push_back(static_cast<int>(index));
    text = *end == ',' ? end + 1 : end;
  }
  return visible;
}

Settings ReadSettings() {
  return {.visible = VisibleDevices(),
          .memory_bytes = BytesFrom("SOFTGPU_MEMORY", kDefaultMemory),
          .memory_operations = NumberFrom("SOFTGPU_NO_MEMOPS", 0) == 0,
          .host_register = NumberFrom("SOFTGPU_NO_HOST_REGISTER", 0) == 0};
}

}  // namespace

const Settings& GetSettings() {
  static const Settings& settings = *new Settings(ReadSettings());
  return settings;
}

CUresult InitialiseProcess() {
  if (volatile unsigned char* page = alive_page.load(std::memory_order_acquire)) {
    return *page != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  }
  static std::mutex& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  if (alive_page.load(std::memory_order_relaxed) != nullptr) return CUDA_SUCCESS;
  if (GetSettings().visible.empty()) return CUDA_ERROR_NO_DEVICE;
  size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  if (madvise(page, size, MADV_WIPEONFORK) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<volatile unsigned char*>(page) = 1;
  alive_page.store(static_cast<volatile unsigned char*>(page), std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult Enter() {
  volatile unsigned char* page = alive_page.load(std::memory_order_acquire);
  if (page == nullptr || *page == 0) return CUDA_ERROR_NOT_INITIALIZED;
  return host_function_depth == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
}

HostFunctionScope::HostFunctionScope() { ++host_function_depth; }
HostFunctionScope::~HostFunctionScope() { --host_function_depth; }

}  // namespace softgpu
