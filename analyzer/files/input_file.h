// Files that the user or another program names, opened for reading. Only regular files are read: a FIFO would hold the
// command for ever, and /dev/zero has no end. `-` is standard input, whatever it is.
#pragma once

#include <absl/status/statusor.h>
#include <ext/stdio_filebuf.h>

#include <cstdint>
#include <istream>
#include <string>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer {

inline constexpr char kStandardStream[] = "-";  // standard input or output instead of a file
inline constexpr std::uint64_t kMostInputBytes = std::uint64_t{4} << 30;

// Errors bear the path.
absl::StatusOr<Descriptor> OpenRegular(const std::string& path);
// The whole file; an error if it is larger than `most_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most_bytes = kMostInputBytes);

// As std::ifstream: false after a failed opening, of which `status` tells the reason.
class InputFile : public std::istream {
 public:
  explicit InputFile(const std::string& path, std::uint64_t most_bytes = kMostInputBytes);
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
  __gnu_cxx::stdio_filebuf<char> buffer_;
};

}  // namespace ncclwatch::analyzer
