// The log files below a folder, whose they are by their names, and their text block by block.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ncclwatch::analyzer {

struct LogFile {
  std::string path;
  int rank = -1;          // of the job, by its name; -1: not said
  bool is_local = false;  // `rank` is that on its host: torchrun's attempt_0/3/stderr.log
  std::string host;       // by its folder; empty: not said
  std::uint64_t bytes = 0;
};

// Files and, of folders, what lies below them that has text in it, by name. Ranks by the layouts of torchrun and Slurm,
// and by numbers in which neighbouring names differ.
absl::StatusOr<std::vector<LogFile>> FindLogs(const std::vector<std::string>& paths);

// Plain, gzip and Zstandard. Blocks end with a line, but for lines that are longer than a block, which are cut.
class BlockReader {
 public:
  explicit BlockReader(const std::string& path);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  // Valid until the next call. False: the end, or an error.
  bool Next(std::string_view* block);
  const std::string& error() const { return error_; }  // empty: none
  std::uint64_t bytes() const { return bytes_; }       // of text so far

  class Source;

 private:
  std::unique_ptr<Source> source_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what was read into buffer_ and not given
  std::string error_;
  bool ended_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace ncclwatch::analyzer
