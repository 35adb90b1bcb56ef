#include "shim/base/self_memory.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ncclwatch::shim {
namespace {

constexpr std::size_t kSetBytes = 8;  // the kernel's sigset_t

// Byte by byte, past every check of the compiler's: what is read belongs to others.
__attribute__((no_sanitize("address", "thread", "undefined"), noinline)) void CopyRaw(std::uint64_t address, void* to,
                                                                                      std::size_t bytes) {
  const auto* from = reinterpret_cast<const volatile unsigned char*>(address);
  auto* target = static_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < bytes; ++i) target[i] = from[i];
}

// Where process_vm_readv is forbidden (older containers). The first and the last eight bytes of each page's part.
bool ProbeAndCopy(std::uint64_t address, void* to, std::size_t bytes) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end; at = (at / kSmallestPage + 1) * kSmallestPage)
    if (!CanBeRead(std::min(at, (at / kSmallestPage + 1) * kSmallestPage - kSetBytes))) return false;
  CopyRaw(address, to, bytes);
  return true;
}

}  // namespace

// The kernel copies the set before it looks at what is to be done with it: a page that cannot be read is EFAULT, any
// other EINVAL, and no mask changes either way.
bool CanBeRead(std::uint64_t address) {
  constexpr int kNoSuchChange = ~0;
  return syscall(SYS_rt_sigprocmask, kNoSuchChange, address, nullptr, kSetBytes) != 0 && errno == EINVAL;
}

bool ReadSelf(std::uint64_t address, void* to, std::size_t bytes) {
  if (address < kSmallestPage || address > UINT64_MAX - bytes - kSmallestPage) return false;
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(address), bytes};
  const long copied = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &local, 1, &remote, 1, 0);
  if (copied == static_cast<long>(bytes)) return true;
  if (copied >= 0 || errno == EFAULT) return false;
  return ProbeAndCopy(address, to, bytes);
}

void ReadSelfText(std::uint64_t address, char* to, std::size_t size) {
  constexpr std::uint64_t kPiece = 64;  // never over the end of a page in one read
  std::size_t used = 0;
  while (used + 1 < size) {
    const std::uint64_t left = kPiece - (address + used) % kPiece;
    const std::size_t piece = std::min<std::size_t>(left, size - 1 - used);
    if (!ReadSelf(address + used, to + used, piece)) break;
    const void* zero = std::memchr(to + used, 0, piece);
    if (zero) return;
    used += piece;
  }
  to[used] = 0;
}

}  // namespace ncclwatch::shim
