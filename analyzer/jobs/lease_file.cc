#include "analyzer/jobs/lease_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::analyzer {

LeaseFile::LeaseFile(const std::string& place) {
  const descriptors::Directory directory = descriptors::Directory::Named(place);
  const std::string path = place + "/lease";
  const int fd = directory.Open("lease", O_RDWR | O_NONBLOCK);
  if (fd < 0) {
    reason_ = path + ": " + std::strerror(errno);
    return;
  }
  struct stat status {};
  void* mapped = MAP_FAILED;
  // Of the directory's owner: a second name of somebody else's file is none.
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == directory.owner() &&
      status.st_size >= static_cast<off_t>(sizeof(format::Lease)))
    mapped = mmap(nullptr, sizeof(format::Lease), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) lease_ = static_cast<format::Lease*>(mapped);
  if (!lease_ || std::memcmp(lease_->magic, format::kLeaseMagic, sizeof lease_->magic) != 0)
    reason_ = path + ": not a lease";
}

LeaseFile::~LeaseFile() {
  if (lease_) munmap(lease_, sizeof(format::Lease));
}

std::string SwitchWatching(const std::string& directory, bool on) {
  const LeaseFile lease(directory);
  if (lease.reason().empty())
    lease->switched_off.store(on ? 0 : 1, std::memory_order_release);  // acquired by each process's watchdog
  return lease.reason();
}

}  // namespace ncclwatch::analyzer
