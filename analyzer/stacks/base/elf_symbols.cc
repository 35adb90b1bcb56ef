// Names of functions in an ELF file.
#include <fcntl.h>

#include <algorithm>
#include <cstdio>

#include "analyzer/stacks/base/elf_file.h"

namespace ncclwatch::stacks {
namespace {

bool IsFunction(const Elf64_Sym& symbol) {
  const auto type = ELF64_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

// Of several names of one function the plain one: read before __libc_read, ncclSend before pncclSend.
bool Plainer(const std::string& a, const std::string& b) {
  const auto score = [](const std::string& name) {
    const std::size_t letters = name.find_first_not_of('_');
    // _Z is a mangled name, not a hidden one.
    const std::size_t underscores = name.starts_with("_Z") ? 0 : std::min(letters, name.size());
    return std::pair(underscores, name.size());
  };
  return std::pair(score(a), a) < std::pair(score(b), b);
}

}  // namespace

// Past the cache: a table may have many megabytes and is walked once.
template <typename Visit>
void ElfFile::VisitSymbols(const Table& table, Visit visit) {
  constexpr std::size_t kAtOnce = 8192;
  std::vector<Elf64_Sym> symbols(std::min<std::uint64_t>(kAtOnce, table.count));
  for (std::uint64_t at = 0; at < table.count; at += symbols.size()) {
    const std::size_t wanted = std::min<std::uint64_t>(symbols.size(), table.count - at);
    const std::size_t got =
        bytes_->ReadAt(table.offset + at * sizeof(Elf64_Sym), symbols.data(), wanted * sizeof(Elf64_Sym));
    for (std::size_t i = 0; i < got / sizeof(Elf64_Sym); ++i) visit(symbols[i]);
    if (got < wanted * sizeof(Elf64_Sym)) return;
  }
}

std::vector<std::optional<Symbol>> ElfFile::FunctionsAt(const std::vector<std::uint64_t>& addresses) {
  struct Found {
    std::vector<Elf64_Sym> containing;  // all that begin at the same place, the nearest one
    std::uint64_t nearest = 0;          // beginning of any function before it
    Elf64_Sym open{};                   // the nearest without a size
  };
  std::vector<std::uint64_t> sorted = addresses;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<Found> found(sorted.size());
  std::vector<std::optional<Symbol>> named(sorted.size());
  for (const Table& table : tables_) {
    VisitSymbols(table, [&](const Elf64_Sym& symbol) {
      if (!IsFunction(symbol)) return;
      const auto from = std::lower_bound(sorted.begin(), sorted.end(), symbol.st_value);
      for (auto at = from; at != sorted.end(); ++at) {
        Found& one = found[static_cast<std::size_t>(at - sorted.begin())];
        const bool inside = *at - symbol.st_value < symbol.st_size;
        // Addresses further on lie outside too; a nearer beginning than this one's they have to know, once.
        if (!inside && symbol.st_value <= one.nearest) break;
        one.nearest = std::max(one.nearest, symbol.st_value);
        if (symbol.st_size == 0) one.open = symbol;
        if (!inside) continue;
        if (!one.containing.empty() && one.containing.front().st_value < symbol.st_value) one.containing.clear();
        if (one.containing.empty() || one.containing.front().st_value == symbol.st_value)
          one.containing.push_back(symbol);
      }
    });
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      Found& one = found[i];
      // Hand-written code may give its functions no size: they last until the next one.
      if (one.containing.empty() && one.open.st_value != 0 && one.open.st_value == one.nearest)
        one.containing.push_back(one.open);
      for (const Elf64_Sym& symbol : one.containing) {
        std::string name = NameAt(table, symbol.st_name);
        if (name.empty() || (named[i] && !Plainer(name, named[i]->name))) continue;
        named[i] = Symbol{symbol.st_value, symbol.st_size, std::move(name)};
      }
    }
  }
  std::vector<std::optional<Symbol>> answer(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i)
    answer[i] =
        named[static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), addresses[i]) - sorted.begin())];
  return answer;
}

std::optional<Symbol> ElfFile::Named(std::string_view name) {
  std::optional<Symbol> found;
  for (const Table& table : tables_) {
    VisitSymbols(table, [&](const Elf64_Sym& symbol) {
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      if (found || symbol.st_shndx == SHN_UNDEF || type == STT_TLS || type == STT_SECTION || type == STT_FILE) return;
      if (NameAt(table, symbol.st_name) == name) found = Symbol{symbol.st_value, symbol.st_size, std::string(name)};
    });
  }
  return found;
}

std::shared_ptr<ElfFile> DebugFileOf(const ElfFile& file, const std::string& root) {
  constexpr std::size_t kFolder = 1;  // bytes of the id that name the folder
  if (!file.stripped() || file.build_id().size() <= kFolder) return nullptr;
  std::string path = root + "/";
  for (std::size_t i = 0; i < file.build_id().size(); ++i) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(file.build_id()[i]));
    path += digits.data();
    if (i + 1 == kFolder) path += "/";
  }
  const int fd = open((path + ".debug").c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  return fd < 0 ? nullptr : ElfFile::OfDescriptor(fd);
}

}  // namespace ncclwatch::stacks
