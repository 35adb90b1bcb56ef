// An ELF file of this machine's width and byte order: its segments, unwind table and symbols, read piecewise (a file
// may have gigabytes, and may be cut short meanwhile). Nothing in it is trusted. Not thread-safe.
#pragma once

#include <elf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/stacks/base/memory.h"

namespace ncclwatch::stacks {

// What the file's bytes are read from.
class Bytes {
 public:
  virtual ~Bytes() = default;
  // The bytes got, from the first on.
  virtual std::size_t ReadAt(std::uint64_t offset, void* to, std::size_t bytes) = 0;
};

struct Symbol {
  std::uint64_t address = 0;  // as the file has it (link-time)
  std::uint64_t bytes = 0;
  std::string name;  // mangled, without a version
};

// The sorted table of .eh_frame_hdr: pairs of 4 bytes (a function's first address, its description), both relative to
// the header.
struct UnwindTable {
  std::uint64_t header = 0, rows = 0;  // link-time addresses
  std::uint64_t count = 0;
};

// What the loader is told: which libraries are needed, and where to look for them.
struct Links {
  std::vector<std::string> needed;
  std::string rpath, runpath;  // folders between colons, $ORIGIN and the like as they stand
  bool loader = false;         // it asks for a loader: what it needs, and what is preloaded, is loaded
};

// The Reader's addresses are link-time ones; it reads what the file has, not what the process made of it.
class ElfFile : public Reader {
 public:
  // None if it is not such a file. Takes the descriptor.
  static std::shared_ptr<ElfFile> OfDescriptor(int fd);
  static std::shared_ptr<ElfFile> OfBytes(std::unique_ptr<Bytes> bytes);
  // An image that is mapped at `base` in a process: the vdso, a file that nobody can open any more.
  static std::shared_ptr<ElfFile> OfMemory(Memory* memory, std::uint64_t base, std::uint64_t bytes);

  bool Read(std::uint64_t address, void* to, std::size_t bytes) override;
  // The process cannot write there, so it has what the file has.
  bool IsConstant(std::uint64_t address) const;

  // From an offset in the file, as a mapping has it, to the link-time address that it is loaded at.
  std::optional<std::uint64_t> AddressOfOffset(std::uint64_t offset, bool executable) const;
  std::uint64_t FirstAddress() const;  // link-time, of the first loaded page
  std::uint64_t EndAddress() const;    // ... behind the last loaded byte
  // None if it has no table, or one that no linker writes.
  std::optional<UnwindTable> FindUnwindTable();
  // It has its exported names only: others may be in a file of their own (see DebugFileOf).
  bool stripped() const { return !full_symbols_; }
  std::uint16_t machine() const { return header_.e_machine; }
  Links ReadLinks();
  const std::string& build_id() const { return build_id_; }  // raw bytes, empty if it has none

  // The functions that contain these addresses, in one walk through the symbol tables; none where no symbol does.
  std::vector<std::optional<Symbol>> FunctionsAt(const std::vector<std::uint64_t>& addresses);
  // The symbol (function or data) of this name, exported or not.
  std::optional<Symbol> Named(std::string_view name);

 private:
  ElfFile() = default;
  struct Table {
    std::uint64_t offset = 0, count = 0;            // symbols
    std::uint64_t text_offset = 0, text_bytes = 0;  // names
  };
  bool Parse();
  void ParseNotes(std::uint64_t offset, std::uint64_t bytes);
  void ParseSections();
  void ParseDynamic(std::uint64_t bias, std::uint64_t offset, std::uint64_t bytes);
  const Elf64_Phdr* SegmentOf(std::uint64_t address) const;
  std::optional<std::uint64_t> OffsetOf(std::uint64_t address) const;
  bool ReadAt(std::uint64_t offset, void* to, std::size_t bytes);
  std::string NameAt(const Table& table, std::uint64_t at);
  template <typename Visit>
  void VisitSymbols(const Table& table, Visit visit);

  std::unique_ptr<Bytes> bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Table> tables_;
  std::string build_id_;
  bool full_symbols_ = false;
  struct Cached {
    std::size_t bytes = 0;
    std::array<std::byte, kPageBytes> data;
  };
  std::unordered_map<std::uint64_t, std::unique_ptr<Cached>> pages_;  // of the file, by offset
};

// The file with the names of a stripped one, as distributions install it (libc6-dbg); null if there is none.
std::shared_ptr<ElfFile> DebugFileOf(const ElfFile& file, const std::string& root = "/usr/lib/debug/.build-id");

}  // namespace ncclwatch::stacks
