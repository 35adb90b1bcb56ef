#include <fmt/core.h>

#include <set>

#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/checks/gpu.h"
#include "analyzer/doctor/checks/words.h"

namespace ncclwatch::doctor {
namespace {

// nvmlClocksEventReasons: what slows a GPU though its load does not ask for it.
constexpr std::uint64_t kPowerBrake = 0x80, kSoftwareThermal = 0x20, kHardwareThermal = 0x40, kHardwareSlowdown = 0x8;

const Gpus* Found() {
  const GpuSample& look = LookAtGpus();
  return look.gpus && !look.gpus->all.empty() ? &*look.gpus : nullptr;
}
Result NoGpu() { return Skip(LookAtGpus().gpus ? "the driver shows no GPU" : LookAtGpus().why_not); }

Result GpuVisible(const Machine& machine) {
  const GpuSample& look = LookAtGpus();
  if (look.gpus && look.gpus->all.empty())
    return Warn("a driver and no GPU", "the driver shows no GPU",
                "look for the GPU: `lspci -d 10de:`, `nvidia-smi`, the container's --gpus");
  if (!Found()) {
    if (machine.Exists("/proc/driver/nvidia/version"))
      return Fail("/proc/driver/nvidia/version", look.why_not,
                  "start the container with the NVIDIA runtime, or install the driver's libraries of the kernel "
                  "module's version");
    return NoGpu();
  }
  const std::size_t count = Found()->all.size();
  const std::string seen = fmt::format("{} x {}", count, Found()->all.front().name);
  if (const auto ranks = static_cast<std::size_t>(machine.local_ranks()); ranks > count)
    return Fail(seen, fmt::format("{} ranks of this host need as many GPUs", ranks),
                "start no more ranks than there are GPUs (--nproc-per-node, --ntasks-per-node)");
  return Pass(seen);
}

Result Driver(const Machine& /*machine*/) {
  const Gpus* const gpus = Found();
  if (!gpus) return NoGpu();
  return Pass(fmt::format("driver {}, up to CUDA {}.{}", gpus->driver, gpus->cuda / 1000, gpus->cuda / 10 % 100));
}

std::string FaultsOf(const Gpu& gpu) {
  std::vector<std::string> faults;
  if (gpu.uncorrected > 0) faults.push_back(fmt::format("{} uncorrected ECC errors", gpu.uncorrected));
  if (gpu.row_remap_failed) faults.emplace_back("a memory row that could not be replaced");
  if (gpu.links_down > 0) faults.push_back(fmt::format("{} NVLink links down", gpu.links_down));
  return Joined(faults);
}

Result GpuHealth(const Machine& /*machine*/) {
  const Gpus* const gpus = Found();
  if (!gpus) return NoGpu();
  std::vector<std::string> faults;
  for (const Gpu& gpu : gpus->all)
    if (const std::string of_one = FaultsOf(gpu); !of_one.empty())
      faults.push_back(fmt::format("{}: {}", gpu.pci, of_one));
  if (faults.empty()) return Pass(fmt::format("{} GPUs without uncorrected errors", gpus->all.size()));
  return Warn(Joined(faults, "; "), "such a GPU ends jobs sooner or later",
              "drain the host and have the GPU tested (`dcgmi diag -r 3`) or replaced");
}

Result GpuThrottle(const Machine& /*machine*/) {
  const Gpus* const gpus = Found();
  if (!gpus) return NoGpu();
  std::vector<std::string> slow;
  for (const Gpu& gpu : gpus->all)
    if (const std::string by = SlowedBy(gpu); !by.empty()) slow.push_back(fmt::format("{} ({})", gpu.pci, by));
  if (slow.empty()) return Pass("no GPU is slowed by heat or power");
  return Warn(Joined(slow), "these GPUs run below their clocks already",
              "look at fans, inlet temperature and power supply of the host");
}

Result GpuMemory(const Machine& /*machine*/) {
  const Gpus* const gpus = Found();
  if (!gpus) return NoGpu();
  constexpr double kTaken = 0.05;  // the driver's own share is below that
  std::vector<std::string> taken;
  for (const Gpu& gpu : gpus->all)
    if (static_cast<double>(gpu.memory_total - gpu.memory_free) > kTaken * static_cast<double>(gpu.memory_total))
      taken.push_back(fmt::format("{}: {} free of {}", gpu.pci, analyzer::BytesText(gpu.memory_free),
                                  analyzer::BytesText(gpu.memory_total)));
  if (taken.empty()) return Pass("the memory of all GPUs is free");
  return Warn(Joined(taken), "somebody else holds memory of a GPU",
              "end what is left of earlier jobs (`nvidia-smi --query-compute-apps=pid,used_memory --format=csv`)");
}

Result PcieWidth(const Machine& /*machine*/) {
  const Gpus* const gpus = Found();
  if (!gpus) return NoGpu();
  std::vector<std::string> narrow;
  for (const Gpu& gpu : gpus->all)
    if (gpu.width > 0 && gpu.width < gpu.width_most)
      narrow.push_back(fmt::format("{}: x{} of x{}", gpu.pci, gpu.width, gpu.width_most));
  if (narrow.empty()) return Pass("all GPUs have all their PCIe lanes");
  return Warn(Joined(narrow), "the link to the GPU is narrower than the GPU can",
              "reseat the card or its riser; see `lspci -vv` for LnkSta");
}

// By number or identifier, as CUDA reads it; the first one that is none ends the list.
Result VisibleDevices(const Machine& machine) {
  const auto list = machine.Variable("CUDA_VISIBLE_DEVICES");
  if (!list) return Pass("CUDA_VISIBLE_DEVICES is not set");
  const std::vector<std::string> devices = Split(*list, ",");
  const std::string seen = "CUDA_VISIBLE_DEVICES=" + *list;
  if (std::set(devices.begin(), devices.end()).size() != devices.size())
    return Fail(seen, "a device is named twice: CUDA then shows none", "name each device once");
  if (Found())
    for (const std::string& device : devices)
      if (device.find_first_not_of("0123456789") == std::string::npos &&
          (device.size() > 4 || std::stoul(device) >= Found()->all.size()))
        return Fail(seen, fmt::format("there is no device {}: CUDA ignores it and all after it", device),
                    fmt::format("name devices from 0 to {}", Found()->all.size() - 1));
  if (devices.front() == "-1") return Warn(seen, "that hides all GPUs", "unset the variable where the job needs GPUs");
  return Pass(seen);
}

Result PeerMemory(const Machine& machine) {
  if (!Found()) return NoGpu();
  if (machine.List("/sys/class/infiniband").empty()) return Skip("there is no InfiniBand or RoCE device");
  if (machine.Exists("/sys/module/nvidia_peermem") || machine.Exists("/sys/kernel/mm/memory_peers/nv_mem"))
    return Pass("nvidia_peermem is loaded");
  return Warn("nvidia_peermem is not loaded",
              "where the kernel gives no DMA-BUF either, data go through the host's memory",
              "modprobe nvidia_peermem, or see NCCL_DEBUG=INFO for \"GPU Direct RDMA\"");
}

constexpr Check kGpuChecks[] = {
    {"gpu-visible", "GPUs for each rank of this host", kAnyPhase, GpuVisible},
    {"driver", "NVIDIA driver and the CUDA that it supports", kAnyPhase, Driver},
    {"gpu-health", "uncorrected memory errors, NVLink", kAnyPhase, GpuHealth},
    {"gpu-throttle", "heat and power that slow GPUs", kScaleUp | kLongRun, GpuThrottle},
    {"gpu-memory", "memory of GPUs that somebody holds", kAnyPhase, GpuMemory},
    {"pcie-width", "lanes of PCIe to each GPU", kScaleUp | kLongRun, PcieWidth},
    {"visible-devices", "CUDA_VISIBLE_DEVICES", kAnyPhase, VisibleDevices},
    {"peer-memory", "GPU memory for the network card", kScaleUp | kLongRun, PeerMemory},
};

}  // namespace

std::string SlowedBy(const Gpu& gpu) {
  if (gpu.throttle & kPowerBrake) return "power brake";
  return gpu.throttle & (kSoftwareThermal | kHardwareThermal | kHardwareSlowdown) ? "heat" : "";
}

std::span<const Check> GpuChecks() { return kGpuChecks; }

}  // namespace ncclwatch::doctor
