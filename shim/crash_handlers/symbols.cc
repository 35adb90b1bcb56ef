#include "shim/crash_handlers/symbols.h"

#include <algorithm>

namespace ncclwatch::shim {
namespace {

// The loader has added the bias to addresses in the dynamic section; some processors' loaders leave them as they are.
template <class T>
const T* At(const Executing& module, ElfW(Addr) value) {
  return reinterpret_cast<const T*>(value < module.bias ? module.bias + value : value);
}

// The table of symbols has no length of its own: its hash table reaches to the last one.
std::uint32_t CountByGnuHash(const std::uint32_t* table) {
  const std::uint32_t buckets = table[0], first = table[1], words_of_bloom = table[2];
  const std::uint32_t* bucket = table + 4 + words_of_bloom * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
  if (last < first) return first;
  while (!(chain[last - first] & 1)) ++last;
  return last + 1;
}

}  // namespace

Symbols SymbolsOf(const Executing& module) {
  Symbols symbols;
  std::uint32_t by_hash = 0, by_gnu_hash = 0;
  for (const ElfW(Dyn)* entry = module.dynamic; entry && entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols.first = At<ElfW(Sym)>(module, value);
    if (entry->d_tag == DT_STRTAB) symbols.names = At<char>(module, value);
    if (entry->d_tag == DT_HASH) by_hash = At<std::uint32_t>(module, value)[1];
    if (entry->d_tag == DT_GNU_HASH) by_gnu_hash = CountByGnuHash(At<std::uint32_t>(module, value));
  }
  if (symbols.first && symbols.names) symbols.count = std::max(by_hash, by_gnu_hash);
  return symbols;
}

}  // namespace ncclwatch::shim
