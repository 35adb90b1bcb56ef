// The dynamic section of an ELF file.
#include <algorithm>

#include "analyzer/stacks/base/elf_file.h"

namespace ncclwatch::stacks {
namespace {

// More than any real file has: what claims more is damaged.
constexpr std::size_t kMostEntries = 4096;

}  // namespace

Links ElfFile::ReadLinks() {
  Links links;
  std::vector<Elf64_Dyn> entries;
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type == PT_INTERP) links.loader = true;
    if (segment.p_type != PT_DYNAMIC || !entries.empty()) continue;
    const std::size_t count = std::min<std::size_t>(segment.p_filesz / sizeof(Elf64_Dyn), kMostEntries);
    for (Elf64_Dyn entry{}; entries.size() < count; entries.push_back(entry)) {
      const std::uint64_t at = segment.p_offset + entries.size() * sizeof(entry);
      if (!ReadAt(at, &entry, sizeof(entry)) || entry.d_tag == DT_NULL) break;
    }
  }
  Table names{};
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_STRTAB) names.text_offset = OffsetOf(entry.d_un.d_ptr).value_or(0);
    if (entry.d_tag == DT_STRSZ) names.text_bytes = entry.d_un.d_val;
  }
  if (names.text_offset == 0) return links;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NEEDED) links.needed.push_back(NameAt(names, entry.d_un.d_val));
    if (entry.d_tag == DT_RPATH) links.rpath = NameAt(names, entry.d_un.d_val);
    if (entry.d_tag == DT_RUNPATH) links.runpath = NameAt(names, entry.d_un.d_val);
  }
  return links;
}

}  // namespace ncclwatch::stacks
