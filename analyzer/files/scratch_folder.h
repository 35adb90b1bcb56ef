// A folder of the command's own among the temporary ones, which goes with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

class ScratchFolder {
 public:
  explicit ScratchFolder(std::string_view purpose) {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    std::string name = (parent / ("ncclwatch-" + std::string(purpose) + "-XXXXXX")).string();
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }  // empty: it could not be made

 private:
  std::string path_;
};

}  // namespace ncclwatch::analyzer
