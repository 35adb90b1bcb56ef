#include "shim/crash_handlers/loaded.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "shim/base/self_memory.h"
#include "shim/resolve/preload.h"

namespace ncclwatch::shim {
namespace {

// glibc's struct dl_find_object (dlfcn.h, 2.35), as it is on x86-64 and aarch64.
struct Found {
  unsigned long long flags;
  void* begin;
  void* end;
  link_map* map;
  void* eh_frame_hdr;
  unsigned long long reserved[7];
};
using FindObject = int (*)(void*, Found*);

std::atomic<FindObject> find_object{nullptr};
char program[512];

// For a glibc before 2.35: what was loaded when it was looked at, with the program's own text of each path.
struct Remembered {
  Loaded modules[512];
  Executing executing[512];  // the same ones
  std::atomic<std::uint32_t> used{0};
};
Remembered remembered;

// -1: in none of them.
int RememberedAt(std::uint64_t address) {
  const std::uint32_t used = remembered.used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i)
    if (address >= remembered.modules[i].begin && address < remembered.modules[i].end) return static_cast<int>(i);
  return -1;
}

void PutFile(const char* path, Executing* module) {
  const char* const slash = std::strrchr(path, '/');
  const char* const file = slash ? slash + 1 : path;
  const std::size_t bytes = strnlen(file, sizeof module->file - 1);
  std::memcpy(module->file, file, bytes);
  module->file[bytes] = 0;
}

bool IsRemembered(const Loaded& module) {
  const std::uint32_t used = remembered.used.load(std::memory_order_relaxed);
  return std::any_of(remembered.modules, remembered.modules + used,
                     [&](const Loaded& one) { return one.begin == module.begin && one.end == module.end; });
}

int Remember(dl_phdr_info* info, std::size_t, void*) {
  const std::uint32_t used = remembered.used.load(std::memory_order_relaxed);
  if (used == std::size(remembered.modules)) return 1;
  Loaded module;
  Executing& executing = remembered.executing[used];
  executing = {};
  module.begin = UINT64_MAX;
  module.bias = info->dlpi_addr;
  module.name = reinterpret_cast<std::uint64_t>(info->dlpi_name);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const std::uint64_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_DYNAMIC) executing.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (segment.p_type != PT_LOAD) continue;
    module.begin = std::min(module.begin, begin);
    module.end = std::max(module.end, begin + segment.p_memsz);
  }
  if (IsRemembered(module)) return 0;
  executing.begin = module.begin;
  executing.bias = module.bias;
  PutFile(info->dlpi_name ? info->dlpi_name : "", &executing);
  remembered.modules[used] = module;
  remembered.used.store(used + 1, std::memory_order_release);
  return 0;
}

}  // namespace

void PrepareLoaded() {
  if (!program[0]) {
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0) std::strcpy(program, "?");
    void* found = resolve::Dlsym(RTLD_DEFAULT, "_dl_find_object");
    find_object.store(reinterpret_cast<FindObject>(found), std::memory_order_release);
  }
  if (!find_object.load(std::memory_order_relaxed)) dl_iterate_phdr(Remember, nullptr);
}

bool FindLoaded(std::uint64_t address, Loaded* module) {
  if (const FindObject find = find_object.load(std::memory_order_acquire)) {
    Found found{};
    if (find(reinterpret_cast<void*>(address), &found) != 0) return false;
    *module = {reinterpret_cast<std::uint64_t>(found.begin), reinterpret_cast<std::uint64_t>(found.end), 0, 0};
    // Another thread may be unloading it.
    link_map map{};
    if (!ReadSelf(reinterpret_cast<std::uint64_t>(found.map), &map)) return false;
    module->bias = map.l_addr;
    module->name = reinterpret_cast<std::uint64_t>(map.l_name);
    return true;
  }
  const int at = RememberedAt(address);
  if (at >= 0) *module = remembered.modules[at];
  return at >= 0;
}

bool FindExecuting(std::uint64_t address, Executing* module) {
  if (const FindObject find = find_object.load(std::memory_order_acquire)) {
    Found found{};
    if (find(reinterpret_cast<void*>(address), &found) != 0) return false;
    *module = {reinterpret_cast<std::uint64_t>(found.begin), found.map->l_addr, found.map->l_ld, {}};
    PutFile(found.map->l_name, module);
    return true;
  }
  const int at = RememberedAt(address);
  if (at >= 0) *module = remembered.executing[at];
  return at >= 0;
}

void PathOf(const Loaded& module, char* path, std::size_t size) {
  path[0] = 0;
  ReadSelfText(module.name, path, size);
  if (path[0]) return;
  const std::size_t bytes = std::min(std::strlen(program), size - 1);
  std::memcpy(path, program, bytes);
  path[bytes] = 0;
}

}  // namespace ncclwatch::shim
