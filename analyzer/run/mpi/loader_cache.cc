#include "analyzer/run/mpi/loader_cache.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "analyzer/files/input_file.h"
#include "analyzer/run/mpi/surroundings.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kLargestCache = 64u << 20;

// glibc's elf/dl-cache.h, struct cache_file_new and file_entry_new.
struct Header {
  char magic[20];
  std::uint32_t entries;
  std::uint32_t string_bytes;
  std::uint32_t other[5];
};
static_assert(sizeof(Header) == 48);
struct Entry {
  std::int32_t flags;
  std::uint32_t key, value;  // from the header on
  std::uint32_t os_version;
  std::uint64_t capabilities;
};
static_assert(sizeof(Entry) == 24);

std::string ReadUpTo(const std::string& path, std::size_t bytes) {
  if (!IsFile(path)) return "";
  InputFile file(path);
  std::string text;
  char piece[65536];
  while (text.size() < bytes && (file.read(piece, sizeof piece), file.gcount() > 0))
    text.append(piece, static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string TextAt(std::string_view cache, std::size_t at) {
  if (at >= cache.size()) return "";
  const std::string_view rest = cache.substr(at, 4096);  // PATH_MAX
  const std::size_t end = rest.find('\0');
  return std::string(end == std::string_view::npos ? "" : rest.substr(0, end));
}

}  // namespace

LoaderCache ReadLoaderCache(const std::string& path) {
  const std::string text = ReadUpTo(path, kLargestCache);
  // A table of the older format may stand before it.
  const std::size_t begin = text.find(kMagic);
  if (begin == std::string::npos || text.size() - begin < sizeof(Header)) return {};
  const std::string_view cache = std::string_view(text).substr(begin);
  Header header;
  std::memcpy(&header, cache.data(), sizeof header);
  LoaderCache found;
  for (std::size_t i = 0; i < header.entries; ++i) {
    Entry entry;
    if (sizeof header + (i + 1) * sizeof entry > cache.size()) break;
    std::memcpy(&entry, cache.data() + sizeof header + i * sizeof entry, sizeof entry);
    const std::string name = TextAt(cache, entry.key);
    if (!name.empty()) found[name].push_back(TextAt(cache, entry.value));
  }
  return found;
}

}  // namespace ncclwatch::analyzer
