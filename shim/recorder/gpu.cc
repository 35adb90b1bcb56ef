#include "shim/recorder/gpu.h"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "shim/recorder/driver.h"
#include "shim/resolve/libraries.h"

namespace ncclwatch::shim {
namespace {

// "GPU-5c1f0e9a-...", as nvidia-smi prints it.
std::string UuidText(const char* prefix, const CUuuid& uuid) {
  std::string text = prefix;
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(uuid.bytes[i]));
  return text;
}

std::string NameOf(const device::Driver& driver, int ordinal) {
  CUdevice device = 0;
  CUuuid whole{}, own{};
  if (!driver.device_get || driver.device_get(&device, ordinal) != CUDA_SUCCESS) return {};
  const bool has_whole = driver.device_uuid && driver.device_uuid(&whole, device) == CUDA_SUCCESS;
  const bool has_own = driver.instance_uuid && driver.instance_uuid(&own, device) == CUDA_SUCCESS;
  if (!has_whole && !has_own) return {};
  const bool instance = has_whole && has_own && std::memcmp(&whole, &own, sizeof whole) != 0;
  std::string text = UuidText(instance ? "MIG-" : "GPU-", has_own ? own : whole);
  char bus[32] = {};
  if (driver.pci_bus_id && driver.pci_bus_id(bus, sizeof bus, device) == CUDA_SUCCESS && bus[0])
    text += fmt::format(" {}", bus);
  return text;
}

}  // namespace

void NameGpu(Box& box, std::uint32_t index) {
  format::Communicator& entry = box.communicators[index];
  const std::int32_t ordinal = entry.device;
  if (ordinal < 0 || ordinal >= kNamedGpus) return;
  std::uint32_t name = box.gpu_names[ordinal].load(std::memory_order_acquire);
  if (name == 0) {
    device::Driver driver;
    device::LoadDriver(resolve::libraries[entry.library].path, &driver);
    const std::string text = NameOf(driver, ordinal);
    name = text.empty() ? 0 : AddString(box, text.c_str());
    box.gpu_names[ordinal].store(name, std::memory_order_release);
  }
  // Whoever sees the offset sees the text.
  std::atomic_ref(entry.gpu).store(name, std::memory_order_release);
}

}  // namespace ncclwatch::shim
