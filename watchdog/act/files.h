// Writing what is found, onto file systems that may be full, read-only or slow.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::act {

// A file beside the one that is meant, renamed over it once it is whole; gone if it is not kept. The first error
// counts.
class Draft {
 public:
  Draft(const descriptors::Directory& directory, const std::string& name);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  bool Write(std::string_view content);  // appends
  std::string Keep();                    // empty, or why not

 private:
  descriptors::Directory directory_;
  std::string name_, draft_;
  int fd_ = -1;
  int error_ = 0;
  bool kept_ = false;
};

// The file appears under its name whole or not at all. Empty, or why it could not be written.
std::string WriteFile(const descriptors::Directory& directory, const std::string& name, std::string_view content);
// Likewise, from another file. Not for a file that this process holds a record lock on: closing it drops the lock.
std::string CopyFile(const descriptors::Directory& from, const descriptors::Directory& to, const std::string& name);
// mkdir -p, 0700. Empty or why not.
std::string MakeDirectories(const std::string& path);
// One folder in the directory, if it is not there. Empty or why not.
std::string MakeFolder(const descriptors::Directory& directory, const std::string& name);

}  // namespace ncclwatch::act
