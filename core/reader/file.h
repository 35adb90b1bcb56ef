// A regular file opened for reading; no link, and nothing that could block or be a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "watchdog/descriptors/directory.h"

namespace ncclwatch::reader {

class File {
 public:
  explicit File(const std::string& path);
  File(const descriptors::Directory& directory, const std::string& name);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& reason() const { return reason_; }  // why it cannot be read; empty if it can
  int descriptor() const { return descriptor_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t inode() const { return inode_; }
  // Bytes got: fewer than asked for at the end of the file or on an error.
  std::size_t ReadAt(std::uint64_t offset, void* to, std::size_t bytes) const;

 private:
  explicit File(int descriptor);
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint64_t inode_ = 0;
  std::string reason_;
};

}  // namespace ncclwatch::reader
