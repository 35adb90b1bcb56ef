// A file that is written from begin to end, through a buffer.
#pragma once

#include <absl/status/status.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer::exporting {

inline constexpr char kStandardOutput[] = "-";

class OutputFile {
 public:
  // how: O_TRUNC, or O_APPEND.
  absl::Status Open(const std::string& path, int how = O_TRUNC) {
    path_ = path;
    bytes_ = 0;
    // A duplicate: closing it leaves the command's own open.
    const int opened =
        path == kStandardOutput ? dup(STDOUT_FILENO) : open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
    file_ = Descriptor(opened);
    return opened < 0 ? absl::ErrnoToStatus(errno, path) : absl::OkStatus();
  }
  absl::Status Write(std::string_view bytes) {
    bytes_ += bytes.size();
    buffer_.append(bytes);
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Close() {
    absl::Status status = Flush();
    file_ = Descriptor();
    return status;
  }
  std::uint64_t bytes() const { return bytes_; }  // so far

 private:
  static constexpr std::size_t kBufferBytes = 1 << 20;

  absl::Status Flush() {
    for (std::string_view left = buffer_; !left.empty();) {
      const ssize_t count = write(file_.get(), left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return absl::ErrnoToStatus(errno, path_);
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    buffer_.clear();
    return absl::OkStatus();
  }

  std::string path_, buffer_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace ncclwatch::analyzer::exporting
