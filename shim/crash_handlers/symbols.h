// The symbols that a module exports, without the loader's lock.
#pragma once

#include <link.h>

#include <cstdint>

#include "shim/crash_handlers/loaded.h"

namespace ncclwatch::shim {

struct Symbols {
  const ElfW(Sym) * first = nullptr;
  std::uint32_t count = 0;
  const char* names = nullptr;
};

// None if the module has no table of them. Async-signal-safe.
Symbols SymbolsOf(const Executing& module);

// Calls tell(name) for each function that holds the address: aliases have several names.
template <class Tell>
void ForNamesAt(const Executing& module, std::uint64_t address, Tell tell) {
  const Symbols symbols = SymbolsOf(module);
  for (std::uint32_t i = 0; i < symbols.count; ++i) {
    const ElfW(Sym)& symbol = symbols.first[i];
    const std::uint64_t begin = module.bias + symbol.st_value;
    if (symbol.st_shndx != SHN_UNDEF && (symbol.st_info & 0xf) == STT_FUNC && address >= begin &&
        address - begin < symbol.st_size)
      tell(symbols.names + symbol.st_name);
  }
}

}  // namespace ncclwatch::shim
