#include "shim/preload/own_file.h"

#include "shim/preload/system.h"
#include "shim/preload/words.h"

// The header does not make it weak.
extern "C" [[gnu::weak]] decltype(dl_iterate_phdr) dl_iterate_phdr;  // NOLINT(readability-redundant-declaration)

namespace ncclwatch::shim::preload {

bool IsOwn(const dl_phdr_info& info, Span* span) {
  const auto address = reinterpret_cast<std::uintptr_t>(&IsOwn);
  span->begin = ~std::uintptr_t{0};
  span->end = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t from = info.dlpi_addr + segment.p_vaddr;
    if (from < span->begin) span->begin = from;
    if (from + segment.p_memsz > span->end) span->end = from + segment.p_memsz;
  }
  return address >= span->begin && address < span->end;
}

namespace {

int TakeOwn(dl_phdr_info* info, std::size_t, void* data) {
  auto* own = static_cast<OwnFile*>(data);
  if (!IsOwn(*info, &own->span)) return 0;
  const std::size_t length = info->dlpi_name ? Length(info->dlpi_name) : 0;
  if (length < sizeof own->path)
    for (std::size_t i = 0; i <= length; ++i) own->path[i] = length > 0 ? info->dlpi_name[i] : '\0';
  return 1;
}

std::size_t PutHex(char* to, std::uintptr_t value) {
  std::size_t used = 0;
  for (int shift = 60; shift >= 0; shift -= 4)
    if (used > 0 || (value >> shift) != 0 || shift == 0) to[used++] = "0123456789abcdef"[(value >> shift) & 15];
  return used;
}

// The first mapping of this file: the whole pages of the segment that begins with the file.
Span FirstMapping(const Span& own) {
  constexpr std::uintptr_t kPage = 4096;
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(own.begin);
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(own.begin + header->e_phoff);
  Span first{own.begin, own.begin};
  for (int i = 0; i < header->e_phnum; ++i)
    if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0)
      first.end = own.begin + ((segments[i].p_memsz + kPage - 1) & ~(kPage - 1));
  return first;
}

// The loader knows the path that it was given: a relative one, of a folder that the process has left since, or a link.
// The kernel knows the file: /proc/self/map_files has one link a mapping. Without it the loader's path stays.
void AskKernelForPath(OwnFile* own) {
  const Span first = FirstMapping(own->span);
  char link[64] = "/proc/self/map_files/";
  std::size_t used = Length(link);
  used += PutHex(link + used, first.begin);
  link[used++] = '-';
  PutHex(link + used, first.end);
  char path[kPath] = {};
  const long bytes =
      System(SYS_readlinkat, -100, reinterpret_cast<long>(link), reinterpret_cast<long>(path), sizeof path - 1);
  // What was removed since ends in "(deleted)".
  if (bytes > 0 && path[0] == '/' && path[bytes - 1] != ')')
    for (long i = 0; i <= bytes; ++i) own->path[i] = path[i];
}

}  // namespace

bool FindOwnFile(OwnFile* own) {
  if (!dl_iterate_phdr || dl_iterate_phdr(TakeOwn, own) == 0) return false;
  AskKernelForPath(own);
  return true;
}

}  // namespace ncclwatch::shim::preload
