#include "analyzer/stacks/lines/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/files/descriptor.h"
#include "analyzer/stacks/lines/numbers.h"
#include "analyzer/stacks/names/shorten.h"

namespace ncclwatch::stacks {
namespace {

using analyzer::Descriptor;

// Where the debug information of a program or library is kept, if the file itself has none.

// What an ELF file says of its debug information.
struct DebugLink {
  std::string build_id;  // hexadecimal, empty if it has none
  std::string file;      // of .gnu_debuglink: a name without a folder, empty if it has none
};

namespace fs = std::filesystem;

constexpr char kSystem[] = "/usr/lib/debug";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// As debuginfod_find_debuginfo(3) chooses it.
std::string DebuginfodCache() {
  if (std::string path = Variable("DEBUGINFOD_CACHE_PATH"); !path.empty()) return path;
  if (const std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/debuginfod_client";
  const std::string home = Variable("HOME");
  return home.empty() ? home : home + "/.cache/debuginfod_client";
}

// Paths to try, in this order: by build id below /usr/lib/debug and the installation's own lib/debug; by the link's
// name beside the file, in .debug/ there, and below /usr/lib/debug; what debuginfod's client has fetched before.
// Nothing is fetched.
std::vector<std::string> DebugFiles(const std::string& path, const DebugLink& link) {
  std::vector<std::string> files;
  const fs::path folder = fs::path(path).parent_path();
  if (link.build_id.size() > 2) {
    const std::string below = fmt::format(".build-id/{}/{}.debug", link.build_id.substr(0, 2), link.build_id.substr(2));
    files.push_back(fmt::format("{}/{}", kSystem, below));
    // bin/ or lib/ncclwatch/ of a prefix of its own.
    for (const fs::path& prefix : {folder.parent_path(), folder.parent_path().parent_path()})
      files.push_back((prefix / "lib/debug" / below).string());
  }
  if (!link.file.empty() && link.file.find('/') == std::string::npos) {
    files.push_back((folder / link.file).string());
    files.push_back((folder / ".debug" / link.file).string());
    files.push_back(kSystem + (folder / link.file).string());
  }
  if (const std::string cache = DebuginfodCache(); !cache.empty() && !link.build_id.empty())
    files.push_back(fmt::format("{}/{}/debuginfo", cache, link.build_id));
  return files;
}

struct EndDwarf {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};
struct EndElf {
  void operator()(Elf* elf) const { elf_end(elf); }
};

Descriptor OpenRegular(const std::string& path, struct stat* info) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file || fstat(file.get(), info) != 0 || !S_ISREG(info->st_mode)) return Descriptor();
  return file;
}

bool HasUnits(Dwarf* dwarf) {
  Dwarf_CU* unit = nullptr;
  return dwarf_get_units(dwarf, nullptr, &unit, nullptr, nullptr, nullptr, nullptr) == 0;
}

DebugLink LinkOf(Elf* elf) {
  DebugLink link;
  const void* id = nullptr;
  const ssize_t bytes = dwelf_elf_gnu_build_id(elf, &id);
  for (ssize_t i = 0; i < bytes; ++i) link.build_id += fmt::format("{:02x}", static_cast<const unsigned char*>(id)[i]);
  GElf_Word crc = 0;
  if (const char* name = dwelf_elf_gnu_debuglink(elf, &crc)) link.file = name;
  return link;
}

std::string FunctionName(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
    if (dwarf_attr_integrate(die, kind, &attribute) != nullptr)
      if (const char* name = dwarf_formstring(&attribute)) return ReadableName(name);
  if (dwarf_attr_integrate(die, DW_AT_name, &attribute) == nullptr) return {};
  const char* name = dwarf_formstring(&attribute);
  return name ? name : "";
}

std::string InnermostFunction(Dwarf_Die* unit, std::uint64_t address) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes(unit, address, &scopes);
  std::string name;
  for (int i = 0; i < count && name.empty(); ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) name = FunctionName(&scopes[i]);
  }
  if (count > 0) std::free(scopes);
  return name;
}

}  // namespace

class SourceLines::File {
 public:
  explicit File(const std::string& path) {
    struct stat info {};
    Open(path, &info);
    changed_ns_ = info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
    if (dwarf_ || !descriptor_) return;
    const std::unique_ptr<Elf, EndElf> elf(elf_begin(descriptor_.get(), ELF_C_READ_MMAP, nullptr));
    if (!elf) return;
    const DebugLink link = LinkOf(elf.get());
    for (const std::string& candidate : DebugFiles(path, link)) {
      if (dwarf_) return;
      OpenDebug(candidate, link, &info);
    }
  }

  std::int64_t changed_ns() const { return changed_ns_; }

  std::optional<SourceLine> At(std::uint64_t address) {
    Dwarf_Die unit, split;
    if (!dwarf_ || !FindUnit(address, &unit, &split)) return std::nullopt;
    SourceLine found;
    if (Dwarf_Line* line = dwarf_getsrc_die(&unit, address)) {
      const char* file = dwarf_linesrc(line, nullptr, nullptr);
      if (file) found.file = file;
      dwarf_lineno(line, &found.line);
    }
    found.function = InnermostFunction(&split, address);
    if (found.file.empty() && found.function.empty()) return std::nullopt;
    return found;
  }

  std::vector<Frame::Variable> NumbersOf(const Frame& frame, Reader* memory) {
    Dwarf_Die unit, split;
    if (!dwarf_ || !FindUnit(frame.module_address, &unit, &split)) return {};
    return NumbersIn(&split, frame.module_address, frame, memory);
  }

 private:
  void Open(const std::string& path, struct stat* info) {
    dwarf_.reset();
    descriptor_ = OpenRegular(path, info);
    if (!descriptor_) return;
    dwarf_.reset(dwarf_begin(descriptor_.get(), DWARF_C_READ));
    if (dwarf_ && !HasUnits(dwarf_.get())) dwarf_.reset();
  }

  // A file of another build has the same name at times.
  void OpenDebug(const std::string& path, const DebugLink& link, struct stat* info) {
    Open(path, info);
    if (dwarf_ && !link.build_id.empty() && LinkOf(dwarf_getelf(dwarf_.get())).build_id != link.build_id)
      dwarf_.reset();
  }

  // The unit with the line table, and that with the functions: the same one unless they are split.
  bool FindUnit(std::uint64_t address, Dwarf_Die* unit, Dwarf_Die* split) {
    if (dwarf_addrdie(dwarf_.get(), address, unit) == nullptr && !SearchUnits(address, unit)) return false;
    *split = *unit;
    std::uint8_t type = 0;
    Dwarf_Die whole, part;
    if (dwarf_cu_info(unit->cu, nullptr, &type, &whole, &part, nullptr, nullptr, nullptr) == 0 &&
        type == DW_UT_skeleton && dwarf_tag(&part) != DW_TAG_invalid)
      *split = part;
    return true;
  }

  // Where there is no index of addresses, as clang leaves it out.
  bool SearchUnits(std::uint64_t address, Dwarf_Die* unit) {
    Dwarf_CU* at = nullptr;
    while (dwarf_get_units(dwarf_.get(), at, &at, nullptr, nullptr, unit, nullptr) == 0)
      if (dwarf_haspc(unit, address) > 0) return true;
    return false;
  }

  Descriptor descriptor_;
  std::unique_ptr<Dwarf, EndDwarf> dwarf_;
  std::int64_t changed_ns_ = 0;
};

SourceLines::SourceLines() { elf_version(EV_CURRENT); }
SourceLines::~SourceLines() = default;

std::optional<SourceLine> SourceLines::At(const std::string& path, std::uint64_t address, std::int64_t since_real_ns) {
  File& file = FileAt(path);
  if (file.changed_ns() > since_real_ns) return std::nullopt;
  return file.At(address);
}

std::vector<Frame::Variable> SourceLines::NumbersOf(const Frame& frame, Reader* memory) {
  return FileAt(frame.module_path).NumbersOf(frame, memory);
}

SourceLines::File& SourceLines::FileAt(const std::string& path) {
  std::unique_ptr<File>& file = files_[path];
  if (!file) file = std::make_unique<File>(path);
  return *file;
}

}  // namespace ncclwatch::stacks
