// The programs and libraries that a process has mapped. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "analyzer/stacks/base/elf_file.h"
#include "analyzer/stacks/base/maps.h"
#include "analyzer/stacks/base/memory.h"

namespace ncclwatch::stacks {

// A file that is mapped as executable code, and where.
struct Module {
  std::string path;                  // as the process knows it, "[vdso]" for the vdso
  std::string name;                  // the last part of it
  std::uint64_t begin = 0, end = 0;  // first and last address of its mappings
  std::uint64_t bias = 0;            // address in the process = link-time address + bias
  std::shared_ptr<ElfFile> file;     // null if it can be read in no way

  // In the process, of a symbol of this name; 0 if it has none.
  std::uint64_t AddressOf(std::string_view symbol) const;
};

// Files opened before, for processes that map the same: by device, inode and build id.
class FileCache {
 public:
  std::shared_ptr<ElfFile> Find(const Mapping& mapping) const;
  void Keep(const Mapping& mapping, std::shared_ptr<ElfFile> file);

 private:
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, std::shared_ptr<ElfFile>> files_;
};

class Modules {
 public:
  // `files` may be null; both must outlive this.
  Modules(Memory* memory, FileCache* files);
  // Of a process that is gone: `maps` as they were then. Files count that have not changed since (CLOCK_REALTIME).
  Modules(Memory* memory, FileCache* files, Maps maps, std::int64_t at_real_ns);

  const Maps& maps() const { return maps_; }
  // The module that has code at this address; null if none. Opens its file on the first use.
  const Module* At(std::uint64_t address);
  // All, without opening their files; Opened() does.
  const std::vector<Module>& all() const { return modules_; }
  const Module& Opened(std::size_t index);
  // Into `all`, of the first whose name begins with `prefix`; none if there is none.
  std::optional<std::size_t> Starting(std::string_view prefix, std::size_t from = 0) const;

  // What the unwinder has learnt about their code, for the next thread.
  struct Learnt {
    virtual ~Learnt() = default;
  };
  std::unique_ptr<Learnt> learnt;

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  void Open(Module* module, const Mapping& code);
  void ListModules();
  std::shared_ptr<ElfFile> OpenFile(const Mapping& mapping);
  std::shared_ptr<ElfFile> OpenSince(const Mapping& mapping) const;

  Memory* memory_;
  FileCache* files_;
  FileCache own_files_;
  Maps maps_;
  std::optional<std::int64_t> gone_since_ns_;
  std::vector<Module> modules_;
  std::vector<std::size_t> code_;       // of each module: its first executable mapping, into maps_.all()
  std::vector<std::size_t> module_of_;  // of each mapping that is executable: into modules_
  std::vector<bool> opened_;
};

}  // namespace ncclwatch::stacks
