#include "shim/resolve/callers.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string_view>

#include "shim/base/keep_errno.h"
#include "shim/resolve/libraries.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim::resolve {

namespace {

// A module that calls NCCL, and what it reaches.
struct Scope {
  std::atomic<std::uint64_t> unloads{0};  // how many modules had gone by then: its place may be another one's since
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uint32_t> library{0};
  std::atomic<void*> handle{nullptr};  // with library kLibraries: of the copy that found no room among ours
  std::atomic<bool> whole{false};      // released last
};
// More callers than these are asked about at every call.
constexpr std::uint32_t kScopes = 64;
constinit Scope scopes[kScopes];
constinit std::atomic<std::uint32_t> scopes_used{0};

constinit std::atomic<std::uint64_t> loads_seen{0};
constinit std::atomic<std::uint64_t> unloads_seen{0};

// "libnccl.so.2", and "libnccl-1a2b3c.so.2" as wheels name their own; not NCCL's plugins.
bool IsCopy(const char* path) {
  const char* slash = std::strrchr(path, '/');
  const std::string_view file = slash ? slash + 1 : path;
  if (!file.starts_with("libnccl.") && !file.starts_with("libnccl-")) return false;
  for (const std::string_view plugin : {"libnccl-net", "libnccl-tuner", "libnccl-profiler", "libnccl-env"})
    if (file.starts_with(plugin)) return false;
  return true;
}

struct Changes {
  std::uint64_t loads = 0;
  std::uint64_t unloads = 0;
};
int CountChanges(dl_phdr_info* info, std::size_t, void* data) {
  *static_cast<Changes*>(data) = {info->dlpi_adds, info->dlpi_subs};
  return 1;
}

struct Copies {
  int count = 0;
  bool renamed = false;
};
int CountCopy(dl_phdr_info* info, std::size_t, void* data) {
  auto* copies = static_cast<Copies*>(data);
  if (!info->dlpi_name || !IsCopy(info->dlpi_name)) return 0;
  ++copies->count;
  copies->renamed = copies->renamed || std::strstr(info->dlpi_name, "/libnccl-");
  return 0;
}

bool InGlobalScope() {
  const void* found = Next("ncclGetVersion");
  return found && !IsOurs(found);
}

struct Reached {
  std::uint32_t library = 0;
  void* handle = nullptr;
};

// What a symbol of NCCL in this module is bound to where we do not stand in front.
Reached ReachedBy(const Module& module) {
  if (!module.path[0] || InGlobalScope()) return {};
  void* const scope = dlopen(module.path, RTLD_NOLOAD | RTLD_LAZY);
  if (!scope) return {};
  void* const real = Dlsym(scope, "ncclGetVersion");
  Reached reached;
  Module copy;
  if (real && !IsOurs(real) && ModuleOf(real, &copy)) {
    reached.library = LibraryOf(real);
    if (reached.library >= kLibraries) reached.handle = dlopen(copy.path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
    if (reached.library >= kLibraries && !reached.handle) reached.library = 0;
  }
  dlclose(scope);
  return reached;
}

bool Find(std::uint64_t site, Reached* reached) {
  const std::uint64_t unloads = unloads_seen.load(std::memory_order_relaxed);
  const std::uint32_t used = scopes_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used && i < kScopes; ++i) {
    const Scope& scope = scopes[i];
    if (!scope.whole.load(std::memory_order_acquire) || scope.unloads.load(std::memory_order_relaxed) != unloads ||
        site < scope.begin.load(std::memory_order_relaxed) || site >= scope.end.load(std::memory_order_relaxed))
      continue;
    *reached = {scope.library.load(std::memory_order_relaxed), scope.handle.load(std::memory_order_relaxed)};
    return true;
  }
  return false;
}

// The place of a module that begins there: its own, if it was asked about before. Null if there is no room.
Scope* PlaceFor(std::uintptr_t begin) {
  const std::uint32_t used = scopes_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used && i < kScopes; ++i)
    if (scopes[i].begin.load(std::memory_order_relaxed) == begin) return &scopes[i];
  if (used >= kScopes) return nullptr;
  const std::uint32_t at = scopes_used.fetch_add(1, std::memory_order_acq_rel);
  return at < kScopes ? &scopes[at] : nullptr;
}

Reached Ask(std::uint64_t site) {
  const KeepErrno keep;
  Module module;
  if (!ModuleOf(reinterpret_cast<const void*>(site), &module)) return {};  // generated code: nobody's
  const std::uint64_t unloads = unloads_seen.load(std::memory_order_relaxed);
  const Reached reached = several.load(std::memory_order_relaxed) ? ReachedBy(module) : Reached{};
  Scope* const scope = PlaceFor(module.begin);
  if (!scope) return reached;
  scope->whole.store(false, std::memory_order_relaxed);
  scope->unloads.store(unloads, std::memory_order_relaxed);
  scope->begin.store(module.begin, std::memory_order_relaxed);
  scope->end.store(module.end, std::memory_order_relaxed);
  scope->library.store(reached.library, std::memory_order_relaxed);
  scope->handle.store(reached.handle, std::memory_order_relaxed);
  scope->whole.store(true, std::memory_order_release);
  return reached;
}

}  // namespace

bool Knows(std::uint64_t site) {
  Reached reached;
  return Find(site, &reached);
}

void Survey(std::uint64_t site) {
  Changes now;
  dl_iterate_phdr(CountChanges, &now);
  unloads_seen.store(now.unloads, std::memory_order_relaxed);
  if (loads_seen.exchange(now.loads, std::memory_order_relaxed) != now.loads &&
      !several.load(std::memory_order_relaxed)) {
    Copies copies;
    dl_iterate_phdr(CountCopy, &copies);
    // One that FindDefault would not know by its name is reached by its caller's scope alone.
    if (copies.count > 1 || copies.renamed) several.store(true, std::memory_order_relaxed);
  }
  if (!Knows(site)) Ask(site);
}

Own OwnOf(std::uint64_t site, functions::Function function) {
  // What one of the libraries calls of itself goes back to it.
  for (std::uint32_t i = 0; i < kLibraries; ++i)
    if (libraries[i].begin.load(std::memory_order_acquire) && CallsItself(i, site)) return {i, Real(i, function)};
  Reached reached;
  if (!Find(site, &reached)) reached = Ask(site);
  if (reached.library < kLibraries) return {reached.library, nullptr};
  const functions::FunctionInfo* info = functions::Find(function);
  return {0, info ? Dlsym(reached.handle, info->name.data()) : nullptr};
}

}  // namespace ncclwatch::shim::resolve
