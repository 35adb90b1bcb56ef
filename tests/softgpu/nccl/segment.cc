#include "segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "futex.h"

namespace softgpu {
namespace {

constexpr char kPrefix[] = "softgpu-nccl-";

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Start time of a process in clock ticks since boot; 0 if it is gone or a zombie.
uint64_t StartTime(int pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* rest = std::strrchr(text, ')');  // the name may itself contain blanks and parentheses
  if (!rest) return 0;
  char state = 0;
  unsigned long long ticks = 0;
  std::sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
              &ticks);
  return state == 'Z' || state == 'X' ? 0 : ticks;
}

uint64_t OwnPidNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

bool IsGone(const RankSlot& slot) {
  static const uint64_t own = OwnPidNamespace();
  return slot.present.load() && slot.pid_namespace.load() == own &&
         StartTime(slot.pid.load()) != slot.start_time.load();
}

std::string Directory() {
  if (const char* dir = getenv("SOFTGPU_NCCL_DIR"); dir && *dir) return dir;
  if (access("/dev/shm", W_OK | X_OK) == 0) return "/dev/shm";
  const char* dir = getenv("TMPDIR");
  return dir && *dir ? dir : "/tmp";
}

size_t SlotsOffset() { return 4096; }
size_t StagesOffset(int nranks) { return (SlotsOffset() + nranks * sizeof(RankSlot) + 4095) & ~size_t{4095}; }
size_t MailboxesOffset(int nranks) { return StagesOffset(nranks) + size_t(nranks) * 2 * kStageBytes; }
size_t SegmentSize(int nranks) { return MailboxesOffset(nranks) + size_t(nranks) * nranks * sizeof(Mailbox); }

bool AllGone(const SegmentHeader& header, const RankSlot* slots, size_t file_size) {
  const uint32_t nranks = header.nranks.load();
  if (file_size < SlotsOffset() + nranks * sizeof(RankSlot)) return false;
  for (uint32_t r = 0; r < nranks; ++r) {
    if (slots[r].present.load() && !IsGone(slots[r])) return false;
  }
  return true;
}

void SweepOne(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  struct stat status {};
  // Whoever makes or joins a segment holds this lock until its process is written into it. So one without processes is
  // an orphan; a rank that opened it but has not yet locked it will see that it is unlinked, and start again.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0) {
    bool stale = static_cast<size_t>(status.st_size) < SlotsOffset();
    if (!stale) {
      void* base = mmap(nullptr, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
      if (base != MAP_FAILED) {
        const char* bytes = static_cast<const char*>(base);
        const auto* header = reinterpret_cast<const SegmentHeader*>(bytes);
        stale = AllGone(*header, reinterpret_cast<const RankSlot*>(bytes + SlotsOffset()), status.st_size);
        munmap(base, status.st_size);
      }
    }
    if (stale) unlink(path.c_str());
  }
  close(fd);
}

void Sweep(const std::string& directory, const std::string& prefix) {
  DIR* dir = opendir(directory.c_str());
  if (!dir) return;
  while (const dirent* entry = readdir(dir)) {
    if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) == 0) SweepOne(directory + "/" + entry->d_name);
  }
  closedir(dir);
}

// Opens the file and locks it; it is then not about to be unlinked by somebody else.
int OpenLocked(const std::string& path, struct stat* status) {
  for (;;) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return -1;
    int locked;
    while ((locked = flock(fd, LOCK_EX)) != 0 && errno == EINTR) {
    }
    if (locked == 0 && fstat(fd, status) == 0 && status->st_nlink > 0) return fd;
    const int error = locked == 0 ? 0 : errno;
    close(fd);
    if (error) {
      errno = error;
      return -1;
    }
  }
}

}  // namespace

Identity HashIdentity(const void* bytes, size_t size) {
  Identity identity{0xcbf29ce484222325ULL, 0x9e3779b97f4a7c15ULL};
  const auto* p = static_cast<const uint8_t*>(bytes);
  for (size_t i = 0; i < size; ++i) {
    identity.high = (identity.high ^ p[i]) * 0x100000001b3ULL;
    identity.low = Mix(identity.low + p[i] + 0x9e3779b97f4a7c15ULL);
  }
  return identity;
}

Identity DeriveIdentity(const Identity& parent, uint64_t kind, uint64_t ordinal, uint64_t color) {
  const uint64_t parts[] = {parent.high, parent.low, kind, ordinal, color};
  return HashIdentity(parts, sizeof parts);
}

bool Segment::Map(int fd, size_t size) {
  base_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    return false;
  }
  // A forked child shares nothing of the communicator: it cannot disturb its parent's ranks.
  madvise(base_, size, MADV_DONTFORK);
  size_ = size;
  auto* bytes = static_cast<uint8_t*>(base_);
  header_ = reinterpret_cast<SegmentHeader*>(bytes);
  slots_ = reinterpret_cast<RankSlot*>(bytes + SlotsOffset());
  stages_ = bytes + StagesOffset(nranks_);
  mailboxes_ = reinterpret_cast<Mailbox*>(bytes + MailboxesOffset(nranks_));
  return true;
}

void Segment::Enter(const std::string& path) {
  if (header_->nranks.load() != static_cast<uint32_t>(nranks_) || slots_[rank_].present.load()) {
    header_->spoiled.store(1);
    return;
  }
  slots_[rank_].pid.store(getpid());
  slots_[rank_].start_time.store(StartTime(getpid()));
  slots_[rank_].pid_namespace.store(OwnPidNamespace());
  slots_[rank_].present.store(1);
  const uint32_t joined = header_->joined.fetch_add(1) + 1;
  if (joined < static_cast<uint32_t>(nranks_) || header_->spoiled.load()) return;
  unlink(path.c_str());  // before anybody can go on: the same identity may be used again at once (NCCL_COMM_ID)
  header_->complete.store(1, std::memory_order_release);
  FutexWakeAll(&header_->complete);
}

Segment* Segment::Join(const Identity& identity, int nranks, int rank) {
  char name[96];
  std::snprintf(name, sizeof name, "%s%u-", kPrefix, geteuid());
  const std::string directory = Directory();
  static std::once_flag swept;
  std::call_once(swept, [&] { Sweep(directory, name); });
  std::snprintf(name, sizeof name, "%s%u-%016llx%016llx", kPrefix, geteuid(),
                static_cast<unsigned long long>(identity.high), static_cast<unsigned long long>(identity.low));
  const std::string path = directory + "/" + name;

  struct stat status {};
  const int fd = OpenLocked(path, &status);
  if (fd < 0) return nullptr;
  auto* segment = new Segment;
  segment->nranks_ = nranks;
  segment->rank_ = rank;
  const bool first = status.st_size == 0;
  // A rank with another nranks maps the file as it is: beyond the header it will touch nothing.
  const size_t size = first ? SegmentSize(nranks) : static_cast<size_t>(status.st_size);
  const bool mapped = (!first || ftruncate(fd, static_cast<off_t>(size)) == 0) && segment->Map(fd, size);
  if (mapped) {
    if (first) segment->header_->nranks.store(nranks);
    segment->Enter(path);
  } else if (first) {
    unlink(path.c_str());
  }
  const int error = errno;
  flock(fd, LOCK_UN);  // the mapping keeps the open file, and with it the lock, beyond close()
  close(fd);
  if (mapped) return segment;
  delete segment;
  errno = error;
  return nullptr;
}

Segment::~Segment() {
  if (base_) munmap(base_, size_);
}

bool Segment::WaitComplete(const std::function<bool()>& cancelled) {
  while (!header_->complete.load(std::memory_order_acquire)) {
    if (cancelled()) return false;
    FutexWait(&header_->complete, 0);
  }
  return true;
}

bool Segment::Exchange(uint64_t ordinal, const void* mine, void* all, size_t size,
                       const std::function<bool()>& cancelled) {
  // Two buffers suffice: nobody can be two exchanges ahead of a rank that is still reading.
  const uint64_t buffer = ordinal & 1;
  std::memcpy(slots_[rank_].exchange[buffer], mine, size);
  slots_[rank_].exchanges.store(ordinal + 1, std::memory_order_release);  // read by the acquire below
  header_->exchange_bell.fetch_add(1);
  FutexWakeAll(&header_->exchange_bell);
  for (int r = 0; r < nranks_; ++r) {
    for (;;) {
      const uint32_t bell = header_->exchange_bell.load();
      if (slots_[r].exchanges.load(std::memory_order_acquire) > ordinal) break;
      if (cancelled()) return false;
      FutexWait(&header_->exchange_bell, bell);
    }
    std::memcpy(static_cast<uint8_t*>(all) + r * size, slots_[r].exchange[buffer], size);
  }
  return true;
}

bool Segment::PeerIsGone() const {
  for (int r = 0; r < nranks_; ++r) {
    if (IsGone(slots_[r])) return true;
  }
  return false;
}

void Segment::WakeAll() {
  FutexWakeAll(&header_->complete);
  FutexWakeAll(&header_->exchange_bell);
  FutexWakeAll(&header_->generation);
  if (rank_ < static_cast<int>(header_->nranks.load())) FutexWakeAll(&slots_[rank_].doorbell);
}

void Segment::Ring(int rank) {
  slots_[rank].doorbell.fetch_add(1);  // sequentially consistent with the waiters' count below, which the waiter raises
  if (slots_[rank].doorbell_waiters.load()) FutexWakeAll(&slots_[rank].doorbell);  // before it sleeps on the doorbell
}

}  // namespace softgpu
