#include "made_up.h"

#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

#if defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
constexpr std::uint16_t kMachine = EM_X86_64;
#endif

template <typename Value>
void Append(std::string* bytes, const Value& value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

Elf64_Shdr Section(std::uint32_t type, std::uint64_t at, std::uint64_t bytes, std::uint32_t link, std::uint64_t each) {
  Elf64_Shdr section{};
  section.sh_type = type;
  section.sh_offset = at;
  section.sh_size = bytes;
  section.sh_link = link;
  section.sh_entsize = each;
  return section;
}

}  // namespace

std::string Bytes(const TinyElf& elf) {
  std::string names(1, '\0');
  const auto name = [&](const std::string& text) {
    const std::uint64_t at = names.size();
    names += text + '\0';
    return at;
  };
  std::vector<Elf64_Dyn> dynamic;
  const auto entry = [&](std::int64_t tag, std::uint64_t value) { dynamic.push_back({tag, {value}}); };
  for (const std::string& needed : elf.needed) entry(DT_NEEDED, name(needed));
  if (!elf.rpath.empty()) entry(DT_RPATH, name(elf.rpath));
  if (!elf.runpath.empty()) entry(DT_RUNPATH, name(elf.runpath));
  Elf64_Sym symbol{};
  symbol.st_name = static_cast<std::uint32_t>(name(elf.defines));
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  symbol.st_shndx = elf.defines.empty() ? SHN_UNDEF : 1;
  name(elf.text);

  // Header, two segments, names, dynamic section, symbols, section headers; loaded at 0, so that addresses are offsets.
  const std::uint64_t names_at = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
  entry(DT_STRTAB, names_at);
  entry(DT_STRSZ, names.size());
  entry(DT_NULL, 0);
  const std::uint64_t dynamic_at = names_at + names.size();
  const std::uint64_t symbols_at = dynamic_at + dynamic.size() * sizeof(Elf64_Dyn);
  const std::uint64_t sections_at = symbols_at + sizeof symbol;

  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = elf.machine ? elf.machine : kMachine;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  header.e_shoff = sections_at;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  Elf64_Phdr load{}, table{};
  load.p_type = PT_LOAD;
  load.p_filesz = load.p_memsz = sections_at;
  table.p_type = PT_DYNAMIC;
  table.p_offset = table.p_vaddr = dynamic_at;
  table.p_filesz = dynamic.size() * sizeof(Elf64_Dyn);

  std::string bytes;
  Append(&bytes, header);
  Append(&bytes, load);
  Append(&bytes, table);
  bytes += names;
  for (const Elf64_Dyn& one : dynamic) Append(&bytes, one);
  Append(&bytes, symbol);
  Append(&bytes, Elf64_Shdr{});
  Append(&bytes, Section(SHT_SYMTAB, symbols_at, sizeof symbol, 2, sizeof symbol));
  Append(&bytes, Section(SHT_STRTAB, names_at, names.size(), 0, 0));
  return bytes;
}

MadeUp::MadeUp() {
  std::string name = (fs::temp_directory_path() / "ncclwatch-job-mpi-XXXXXX").string();
  if (!mkdtemp(name.data())) std::abort();
  root_ = fs::canonical(name).string();
}

MadeUp::~MadeUp() {
  std::error_code error;
  fs::remove_all(root_, error);
}

std::string MadeUp::Place(const std::string& name) {
  const fs::path path = fs::path(root_) / name;
  fs::create_directories(path.parent_path());
  return path.string();
}

std::string MadeUp::Text(const std::string& name, const std::string& text) {
  const std::string path = Place(name);
  std::ofstream(path, std::ios::binary) << text;
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

std::string MadeUp::Elf(const std::string& name, const TinyElf& elf) { return Text(name, Bytes(elf)); }

std::string MadeUp::Link(const std::string& name, const std::string& to) {
  const std::string path = Place(name);
  fs::create_symlink(to, path);
  return path;
}

Surroundings MadeUp::here() const {
  Surroundings here;
  here.folder = root_;
  here.path = {root_ + "/bin"};
  here.loader_cache = root_ + "/ld.so.cache";
  here.system_folders = {root_ + "/lib"};
  return here;
}

void MadeUp::OpenMpi(const std::string& folder) {
  Elf(folder + "/libmpi.so.40", {.needed = {"libopen-rte.so.40", "libopen-pal.so.40"}});
  Elf(folder + "/libopen-rte.so.40");
  Elf(folder + "/libopen-pal.so.40");
}

void MadeUp::Mpich(const std::string& folder) { Elf(folder + "/libmpich.so.12"); }

}  // namespace ncclwatch::analyzer
