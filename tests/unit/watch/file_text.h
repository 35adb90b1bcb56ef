#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace ncclwatch::act {

inline std::string Content(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ncclwatch::act
