// Functions that glibc has only since a version after 2.28, for the code that we bring along (libstdc++'s, hiredis')
// and for our own: with these the library loads on any glibc since 2.28. tests/built_file reads the built file.
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#define NCCLWATCH_FLOOR extern "C" __attribute__((visibility("hidden")))

// 2.36. libstdc++'s string library brings std::random_device; nothing here draws random numbers by it.
NCCLWATCH_FLOOR std::uint32_t arc4random() {
  std::uint32_t value = 0;
  if (getrandom(&value, sizeof value, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof value)) return 0;
  return value;
}

// 2.33. The struct is the kernel's on x86-64 and aarch64; its header would declare these functions otherwise.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // struct stat has the name of the function
NCCLWATCH_FLOOR int stat(const char* path, void* to) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, to, 0));
}
NCCLWATCH_FLOOR int lstat(const char* path, void* to) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW));
}
NCCLWATCH_FLOOR int fstat(int fd, void* to) { return static_cast<int>(syscall(SYS_fstat, fd, to)); }
NCCLWATCH_FLOOR int fstatat(int fd, const char* path, void* to, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, fd, path, to, flags));
}
NCCLWATCH_FLOOR int fstat64(int fd, void* to) { return static_cast<int>(syscall(SYS_fstat, fd, to)); }
NCCLWATCH_FLOOR int stat64(const char* path, void* to) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, to, 0));
}
#pragma GCC diagnostic pop

// 2.32. glibc keeps two signals for itself, which nobody may block.
NCCLWATCH_FLOOR int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) {
  constexpr std::uint64_t kKept = std::uint64_t{3} << 31;  // signals 32 and 33
  constexpr std::size_t kKernelBytes = 8;
  std::uint64_t mask = set ? *reinterpret_cast<const std::uint64_t*>(set) & ~kKept : 0;
  const int kept = errno;
  if (before) sigemptyset(before);
  const long failed = syscall(SYS_rt_sigprocmask, how, set ? &mask : nullptr, before, kKernelBytes);
  const int error = failed == 0 ? 0 : errno;
  errno = kept;
  return error;
}
// libstdc++ asks it whether it may count references without atomics: here there are always several threads.
extern "C" {
extern __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;
}

// 2.30
NCCLWATCH_FLOOR pid_t gettid() { return static_cast<pid_t>(syscall(SYS_gettid)); }
