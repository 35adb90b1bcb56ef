// What our dlsym answers for names that begin with "nccl". Everything else never gets here: the stub beside this file
// jumps on to the C library's dlsym, so that it sees the caller's return address, which RTLD_NEXT and RTLD_DEFAULT are
// judged by.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "shim/base/keep_errno.h"
#include "shim/hooks/answer.h"
#include "shim/hooks/entries.h"
#include "shim/profiler/plugin.h"
#include "shim/resolve/libraries.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::shim::resolve {
namespace {

bool IsOurHandle(void* handle) {
  link_map* map = nullptr;
  if (handle == RTLD_DEFAULT || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map) return false;
  return IsOurs(map->l_ld);
}

// The beginning of a file, in pages of its own: whoever asks dlsym may be an allocator, and is not to see an exception.
class Text {
 public:
  explicit Text(const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    memory_ = mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (memory_ != MAP_FAILED && size_ < kMost) {
      const ssize_t n = read(fd, static_cast<char*>(memory_) + size_, kMost - size_);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      size_ += static_cast<std::size_t>(n);
    }
    close(fd);
  }
  ~Text() {
    if (memory_ != MAP_FAILED) munmap(memory_, kMost);
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  std::string_view text() const { return {static_cast<const char*>(memory_), size_}; }

 private:
  static constexpr std::size_t kMost = 4 << 20;
  void* memory_ = MAP_FAILED;
  std::size_t size_ = 0;
};

// Whether a file of the process's start names us among the libraries to preload.
bool NamesUs(const char* path, std::string_view variable) {
  const Text file(path);
  const std::string_view text = file.text();
  const std::string_view own(front->path);
  const std::string_view name = own.substr(own.rfind('/') + 1);
  const std::string_view list = variable.empty() ? text : rundir::Find(text, variable).value_or("");
  return !name.empty() && list.find(name) != std::string_view::npos;
}

// As opposed to linked or opened in the place of a libnccl, where everybody shall find in us what we find behind us.
bool Preloaded() {
  // Not a guarded static: a thread that comes back here while it asks, or a fork child without the thread that asked,
  // would wait for ever. All who ask find the same.
  static constinit std::atomic<int> known{-1};
  int preloaded = known.load(std::memory_order_relaxed);
  if (preloaded >= 0) return preloaded != 0;
  const KeepErrno keep;
  preloaded = NamesUs("/proc/self/environ", "LD_PRELOAD") || NamesUs("/etc/ld.so.preload", "");
  known.store(preloaded, std::memory_order_relaxed);
  return preloaded != 0;
}

void* Wrapped(void* real, const char* name) {
  const functions::FunctionInfo* info = FindEntry(name);
  if (!info) return real;
  const std::uint32_t library = LibraryOf(real);
  if (library >= kLibraries) return real;
  // Library 0 may have another tool's wrapper in front of it, which the handle does not show.
  if (library != 0)
    libraries[library].functions[static_cast<std::uint32_t>(info->function)].store(real, std::memory_order_relaxed);
  return Entry(library, info->function);
}

}  // namespace

void* Answer(void* handle, const char* name) {
  void* real = Dlsym(handle, name);
  if (std::string_view(name).starts_with(profiler::kSymbol)) return profiler::Answer(handle, name, real);
  // Found in ourselves: the global scope, where we stand in front, or we are the drop-in. What counts is whether the
  // library behind us has it.
  if (real ? IsOurs(real) : IsOurHandle(handle)) {
    // Programs ask the global scope whether NCCL is there: without us they would not see one that came by
    // dlopen(RTLD_LOCAL), let alone one that nobody has opened.
    if (real && !IsOurHandle(handle) && !Next(name) && Preloaded()) return Next(name);
    if (!FindDefault(true) || !libraries[0].handle) return Next(name);
    real = Dlsym(libraries[0].handle, name);
  } else if (!real) {
    return Dlsym(handle, name);  // once more: looking at the handle has taken away what dlerror() would say
  }
  return real && !IsOurs(real) ? Wrapped(real, name) : nullptr;
}

}  // namespace ncclwatch::shim::resolve
