#include "shim/profiler/offer.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "shim/base/keep_errno.h"
#include "shim/profiler/plugin.h"
#include "shim/resolve/libraries.h"
#include "shim/resolve/preload.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::shim::profiler {
namespace {

constexpr char kDefaultPlugin[] = "libnccl-profiler.so";
constexpr char kOffered[] = "ncclwatch-profiler.so";

// In the folders where the loader searches for what this library opens.
bool LiesInSearchPath(void* nccl) {
  Dl_serinfo size;
  if (dlinfo(nccl, RTLD_DI_SERINFOSIZE, &size) != 0) return false;
  const auto memory = std::make_unique<std::byte[]>(size.dls_size);
  auto* const path = reinterpret_cast<Dl_serinfo*>(memory.get());
  if (dlinfo(nccl, RTLD_DI_SERINFOSIZE, path) != 0 || dlinfo(nccl, RTLD_DI_SERINFO, path) != 0) return false;
  for (unsigned i = 0; i < path->dls_cnt; ++i)
    if (access((std::string(path->dls_serpath[i].dls_name) + "/" + kDefaultPlugin).c_str(), F_OK) == 0) return true;
  return false;
}

bool LiesInLoaderCache() {
  constexpr std::size_t kMost = 64 << 20;
  const std::string_view with_end(kDefaultPlugin, sizeof kDefaultPlugin);
  const auto cache = rundir::ReadSmall("/etc/ld.so.cache", kMost);
  return cache && cache->find(with_end) != std::string::npos;
}

// The file is not opened to find out: that would run its constructors.
bool UserHasPlugin(std::uint32_t library) {
  const char* const named = std::getenv("NCCL_PROFILER_PLUGIN");
  if (named && *named) return true;
  if (void* const loaded = dlopen(kDefaultPlugin, RTLD_LAZY | RTLD_NOLOAD)) {
    dlclose(loaded);
    return true;
  }
  // Without a handle nobody knows where NCCL would search.
  void* const nccl = resolve::libraries[library].handle;
  return !nccl || LiesInSearchPath(nccl) || LiesInLoaderCache();
}

void OpenOurs() {
  const std::string_view front(resolve::front->path);
  const std::string path = std::string(front.substr(0, front.rfind('/') + 1)) + kOffered;
  if (void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
    FillIn(opened);
  else
    log::host::Warn("NCCL's kernels are not timed: {} cannot be opened", path);
}

}  // namespace

void Offer(const Box& box, std::uint32_t library) {
  // Threads that come at once do the same twice: none waits for another, which a fork child may lack.
  static constinit std::atomic<bool> done{false};
  if (box.times_every == 0 || done.load(std::memory_order_acquire)) return;
  const KeepErrno keep;
  try {
    if (!UserHasPlugin(library)) OpenOurs();
  } catch (...) {
    log::host::Warn("NCCL's kernels are not timed: out of memory");
  }
  done.store(true, std::memory_order_release);
}

}  // namespace ncclwatch::shim::profiler
