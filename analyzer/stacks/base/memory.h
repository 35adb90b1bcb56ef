// The memory of another process, read without stopping it. Not thread-safe: one object a reading thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "watchdog/cpython/reader.h"

namespace ncclwatch::stacks {

inline constexpr std::uint64_t kPageBytes = 4096;  // of the cache; the kernel's own may be larger

using cpython::Reader;

// process_vm_readv by whole pages; a page is read once until Forget(). What the process changes meanwhile is not seen
// until then, and pages read at different moments need not fit together.
class Memory : public Reader {
 public:
  explicit Memory(int pid);
  ~Memory() override;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int pid() const { return pid_; }
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override;
  // Past the cache, one system call; the bytes got, from the first on.
  std::size_t ReadNow(std::uint64_t address, void* to, std::size_t bytes) const;
  // Brings the pages of a range into the cache with one system call; what cannot be read stays out.
  void Prefetch(std::uint64_t address, std::size_t bytes);
  // Drops the cache: what is read from now on is newer than this call.
  void Forget() override;
  // errno of the last system call that read nothing, 0 if none: EPERM (not allowed), ESRCH (gone).
  int error() const { return error_; }

 private:
  using Page = std::array<std::byte, kPageBytes>;
  const Page* PageAt(std::uint64_t address);
  ssize_t ReadFile(std::uint64_t address, void* to, std::size_t bytes) const;

  static constexpr int kNotOpened = -2;
  int pid_;
  mutable int error_ = 0;
  mutable int file_ = kNotOpened;  // /proc/PID/mem, where process_vm_readv is forbidden
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;  // null: could not be read
  std::uint64_t last_address_ = UINT64_MAX;
  const Page* last_ = nullptr;
};

// A stretch copied at one moment (the stack of a stopped or sleeping thread) in front of another reader.
class CopiedStretch : public Reader {
 public:
  CopiedStretch(std::uint64_t begin, std::span<const std::byte> bytes, Reader* behind)
      : begin_(begin), bytes_(bytes), behind_(behind) {}
  bool Read(std::uint64_t address, void* to, std::size_t bytes) override;

 private:
  std::uint64_t begin_;
  std::span<const std::byte> bytes_;
  Reader* behind_;
};

}  // namespace ncclwatch::stacks
