// The directories that boxes lie in, each once.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::reader {

inline std::set<std::string> FoldersOf(const std::vector<BoxImage>& boxes) {
  std::set<std::string> folders;
  for (const BoxImage& box : boxes) {
    const std::size_t slash = box.path.rfind('/');
    folders.insert(slash == std::string::npos ? "." : box.path.substr(0, slash));
  }
  return folders;
}

}  // namespace ncclwatch::reader
