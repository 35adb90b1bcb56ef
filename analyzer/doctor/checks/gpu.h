// What NVIDIA's management library says of the GPUs of this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ncclwatch::doctor {

struct Gpu {
  std::string name, uuid, pci;
  std::uint64_t memory_free = 0, memory_total = 0;  // bytes
  std::uint64_t uncorrected = 0, corrected = 0;     // ECC errors since the driver was loaded
  std::uint64_t link_errors = 0;                    // of NVLink: CRC, replays, recoveries
  unsigned pcie_replays = 0;
  std::uint64_t throttle = 0;          // bits of nvmlClocksEventReasons
  unsigned width = 0, width_most = 0;  // lanes of PCIe
  unsigned links_down = 0;             // of NVLink
  bool row_remap_failed = false;
};

struct Gpus {
  std::string driver;  // its version
  int cuda = 0;        // that the driver supports, 12040 for 12.4
  std::vector<Gpu> all;
};

// "heat", "power brake"; empty: no more than its load asks for.
std::string SlowedBy(const Gpu& gpu);

// Why there are none: no library, or what the library said. The library is libnvidia-ml.so.1, as ld.so finds it.
struct GpuSample {
  std::optional<Gpus> gpus;
  std::string why_not;
};
const GpuSample& LookAtGpus();  // once

}  // namespace ncclwatch::doctor
