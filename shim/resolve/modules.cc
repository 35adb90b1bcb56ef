#include "shim/resolve/modules.h"

#include <link.h>

#include <cstddef>
#include <cstring>

namespace ncclwatch::shim::resolve {
namespace {

void Measure(const dl_phdr_info& info, Module* module) {
  module->begin = ~std::uintptr_t{0};
  module->end = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t from = info.dlpi_addr + segment.p_vaddr;
    if (from < module->begin) module->begin = from;
    if (from + segment.p_memsz > module->end) module->end = from + segment.p_memsz;
  }
}

void TakePath(const dl_phdr_info& info, Module* module) {
  module->path[0] = '\0';
  std::strncat(module->path, info.dlpi_name ? info.dlpi_name : "", sizeof module->path - 1);
}

struct ByAddress {
  std::uintptr_t address;
  Module* module;
};

int AtAddress(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<ByAddress*>(data);
  Measure(*info, search->module);
  if (search->address < search->module->begin || search->address >= search->module->end) return 0;
  TakePath(*info, search->module);
  return 1;
}

struct ByName {
  const char* name;
  const char* beside;
  Module* module;
  bool found;
};

std::size_t DirectoryLength(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? static_cast<std::size_t>(slash - path) : 0;
}

int WithName(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<ByName*>(data);
  if (!info->dlpi_name || !info->dlpi_name[0]) return 0;
  const std::size_t directory = DirectoryLength(info->dlpi_name);
  const char* file = info->dlpi_name + directory + (info->dlpi_name[directory] == '/');
  if (std::strncmp(file, search->name, std::strlen(search->name)) != 0) return 0;
  const bool beside = search->beside && directory > 0 && DirectoryLength(search->beside) == directory &&
                      std::strncmp(search->beside, info->dlpi_name, directory) == 0;
  if (search->found && !beside) return 0;
  Measure(*info, search->module);
  TakePath(*info, search->module);
  search->found = true;
  return beside;
}

// Of the first module alone: the count is that of all.
int CountUnloaded(dl_phdr_info* info, std::size_t size, void* data) {
  if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
    *static_cast<std::uint64_t*>(data) = info->dlpi_subs;
  return 1;
}

}  // namespace

bool ModuleOf(const void* address, Module* module) {
  ByAddress search{reinterpret_cast<std::uintptr_t>(address), module};
  return dl_iterate_phdr(AtAddress, &search) != 0;
}

bool ModuleNamed(const char* name, const char* beside, Module* module) {
  ByName search{name, beside, module, false};
  dl_iterate_phdr(WithName, &search);
  return search.found;
}

std::uint64_t Unloaded() {
  std::uint64_t unloaded = 0;
  dl_iterate_phdr(CountUnloaded, &unloaded);
  return unloaded;
}

const Module& OwnModule() {
  static const Module own = [] {
    Module module;
    ModuleOf(reinterpret_cast<const void*>(&OwnModule), &module);
    return module;
  }();
  return own;
}

}  // namespace ncclwatch::shim::resolve
