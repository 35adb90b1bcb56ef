// Files for what reads files: bytes under a name in a folder of this process, which is removed at its end.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace ncclwatch::testing {

class ScratchFolder {
 public:
  ScratchFolder() : path_((std::filesystem::temp_directory_path() / "ncclwatch-fuzz-XXXXXX").string()) {
    if (!mkdtemp(path_.data())) std::abort();
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string Write(const std::string& name, std::string_view bytes) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return path;
  }

 private:
  std::string path_;
};

inline std::string WriteScratch(const std::string& name, std::string_view bytes) {
  static const ScratchFolder folder;
  return folder.Write(name, bytes);
}

// An input of two files: what is before a line "====", and what is behind it.
inline std::pair<std::string_view, std::string_view> Halves(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kBetween = "\n====\n";
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t at = bytes.find(kBetween);
  if (at == bytes.npos) return {bytes, bytes};
  return {bytes.substr(0, at + 1), bytes.substr(at + kBetween.size())};
}

inline void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace ncclwatch::testing
