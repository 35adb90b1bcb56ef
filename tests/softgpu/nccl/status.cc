#include "status.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace softgpu {
namespace {

// One text for the process, like NCCL's; guarded by Guard().
char last_error[1024];

// Leaked, so that a call from a static destructor still finds it.
std::mutex& Guard() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

bool WarningsWanted() {
  static const bool wanted = [] {
    const char* level = getenv("NCCL_DEBUG");
    if (!level) return false;
    for (const char* name : {"WARN", "INFO", "ABORT", "TRACE"}) {
      if (strcasecmp(level, name) == 0) return true;
    }
    return false;
  }();
  return wanted;
}

}  // namespace

void Warn(const char* format, ...) {
  const std::lock_guard lock(Guard());
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_error, sizeof last_error, format, arguments);
  va_end(arguments);
  if (!WarningsWanted()) return;
  char host[64] = "localhost";
  gethostname(host, sizeof host - 1);
  std::fprintf(stderr, "%s:%d:%ld NCCL WARN %s\n", host, getpid(), syscall(SYS_gettid), last_error);
}

const char* LastError() {
  // NCCL gives out the text itself, which another thread may be writing; the caller of this one can read in peace.
  thread_local char copy[sizeof last_error];
  const std::lock_guard lock(Guard());
  std::memcpy(copy, last_error, sizeof copy);
  return copy;
}

}  // namespace softgpu
