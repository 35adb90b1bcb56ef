// Text, without the C library.
#pragma once

#include <cstddef>

namespace ncclwatch::shim::preload {

inline std::size_t Length(const char* text) {
  std::size_t length = 0;
  while (text[length]) ++length;
  return length;
}

inline bool BeginsWith(const char* text, const char* begin) {
  while (*begin && *text == *begin) ++text, ++begin;
  return *begin == '\0';
}

// What follows the last slash.
inline const char* FileOf(const char* path) {
  const char* file = path ? path : "";
  for (const char* c = file; *c; ++c)
    if (*c == '/') file = c + 1;
  return file;
}

}  // namespace ncclwatch::shim::preload
