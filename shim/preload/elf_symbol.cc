#include "shim/preload/elf_symbol.h"

#include <elf.h>

#include <cstdint>

namespace ncclwatch::shim::preload {
namespace {

constexpr std::uint16_t kHidden = 0x8000;  // of a version index: not the default one

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* hash = nullptr;
  const std::uint16_t* versions = nullptr;
};

// glibc has relocated the addresses of the dynamic section, musl and the kernel's own module have not.
template <class T>
const T* At(const dl_phdr_info& info, std::uintptr_t address) {
  return reinterpret_cast<const T*>(address < info.dlpi_addr ? address + info.dlpi_addr : address);
}

Tables TablesOf(const dl_phdr_info& info) {
  Tables tables;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB: tables.symbols = At<ElfW(Sym)>(info, entry->d_un.d_ptr); break;
        case DT_STRTAB: tables.strings = At<char>(info, entry->d_un.d_ptr); break;
        case DT_GNU_HASH: tables.gnu_hash = At<std::uint32_t>(info, entry->d_un.d_ptr); break;
        case DT_HASH: tables.hash = At<std::uint32_t>(info, entry->d_un.d_ptr); break;
        case DT_VERSYM: tables.versions = At<std::uint16_t>(info, entry->d_un.d_ptr); break;
        default: break;
      }
    }
  }
  return tables;
}

bool Same(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

bool Fits(const Tables& tables, std::uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = tables.symbols[index];
  if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return false;
  if (tables.versions && (tables.versions[index] & kHidden)) return false;
  return Same(tables.strings + symbol.st_name, name);
}

// The two kinds of hash tables: the System V ABI's, and GNU's with chains that end at an odd hash.
std::uint32_t InHash(const Tables& tables, const char* name) {
  std::uint32_t hash = 0;
  for (const char* c = name; *c; ++c) {
    hash = (hash << 4) + static_cast<unsigned char>(*c);
    hash = (hash ^ ((hash & 0xf0000000) >> 24)) & 0x0fffffff;
  }
  const std::uint32_t buckets = tables.hash[0];
  if (buckets == 0) return 0;
  const std::uint32_t* chain = tables.hash + 2 + buckets;
  for (std::uint32_t i = tables.hash[2 + hash % buckets]; i != 0; i = chain[i])
    if (Fits(tables, i, name)) return i;
  return 0;
}

std::uint32_t InGnuHash(const Tables& tables, const char* name) {
  std::uint32_t hash = 5381;
  for (const char* c = name; *c; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  const std::uint32_t buckets = tables.gnu_hash[0], first = tables.gnu_hash[1], words = tables.gnu_hash[2];
  if (buckets == 0) return 0;
  const std::uint32_t* bucket = tables.gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t i = bucket[hash % buckets];
  if (i < first) return 0;
  for (;; ++i) {
    if ((chain[i - first] | 1) == (hash | 1) && Fits(tables, i, name)) return i;
    if (chain[i - first] & 1) return 0;
  }
}

}  // namespace

void* FindSymbol(const dl_phdr_info& info, const char* name) {
  const Tables tables = TablesOf(info);
  if (!tables.symbols || !tables.strings) return nullptr;
  std::uint32_t index = 0;
  if (tables.gnu_hash)
    index = InGnuHash(tables, name);
  else if (tables.hash)
    index = InHash(tables, name);
  return index == 0 ? nullptr : reinterpret_cast<void*>(info.dlpi_addr + tables.symbols[index].st_value);
}

}  // namespace ncclwatch::shim::preload
