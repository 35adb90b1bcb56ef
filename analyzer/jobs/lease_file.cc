#include "analyzer/jobs/lease_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ncclwatch/format/lease.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kLeaseFile[] = "/lease";

}  // namespace

std::string SwitchWatching(const std::string& directory, bool on) {
  const std::string path = directory + kLeaseFile;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return path + ": " + std::strerror(errno);
  struct stat status {};
  std::string reason;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size < static_cast<off_t>(sizeof(format::Lease))) {
    reason = path + ": not a lease";
  } else {
    void* mapped = mmap(nullptr, sizeof(format::Lease), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
      reason = path + ": " + std::strerror(errno);
    } else {
      auto* lease = static_cast<format::Lease*>(mapped);
      if (std::memcmp(lease->magic, format::kLeaseMagic, sizeof lease->magic) != 0)
        reason = path + ": not a lease";
      else
        lease->switched_off.store(on ? 0 : 1, std::memory_order_release);  // acquired by each process's watchdog
      munmap(mapped, sizeof(format::Lease));
    }
  }
  close(fd);
  return reason;
}

}  // namespace ncclwatch::analyzer
