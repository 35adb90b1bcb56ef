// A folder of /proc, kept open: files that are read of it later are of the same process or thread, or fail.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::stacks {

class ProcFolder {
 public:
  explicit ProcFolder(const std::string& path);

  bool ok() const { return static_cast<bool>(folder_); }
  // None if it cannot be read; error() says why.
  std::optional<std::string> Read(const char* name, std::size_t limit = 1 << 16) const;
  // The same of a file that fits into one read of a page: most of a thread's.
  std::optional<std::string> ReadShort(const char* name) const;
  std::optional<std::string> Link(const char* name) const;
  std::vector<std::string> Names(const char* folder = ".") const;  // without those that begin with a dot
  int error() const { return error_; }
  int descriptor() const { return folder_.get(); }

 private:
  analyzer::Descriptor folder_;
  mutable int error_ = 0;
};

// The value of "Name:\tvalue" in a file like status; empty if it has none.
std::string FieldOf(const std::string& text, const char* name);

}  // namespace ncclwatch::stacks
