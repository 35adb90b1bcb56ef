#include "analyzer/import/inspector/read.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "analyzer/import/base/in_parallel.h"

namespace ncclwatch::analyzer::import::inspector {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestLine = 1 << 20;    // a verbose one of 64 channels has 30,000 bytes
constexpr std::size_t kMostOfAMember = 1 << 16;  // operations, the newest ones
constexpr unsigned kBuffer = 1 << 18;

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, Close>;

// Lines as they come, whatever the pieces of text.
class LineReader {
 public:
  LineReader(std::string name, Recording* recording) : name_(std::move(name)), recording_(*recording) {}

  void Take(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      const std::string_view piece = text.substr(0, end);
      if (rest_.size() + piece.size() <= kLongestLine)
        rest_ += piece;
      else
        too_long_ = true;
      if (end == std::string_view::npos) return;
      TakeLine(true);
      text.remove_prefix(end + 1);
    }
  }

  void End(std::string_view reason) {
    if (!rest_.empty() || too_long_) TakeLine(false);
    if (!reason.empty()) Complain(std::string(reason));
    if (!complaint_.empty() && damaged_ > 1) complaint_ += fmt::format(", and {} more lines of it", damaged_ - 1);
    if (!complaint_.empty()) recording_.complaints.push_back(std::move(complaint_));
  }

 private:
  void TakeLine(bool whole) {
    ++number_;
    const std::string line = std::exchange(rest_, {});
    if (std::exchange(too_long_, false)) return Damaged("longer than a line can be");
    if (line.find_first_not_of(" \t\r") == std::string::npos) return;
    absl::StatusOr<Line> read = ParseLine(line);
    if (read.ok()) return Add(std::move(*read));
    if (absl::IsUnimplemented(read.status())) {
      ++recording_.unknown;
      return;
    }
    Damaged(whole ? std::string(read.status().message()) : "cut off: it ends in the middle of a line");
  }

  void Add(Line line) {
    ++recording_.lines;
    recording_.untimed += line.operation.kernel_ns == 0;
    std::vector<Operation>& operations = recording_.operations[line.member];
    operations.push_back(line.operation);
    if (operations.size() < 2 * kMostOfAMember) return;
    operations.erase(operations.begin(), operations.begin() + kMostOfAMember);
    recording_.passed_over += kMostOfAMember;
  }

  void Damaged(std::string reason) {
    ++recording_.damaged;
    ++damaged_;
    Complain(std::move(reason));
  }
  void Complain(std::string reason) {
    if (complaint_.empty()) complaint_ = fmt::format("{}:{}: {}", name_, number_, reason);
  }

  const std::string name_;
  Recording& recording_;
  std::string rest_, complaint_;
  bool too_long_ = false;
  std::size_t number_ = 0, damaged_ = 0;
};

void ReadFile(const std::string& path, Recording* recording) {
  LineReader lines(path, recording);
  const GzFile file(gzopen(path.c_str(), "rb"));
  if (!file) return lines.End("cannot be opened");
  gzbuffer(file.get(), kBuffer);
  std::string buffer(kBuffer, '\0');
  int got = 0;
  while ((got = gzread(file.get(), buffer.data(), kBuffer)) > 0)
    lines.Take({buffer.data(), static_cast<std::size_t>(got)});
  int error = Z_OK;
  gzerror(file.get(), &error);
  lines.End(got < 0 || error == Z_BUF_ERROR ? "cannot be read to its end: what is compressed is damaged, or cut off"
                                            : "");
}

void AddTo(Recording* all, Recording one) {
  for (auto& [member, operations] : one.operations) {
    std::vector<Operation>& to = all->operations[member];
    to.insert(to.end(), operations.begin(), operations.end());
  }
  std::move(one.complaints.begin(), one.complaints.end(), std::back_inserter(all->complaints));
  all->lines += one.lines;
  all->damaged += one.damaged;
  all->unknown += one.unknown;
  all->untimed += one.untimed;
  all->passed_over += one.passed_over;
}

}  // namespace

bool IsFile(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const GzFile file(gzopen(path.c_str(), "rb"));
  char first[4096];
  const int got = file ? gzread(file.get(), first, sizeof first) : 0;
  return got > 0 && LooksLikeLine({first, static_cast<std::size_t>(got)});
}

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator next(directory, error), end; !error && next != end; next.increment(error))
    if (IsFile(next->path())) files.push_back(next->path());
  std::sort(files.begin(), files.end());
  return files;
}

void ReadText(const std::string& name, std::string_view text, Recording* recording) {
  LineReader lines(name, recording);
  lines.Take(text);
  lines.End("");
}

Recording Read(const std::vector<std::string>& files, const std::function<void(std::size_t)>& done) {
  std::vector<Recording> read(files.size());
  InParallel(
      files.size(), [&](std::size_t i) { ReadFile(files[i], &read[i]); }, done);
  Recording all;
  for (Recording& one : read) AddTo(&all, std::move(one));
  return all;
}

}  // namespace ncclwatch::analyzer::import::inspector
