#include "analyzer/jobs/lease_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "analyzer/files/descriptor.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::analyzer {

void Unmap::operator()(format::Lease* lease) const { munmap(lease, sizeof(format::Lease)); }

absl::StatusOr<LeaseFile> OpenLease(const std::string& place) {
  const descriptors::Directory directory = descriptors::Directory::Named(place);
  const std::string path = place + "/lease";
  const Descriptor file(directory.Open("lease", O_RDWR | O_NONBLOCK));
  if (!file) return absl::ErrnoToStatus(errno, path);
  struct stat status {};
  void* mapped = MAP_FAILED;
  // Of the directory's owner: a second name of somebody else's file is none.
  if (fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == directory.owner() &&
      status.st_size >= static_cast<off_t>(sizeof(format::Lease)))
    mapped = mmap(nullptr, sizeof(format::Lease), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  LeaseFile lease(mapped == MAP_FAILED ? nullptr : static_cast<format::Lease*>(mapped));
  if (!lease || std::memcmp(lease->magic, format::kLeaseMagic, sizeof lease->magic) != 0)
    return absl::DataLossError(path + ": not a lease");
  return lease;
}

absl::Status SwitchWatching(const std::string& directory, bool on) {
  const auto lease = OpenLease(directory);
  if (!lease.ok()) return lease.status();
  (*lease)->switched_off.store(on ? 0 : 1, std::memory_order_release);  // acquired by each process's watchdog
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer
