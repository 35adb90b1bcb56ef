// Declarations after NVIDIA's nvml.h, version 12: the structures passed here have kept their layout since version 5.
#include <dlfcn.h>
#include <fmt/core.h>

#include <array>

#include "analyzer/doctor/checks/gpu.h"

namespace ncclwatch::doctor {
namespace {

using Device = void*;
constexpr int kSuccess = 0;
constexpr int kCorrected = 0, kUncorrected = 1, kVolatile = 0;  // nvmlMemoryErrorType_t, nvmlEccCounterType_t
constexpr int kLinkErrors[] = {0, 1, 3};  // nvmlNvLinkErrorCounter_t: replays, recoveries, CRC of flits
constexpr unsigned kMostLinks = 18;       // NVML_NVLINK_MAX_LINKS

struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  std::array<char, 16> legacy;
  unsigned domain, bus, device, pci_device, pci_subsystem;
  std::array<char, 32> bus_id;
};

class Library {
 public:
  Library() : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  explicit operator bool() const { return handle_ != nullptr; }

  // What the function returns; a failure where this version of the library has none of that name.
  template <typename... Arguments>
  bool Call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(handle_, name));
    return function && function(arguments...) == kSuccess;
  }

 private:
  void* handle_;  // stays open: the driver's library does not like to be unloaded
};

Gpu LookAt(const Library& nvml, Device device) {
  Gpu gpu;
  std::array<char, 96> text{};
  const auto size = static_cast<unsigned>(text.size());
  if (nvml.Call("nvmlDeviceGetName", device, text.data(), size)) gpu.name = text.data();
  if (nvml.Call("nvmlDeviceGetUUID", device, text.data(), size)) gpu.uuid = text.data();
  PciInfo pci{};
  if (nvml.Call("nvmlDeviceGetPciInfo_v3", device, &pci)) gpu.pci = pci.bus_id.data();
  Memory memory{};
  if (nvml.Call("nvmlDeviceGetMemoryInfo", device, &memory))
    gpu.memory_free = memory.free, gpu.memory_total = memory.total;
  unsigned long long count = 0;
  if (nvml.Call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kVolatile, &count)) gpu.uncorrected = count;
  if (nvml.Call("nvmlDeviceGetTotalEccErrors", device, kCorrected, kVolatile, &count)) gpu.corrected = count;
  nvml.Call("nvmlDeviceGetPcieReplayCounter", device, &gpu.pcie_replays);
  if (nvml.Call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &count)) gpu.throttle = count;
  nvml.Call("nvmlDeviceGetCurrPcieLinkWidth", device, &gpu.width);
  nvml.Call("nvmlDeviceGetMaxPcieLinkWidth", device, &gpu.width_most);
  for (unsigned link = 0, active = 0; link < kMostLinks; ++link)
    if (nvml.Call("nvmlDeviceGetNvLinkState", device, link, &active)) {
      if (active == 0) ++gpu.links_down;
      for (const int kind : kLinkErrors)
        if (nvml.Call("nvmlDeviceGetNvLinkErrorCounter", device, link, kind, &count)) gpu.link_errors += count;
    }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (nvml.Call("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed))
    gpu.row_remap_failed = failed != 0;
  return gpu;
}

GpuSample Look() {
  const Library nvml;
  if (!nvml) return {std::nullopt, "there is no libnvidia-ml.so.1: no NVIDIA driver is installed here"};
  if (!nvml.Call("nvmlInit_v2")) return {std::nullopt, "libnvidia-ml.so.1 finds no driver that answers"};
  Gpus gpus;
  std::array<char, 96> text{};
  if (nvml.Call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size())))
    gpus.driver = text.data();
  nvml.Call("nvmlSystemGetCudaDriverVersion_v2", &gpus.cuda);
  unsigned count = 0;
  nvml.Call("nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (nvml.Call("nvmlDeviceGetHandleByIndex_v2", i, &device)) gpus.all.push_back(LookAt(nvml, device));
  }
  return {gpus, ""};
}

}  // namespace

const GpuSample& LookAtGpus() {
  static const GpuSample look = Look();
  return look;
}

}  // namespace ncclwatch::doctor
