// Which lines of /proc/self/maps name modules, taken from pieces of the file as they are read. Async-signal-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace ncclwatch::shim {

class MappingFilter {
 public:
  void Begin() {
    used_ = 0;
    too_long_ = false;
  }
  // Calls tell(line, bytes) for each line to be kept, with its newline. False as soon as tell() says so.
  template <class Tell>
  bool Take(const char* text, std::size_t bytes, Tell tell) {
    while (bytes > 0) {
      const void* const newline = std::memchr(text, '\n', bytes);
      const std::size_t part = newline ? static_cast<std::size_t>(static_cast<const char*>(newline) - text) + 1 : bytes;
      Add(text, part);
      text += part;
      bytes -= part;
      if (!newline) return true;
      const bool go_on = too_long_ || !NamesModule(line_, used_) || tell(line_, used_);
      Begin();
      if (!go_on) return false;
    }
    return true;
  }

  // "7f12a000-7f12b000 r-xp 00001000 fe:01 1234    /usr/lib/libx.so". Code of any kind, and the beginning of each file,
  // which tells two copies of one library apart.
  static bool NamesModule(const char* line, std::size_t bytes) {
    const char* const end = line + bytes;
    const char* const rights = std::find(line, end, ' ');
    if (end - rights < 7) return false;
    if (rights[3] == 'x') return true;
    const bool begins = std::all_of(rights + 6, std::find(rights + 6, end, ' '), [](char c) { return c == '0'; });
    return begins && rights[2] == '-' && rights[4] == 'p' && std::find(rights, end, '/') != end;
  }

 private:
  void Add(const char* text, std::size_t bytes) {
    if (too_long_ || bytes > sizeof line_ - used_) {
      too_long_ = true;
      return;
    }
    std::memcpy(line_ + used_, text, bytes);
    used_ += bytes;
  }

  char line_[4096 + 128] = {};  // PATH_MAX and the numbers
  std::size_t used_ = 0;
  bool too_long_ = false;
};

}  // namespace ncclwatch::shim
