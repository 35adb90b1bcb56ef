#include "watchdog/rundir/leave.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>

#include "watchdog/log/log.h"
#include "watchdog/rundir/own_names.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::rundir {
namespace {

constexpr std::size_t kPath = 4096;
constexpr std::uint32_t kMostRanks = 4096;   // of one node
constexpr std::uint32_t kEntriesLooked = 8;  // of a communicator table: the world comes first
constexpr int kSweeps = 4;                   // a watchdog that starts late may add a file while this removes them

// All memory that is needed then: a handler's stack may be small, and nothing may be allocated.
struct Leaving {
  char top[kPath];
  char aside[kPath];   // beside `top`: what is being removed is nobody's to enter
  char latest[kPath];  // the link beside `top`
  char directory[kPath];
  char box[256];
  const format::Header* own = nullptr;
  long pid = 0;  // a fork child has this memory too, and not the box
  std::atomic<bool> begun{false};

  alignas(format::Header) unsigned char header[sizeof(format::Header)];
  alignas(format::Communicator) unsigned char communicator[sizeof(format::Communicator)];
  std::uint64_t ranks[kMostRanks / 64];
  std::uint32_t ranks_seen;
  bool own_seen;
  bool whole_world;
  alignas(8) char entries[2][4096];  // of one directory and of one in it
};
std::atomic<Leaving*> leaving{nullptr};

struct Entry {  // as getdents64 gives it
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};

bool Begins(const char* name, const char* with) { return std::strncmp(name, with, std::strlen(with)) == 0; }
bool Ends(const char* name, const char* with) {
  const std::size_t length = std::strlen(name), end = std::strlen(with);
  return length >= end && std::strcmp(name + length - end, with) == 0;
}

// Calls `use` with each name in the directory until one says no. False then, and where it cannot be read.
template <class Use>
bool ForEach(int directory, char (&buffer)[4096], Use use) {
  if (lseek(directory, 0, SEEK_SET) != 0) return false;
  for (;;) {
    const long bytes = syscall(SYS_getdents64, directory, buffer, sizeof buffer);
    if (bytes <= 0) return bytes == 0;
    for (long at = 0; at < bytes;) {
      const char* raw = buffer + at;
      unsigned short length = 0;
      std::memcpy(&length, raw + offsetof(Entry, bytes), sizeof length);
      const char* name = raw + offsetof(Entry, name);
      at += length;
      if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
      if (!use(name)) return false;
    }
  }
}

template <class Read>  // (memory, bytes, offset): of the box's file
bool BoxEndedWell(Leaving& now, const format::Header& header, Read read) {
  using format::ProcessState;
  if (header.state.load(std::memory_order_acquire) != static_cast<std::uint32_t>(ProcessState::kExiting)) return false;
  const format::LastWords& words = header.last_words;
  if (words.exit_status != 0 || words.signal != 0) return false;
  std::uint64_t counted = 0;
  const auto any = [&](std::size_t field) {
    return header.words.bytes >= format::kWordsBytes &&
           (!read(&counted, sizeof counted, header.words.offset + field) || counted != 0);
  };
  if (any(offsetof(format::Words, signals_seen)) || any(offsetof(format::Words, misuses_seen))) return false;
  const format::Identity& identity = header.identity;
  const std::int32_t place = identity.local_rank >= 0 ? identity.local_rank : identity.rank;
  if (place >= 0 && static_cast<std::uint32_t>(place) < kMostRanks) {
    std::uint64_t& word = now.ranks[place / 64];
    const std::uint64_t bit = std::uint64_t{1} << (place % 64);
    now.ranks_seen += (word & bit) == 0;
    word |= bit;
  }
  const format::Section& table = header.communicators;
  if (table.entry_bytes != sizeof now.communicator) return true;
  for (std::uint32_t i = 0; i < table.count && i < kEntriesLooked && !now.whole_world; ++i) {
    if (!read(now.communicator, sizeof now.communicator, table.offset + i * sizeof now.communicator)) return false;
    now.whole_world = format::IsWholeWorld(*reinterpret_cast<const format::Communicator*>(now.communicator),
                                           now.own->identity.world_size);
  }
  return true;
}

// Not for this process's own: closing it would drop the lock.
bool OtherEndedWell(Leaving& now, int directory, const char* name) {
  const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const auto read = [fd](void* memory, std::size_t bytes, std::uint64_t offset) {
    return pread(fd, memory, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
  const auto& header = *reinterpret_cast<const format::Header*>(now.header);
  const bool well = read(now.header, sizeof now.header, 0) &&
                    std::memcmp(header.magic, format::kMagic, sizeof header.magic) == 0 &&
                    header.version <= format::kVersion && BoxEndedWell(now, header, read);
  close(fd);
  return well;
}

bool OwnEndedWell(Leaving& now) {
  const char* base = reinterpret_cast<const char*>(now.own);
  const auto copy = [base](void* memory, std::size_t bytes, std::uint64_t offset) {
    std::memcpy(memory, base + offset, bytes);
    return true;
  };
  now.own_seen = true;
  return BoxEndedWell(now, *now.own, copy);
}

bool DirectoryEndedWell(Leaving& now, int directory, bool is_own, int depth);

bool AttemptEndedWell(Leaving& now, int top, const char* name) {
  const int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat here {};
  struct stat own {};
  const bool is_own =
      fstat(fd, &here) == 0 && stat(now.directory, &own) == 0 && here.st_dev == own.st_dev && here.st_ino == own.st_ino;
  const bool well = DirectoryEndedWell(now, fd, is_own, 1);
  close(fd);
  return well;
}

bool DirectoryEndedWell(Leaving& now, int directory, bool is_own, int depth) {
  return ForEach(directory, now.entries[depth], [&](const char* name) {
    if (Ends(name, format::kBoxSuffix))
      return is_own && std::strcmp(name, now.box) == 0 ? OwnEndedWell(now) : OtherEndedWell(now, directory, name);
    if (depth == 0 && Begins(name, "attempt-")) return AttemptEndedWell(now, directory, name);
    return IsRoutineFile(name);
  });
}

bool AllHaveBeenThere(const Leaving& now) {
  const format::Identity& own = now.own->identity;
  if (now.whole_world || own.world_size <= 1) return true;
  const std::int32_t expected = own.local_world_size > 0 ? own.local_world_size : own.world_size;
  return now.ranks_seen >= static_cast<std::uint32_t>(expected);
}

bool JobEndedWell(Leaving& now, int top) {
  std::memset(now.ranks, 0, sizeof now.ranks);
  now.ranks_seen = 0;
  now.own_seen = now.whole_world = false;
  return DirectoryEndedWell(now, top, std::strcmp(now.top, now.directory) == 0, 0) && now.own_seen &&
         AllHaveBeenThere(now);
}

void Empty(Leaving& now, int directory, int depth) {
  ForEach(directory, now.entries[depth], [&](const char* name) {
    if (depth > 0 || !Begins(name, "attempt-")) {
      unlinkat(directory, name, 0);
      return true;
    }
    const int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return true;
    Empty(now, fd, 1);
    close(fd);
    unlinkat(directory, name, AT_REMOVEDIR);
    return true;
  });
}

void RemoveLatest(const Leaving& now) {
  char target[256] = {};
  const ssize_t bytes = readlink(now.latest, target, sizeof target - 1);
  const char* name = std::strrchr(now.top, '/') + 1;
  if (bytes > 0 && std::strcmp(target, name) == 0) unlink(now.latest);
}

void Remove(Leaving& now, int top) {
  // From here on nobody finds it, and who comes makes a new one.
  if (rename(now.top, now.aside) != 0) return;
  RemoveLatest(now);
  for (int i = 0; i < kSweeps; ++i) {
    Empty(now, top, 0);
    if (rmdir(now.aside) == 0) return;
  }
}

bool IsStillThere(const Leaving& now, int fd) {
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(now.top, &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino && opened.st_uid == geteuid();
}

}  // namespace

void PrepareToLeave(const std::string& top, const std::string& directory, const std::string& box,
                    const format::Header* own) {
  const std::string parent = top.substr(0, top.rfind('/') + 1);
  const std::string aside = parent + ".gone." + OwnPid(), latest = parent + "latest";
  if (aside.size() >= kPath || top.size() >= kPath || directory.size() >= kPath || box.size() >= sizeof Leaving::box)
    return;
  Leaving* now = new (std::nothrow) Leaving{};  // never freed
  if (!now) return;
  std::memcpy(now->top, top.c_str(), top.size() + 1);
  std::memcpy(now->aside, aside.c_str(), aside.size() + 1);
  std::memcpy(now->latest, latest.c_str(), latest.size() + 1);
  std::memcpy(now->directory, directory.c_str(), directory.size() + 1);
  std::memcpy(now->box, box.c_str(), box.size() + 1);
  now->own = own;
  now->pid = syscall(SYS_getpid);
  leaving.store(now, std::memory_order_release);
}

void LeaveIfLast() {
  Leaving* now = leaving.load(std::memory_order_acquire);
  if (!now || now->pid != syscall(SYS_getpid) || now->begun.exchange(true)) return;
  // Pairs with the same fence of the others: of two that end at once, one at least sees the other's end.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const int top = open(now->top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (top < 0) return;
  // Looked at twice: a look under the lock alone would keep it from the one that is the last.
  if (JobEndedWell(*now, top) && flock(top, LOCK_EX | LOCK_NB) == 0 && IsStillThere(*now, top) &&
      JobEndedWell(*now, top))
    Remove(*now, top);
  close(top);
}

}  // namespace ncclwatch::rundir
