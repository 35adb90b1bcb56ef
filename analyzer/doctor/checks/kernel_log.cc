#include "analyzer/doctor/checks/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace ncclwatch::doctor {
namespace {

// Texts of the kernel and of NVIDIA's driver that stand for broken hardware, or for memory that ran out.
struct Trouble {
  std::string_view text, name;
};
constexpr Trouble kTroubles[] = {
    {"NVRM: Xid", "Xid of a GPU"},
    {"fallen off the bus", "GPU off the bus"},
    {"Machine check events logged", "machine check"},
    {"mce: [Hardware Error]", "machine check"},
    {"Out of memory: Killed process", kKilledForMemory},
    {"Memory cgroup out of memory", kKilledForMemory},
    {"EDAC MC", "memory error"},
    {"I/O error", "I/O error"},
    {"AER: Uncorrected", "PCIe error"},
    {"Link is Down", "network link down"},
    {"link is down", "network link down"},
    {"NVLink", "NVLink error"},
    {"not responding", "file server that does not answer"},
    {"soft lockup", "soft lockup"},
    {"blocked for more than", "task that hung"},
};

}  // namespace

std::optional<std::string> KernelLog(const Machine& machine, std::string* why_not) {
  const int fd = open(machine.Below("/dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    *why_not = std::string("/dev/kmsg: ") + strerror(errno);
    return std::nullopt;
  }
  std::string text;
  std::array<char, 8192> record;
  constexpr std::size_t kMost = 16 << 20;
  while (text.size() < kMost) {
    const ssize_t size = read(fd, record.data(), record.size());
    if (size < 0 && (errno == EPIPE || errno == EINTR)) continue;  // overwritten meanwhile
    if (size <= 0) break;
    text.append(record.data(), static_cast<std::size_t>(size));
  }
  close(fd);
  return text;
}

std::string_view TroubleIn(std::string_view line) {
  for (const Trouble& trouble : kTroubles)
    if (line.find(trouble.text) != std::string_view::npos) return trouble.name;
  return {};
}

}  // namespace ncclwatch::doctor
