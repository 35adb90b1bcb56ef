#include "watchdog/watch/base/lease.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "watchdog/descriptors/limited_write.h"

namespace ncclwatch::watch {
namespace {

constexpr char kFile[] = "lease";
constexpr std::uint32_t kLeaseVersion = 1;
constexpr std::size_t kFileBytes = 4096;  // a whole page, allocated: a store into it can never find the disk full

// Appears under its name whole or not at all, like the run directory's job file.
bool Create(const descriptors::Directory& directory) {
  const std::string draft = std::string(kFile) + "." + rundir::OwnPid();
  directory.Unlink(draft);
  const int fd = directory.Open(draft, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return false;
  format::Lease lease = {};
  std::memcpy(lease.magic, format::kLeaseMagic, sizeof(lease.magic));
  lease.version = kLeaseVersion;
  int error = descriptors::Allocate(fd, kFileBytes);
  if (error == 0 && pwrite(fd, &lease, sizeof(lease), 0) != static_cast<ssize_t>(sizeof(lease))) error = errno;
  close(fd);
  if (error == 0 && !directory.Link(draft, kFile) && errno != EEXIST) error = errno;
  directory.Unlink(draft);
  errno = error;
  return error == 0;
}

std::uint32_t OwnPlace() { return format::PidPlace(rundir::BootId(), rundir::PidNamespace()); }

}  // namespace

std::unique_ptr<LeaseFile> LeaseFile::Open(const descriptors::Directory& directory, std::string* why) {
  *why = directory.reason();
  if (!directory) return nullptr;
  const std::string path = directory.PathOf(kFile);
  int fd = directory.Open(kFile, O_RDWR);
  if (fd < 0 && errno == ENOENT && Create(directory)) fd = directory.Open(kFile, O_RDWR);
  if (fd < 0) {
    *why = path + ": " + std::strerror(errno);
    return nullptr;
  }
  struct stat info = {};
  void* memory = MAP_FAILED;
  if (fstat(fd, &info) == 0 && info.st_size >= static_cast<off_t>(kFileBytes))
    memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) {
    *why = path + ": cannot be mapped";
    return nullptr;
  }
  madvise(memory, kFileBytes, MADV_DONTFORK);
  std::unique_ptr<LeaseFile> file(new LeaseFile);
  file->lease_ = static_cast<format::Lease*>(memory);
  file->guard_ = reader::guard::Enroll(memory, kFileBytes, PROT_READ | PROT_WRITE);
  if (std::memcmp(file->lease_->magic, format::kLeaseMagic, sizeof(format::kLeaseMagic)) != 0 ||
      file->lease_->version != kLeaseVersion) {
    *why = path + ": not a lease of this version";
    return nullptr;
  }
  file->place_ = OwnPlace();
  if (const std::optional<rundir::ProcessStat> own = rundir::StatOf(getpid())) file->start_time_ = own->start_time;
  return file;
}

LeaseFile::~LeaseFile() {
  reader::guard::Dismiss(guard_);
  if (lease_) munmap(lease_, kFileBytes);
}

bool LeaseFile::Open(std::int64_t now_ns) const {
  return HolderPid() == 0 || now_ns - lease_->heartbeat_ns.load(std::memory_order_acquire) > kLeaseLength_ns;
}

bool LeaseFile::Take(std::uint64_t holder, std::int64_t now_ns) {
  // The heartbeat comes first, or a third process would find a new holder with the old one's silence.
  Beat(now_ns);
  const std::uint64_t next = ((holder >> 32) + 1) << 32 | static_cast<std::uint32_t>(getpid());
  if (!lease_->holder.compare_exchange_strong(holder, next, std::memory_order_acq_rel)) return false;
  mine_ = next;
  if (start_time_ == 0) return true;
  const std::uint64_t generation = next >> 32;
  lease_->holder_place.store(generation << 32 | place_, std::memory_order_release);
  lease_->holder_start.store(generation << 48 | (start_time_ & HolderProcess::kStartBits), std::memory_order_release);
  return true;
}

// The words may be of an earlier holder, or of a later one: each is believed with the generation of the holder only.
std::optional<HolderProcess> LeaseFile::NearHolder() const {
  const std::uint64_t holder = Holder();
  const std::uint64_t place = lease_->holder_place.load(std::memory_order_acquire);
  const std::uint64_t start = lease_->holder_start.load(std::memory_order_acquire);
  const std::uint64_t generation = holder >> 32;
  const auto pid = static_cast<std::int32_t>(holder & 0xffffffffu);
  if (pid <= 0 || place >> 32 != generation || start >> 48 != (generation & 0xffff)) return std::nullopt;
  if (static_cast<std::uint32_t>(place) != place_) return std::nullopt;
  return HolderProcess{holder, pid, start & HolderProcess::kStartBits};
}

void LeaseFile::Release() {
  std::uint64_t expected = mine_;
  if (mine_ != 0) lease_->holder.compare_exchange_strong(expected, mine_ & ~std::uint64_t{0xffffffffu});
  mine_ = 0;
}

}  // namespace ncclwatch::watch
