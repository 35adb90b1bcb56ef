// Small files and links of the system, read without a point at which the calling thread may be cancelled.
#pragma once

#include <cstdint>
#include <string>

namespace ncclwatch::settings {

struct PlainFile {
  int error = 0;  // errno; ELOOP: a link, EFBIG: more than `most`
  bool regular = false;
  std::uint32_t owner = 0;
  std::uint32_t mode = 0;
  std::string text;
};

// Never waits, whatever kind of file it is. Links at the end of the path are followed only if asked for.
PlainFile ReadPlain(const char* path, std::size_t most, bool follow = false);
// Where a link leads; empty if that cannot be told.
std::string ReadLink(const char* path);

}  // namespace ncclwatch::settings
