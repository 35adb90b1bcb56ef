// The host's standard output and error. A program may close them, and the next file that it opens gets their numbers:
// a checkpoint must not begin with a line of ours.
#pragma once

#include <cstdint>
#include <string_view>

namespace ncclwatch::descriptors {

// Which file a descriptor is.
struct StandardFile {
  bool open = false;
  std::uint32_t type = 0;  // S_IFMT of its mode
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t special = 0;  // of a device: which one
  bool operator==(const StandardFile&) const = default;
};

// Whether descriptor 1 or 2 is the file that it was when this library was loaded. False if it was closed then.
bool IsAsLoaded(int fd);

// Done at load. Again by who has put other files there for our lines.
void RememberStandardFiles();
// By who was loaded before: before the program could close any.
void RememberStandardFile(int fd, const StandardFile& file);

// Whole lines, in one piece if they are short, to standard error; to nobody if that is another file by now. A pipe that
// has no room for so long, or no reader, loses the rest.
void WriteLines(std::string_view lines, int patience_ms);

}  // namespace ncclwatch::descriptors
