// Text files that may be compressed by gzip, read piece by piece.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct gzFile_s;

namespace ncclwatch::analyzer::import {

class TextFile {
 public:
  static absl::StatusOr<TextFile> Open(const std::string& path);
  // The next bytes, uncompressed, at most `most`; empty: the end.
  absl::StatusOr<std::string_view> Next();
  std::uint64_t offset() const { return offset_; }  // of what Next() gave last, in the uncompressed text

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  std::unique_ptr<gzFile_s, Close> file_;
  std::string buffer_;
  std::uint64_t offset_ = 0, next_ = 0;
};

// The beginning of the text, for who guesses what it is; empty if it cannot be read.
std::string FirstBytes(const std::string& path, std::size_t most);

// Its lines without their ends. Lines longer than 16 MiB are an error.
absl::Status EachLine(const std::string& path, absl::FunctionRef<void(std::string_view)> take);

}  // namespace ncclwatch::analyzer::import
