// A file that a command writes from begin to end, through a buffer. Only the user may read it, whatever the umask.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/files/descriptor.h"

namespace ncclwatch::analyzer {

class OutputFile {
 public:
  enum class How {
    // The file appears under its name whole, when it is closed; without that nothing is left. `-` is standard output,
    // and a FIFO or a device is written directly. A link that the user or root has made is followed.
    kReplace,
    kAppend,  // to a regular file that is there, and no link
  };

  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Errors bear the path. After one, the following ones return it too.
  absl::Status Open(const std::string& path, How how = How::kReplace);
  absl::Status Write(std::string_view bytes);
  absl::Status Close(unsigned mode = 0600);
  std::uint64_t bytes() const { return bytes_; }  // so far

 private:
  absl::Status OpenDraft(const std::string& path);
  bool NameDraft();  // errno says why not
  absl::Status Flush();
  absl::Status Fail(const absl::Status& status);

  std::string path_, target_, draft_, buffer_;  // target_ empty: written directly; draft_ empty: without a name yet
  Descriptor file_;
  std::uint64_t bytes_ = 0;
  absl::Status status_;
};

// All of it at once.
absl::Status WriteFile(const std::string& path, std::string_view content, unsigned mode = 0600);
// mkdir -p; what is made has mode 0700.
absl::Status MakeFolders(const std::string& path);

}  // namespace ncclwatch::analyzer
