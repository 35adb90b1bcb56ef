#include "shim/resolve/libraries.h"

#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "shim/base/keep_errno.h"
#include "shim/resolve/modules.h"
#include "shim/resolve/preload.h"
#include "watchdog/log/log.h"
#include "watchdog/settings/rules.h"

namespace ncclwatch::shim::resolve {

constinit Library libraries[kLibraries];
constinit std::atomic<bool> several{false};

namespace {

constexpr int kPatience = 100000;  // yields; a fork child may have inherited the lock of a thread that it lacks

// Guards the table of libraries for some dozens of instructions. Never held over dlopen: another thread may sit in a
// constructor, with the loader's lock, and ask for NCCL here.
std::atomic_flag writing = ATOMIC_FLAG_INIT;

class Writing {
 public:
  Writing() {
    for (int i = 0; i < kPatience && writing.test_and_set(std::memory_order_acquire); ++i) sched_yield();
  }
  ~Writing() { writing.clear(std::memory_order_release); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
};

thread_local constinit bool searching __attribute__((tls_model("initial-exec"))) = false;

// RTLD_NODELETE: a dlclose by the host must not take away what is cached here.
void* Pin(const char* path) { return dlopen(path[0] ? path : nullptr, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE); }

void Publish(Library& library, const Module& module, void* handle) {
  library.bytes.store(module.end - module.begin, std::memory_order_relaxed);
  library.handle = handle;
  std::memcpy(library.path, module.path, sizeof library.path);
  library.begin.store(module.begin, std::memory_order_release);
}

// 1. Whoever comes after us in load order: a program that links libnccl, or another tool's wrappers.
bool NextInOrder(Module* module) {
  void* next = Next("ncclGetVersion");
  return next && !IsOurs(next) && ModuleOf(next, module);
}

// 2. A libnccl that came by dlopen(RTLD_LOCAL), which RTLD_NEXT does not see.
bool AlreadyLoaded(Module* module) { return ModuleNamed("libnccl.so", nullptr, module); }

// 3. We are the libnccl that somebody opened: bring the real one.
bool Opened(Module* module, void** handle) {
  const char* chosen =
      settings::Allowed([](const char* name) -> const char* { return std::getenv(name); }, "NCCLWATCH_NCCL");
  const char* names[] = {"libnccl.so.2", "libnccl.so"};
  if (chosen && *chosen) {
    *handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!*handle) log::host::Warn("NCCLWATCH_NCCL: {}", dlerror());
  }
  for (const char* name : names)
    if (!*handle) *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!*handle) return false;
  void* function = Dlsym(*handle, "ncclGetVersion");
  return function && !IsOurs(function) && ModuleOf(function, module);
}

std::atomic<bool> said_missing[kNumbers];

}  // namespace

bool FindDefault(bool may_open) {
  Library& library = libraries[0];
  if (library.begin.load(std::memory_order_acquire)) return true;
  if (searching) return false;  // a constructor of the library being opened asks for NCCL: it finds none yet
  searching = true;
  Module module;
  void* handle = nullptr;
  const bool loaded = NextInOrder(&module) || AlreadyLoaded(&module);
  if (loaded) handle = Pin(module.path);
  const bool found = loaded || (may_open && Opened(&module, &handle));
  searching = false;
  if (!found) return false;
  const Writing lock;
  if (!library.begin.load(std::memory_order_acquire)) Publish(library, module, handle);
  return true;
}

void* FindReal(std::uint32_t library, functions::Function function) {
  const KeepErrno keep;
  if (library == 0 && !FindDefault(true)) return nullptr;
  Library& own = libraries[library];
  const functions::FunctionInfo* info = functions::Find(function);
  if (!own.begin.load(std::memory_order_acquire) || !info) return nullptr;
  // In load order first: other tools' wrappers, and a program that has NCCL linked in, come before the library itself.
  void* real = library == 0 ? Next(info->name.data()) : nullptr;
  if ((!real || IsOurs(real)) && own.handle) real = Dlsym(own.handle, info->name.data());
  if (!real || IsOurs(real)) return nullptr;
  own.functions[static_cast<std::uint32_t>(function)].store(real, std::memory_order_relaxed);
  return real;
}

namespace {

// kLibraries: no room.
std::uint32_t Enlist(const Module& module, void* handle) {
  const Writing lock;
  for (std::uint32_t i = 0; i < kLibraries; ++i) {
    const std::uintptr_t begin = libraries[i].begin.load(std::memory_order_acquire);
    if (begin == module.begin) return i;
    if (begin != 0 || i == 0) continue;
    Publish(libraries[i], module, handle);
    several.store(true, std::memory_order_relaxed);
    return i;
  }
  return kLibraries;
}

std::atomic<bool> said_too_many{false};

}  // namespace

std::uint32_t LibraryOf(const void* address) {
  Module module;
  if (!ModuleOf(address, &module)) return kLibraries;
  FindDefault(false);
  for (std::uint32_t i = 0; i < kLibraries; ++i)
    if (libraries[i].begin.load(std::memory_order_acquire) == module.begin) return i;
  const std::uint32_t library = Enlist(module, Pin(module.path));
  if (library >= kLibraries && !said_too_many.exchange(true))
    log::host::Warn("more than {} NCCL libraries in one process: {} is not watched", kLibraries, module.path);
  return library;
}

ncclResult_t Missing(std::uint32_t library, functions::Function function) {
  const bool none = libraries[library].begin.load(std::memory_order_relaxed) == 0;
  if (!said_missing[static_cast<std::uint32_t>(function)].exchange(true)) {
    const char* name = functions::FullName(function).data();
    if (none)
      log::host::Error("{} was called, but no libnccl was found (NCCLWATCH_NCCL can name it)", name);
    else
      log::host::Error("{} was called, but {} does not have it", name, libraries[library].path);
  }
  return none ? ncclSystemError : ncclInvalidUsage;
}

bool Version(std::uint32_t library, int* version) {
  if (!libraries[library].begin.load(std::memory_order_acquire)) return false;  // a question opens no library
  auto* ask = reinterpret_cast<decltype(&ncclGetVersion)>(Real(library, functions::Function::ncclGetVersion));
  return ask && ask(version) == ncclSuccess;
}
bool Rank(std::uint32_t library, ncclComm_t comm, int* rank) {
  auto* ask = reinterpret_cast<decltype(&ncclCommUserRank)>(Real(library, functions::Function::ncclCommUserRank));
  return ask && ask(comm, rank) == ncclSuccess;
}
bool Size(std::uint32_t library, ncclComm_t comm, int* size) {
  auto* ask = reinterpret_cast<decltype(&ncclCommCount)>(Real(library, functions::Function::ncclCommCount));
  return ask && ask(comm, size) == ncclSuccess;
}
bool Device(std::uint32_t library, ncclComm_t comm, int* device) {
  auto* ask = reinterpret_cast<decltype(&ncclCommCuDevice)>(Real(library, functions::Function::ncclCommCuDevice));
  return ask && ask(comm, device) == ncclSuccess;
}

}  // namespace ncclwatch::shim::resolve
