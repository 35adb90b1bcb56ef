#include "analyzer/segments/segment_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "analyzer/files/input_file.h"
#include "analyzer/segments/segment_calls.h"

namespace ncclwatch::analyzer {
namespace {

namespace fs = std::filesystem;

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::ErrnoToStatus(n < 0 ? errno : EIO, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace

void SegmentWriter::Mend(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file || flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  // Looked at again: now nobody writes.
  const auto whole = SegmentFile::Open(path);
  if (!whole.ok() || (*whole)->damage().ok()) return;
  // What is no beginning of a segment is not ours.
  const auto end = static_cast<off_t>((*whole)->whole_bytes());
  char begins[sizeof format::kSegmentMagic];
  const ssize_t got = pread(file.get(), begins, sizeof begins, end);
  if (got <= 0 || std::memcmp(begins, format::kSegmentMagic, static_cast<std::size_t>(got)) != 0) return;
  if (ftruncate(file.get(), end) != 0) return;  // a reader will say what is wrong with it
}

absl::Status SegmentWriter::Append(const std::string& segment) {
  if (!file_) file_ = Descriptor(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!file_) return absl::ErrnoToStatus(errno, path_);
  if (bytes_ == 0) flock(file_.get(), LOCK_EX | LOCK_NB);
  const absl::Status written = WriteAll(file_.get(), segment);
  struct stat now {};
  // A file that was removed keeps what is written to it from everybody.
  const bool removed = fstat(file_.get(), &now) != 0 || now.st_nlink == 0;
  if (written.ok() && !removed) {
    bytes_ += segment.size();
    return absl::OkStatus();
  }
  if (bytes_ == 0) unlink(path_.c_str());  // an empty file would be a recording without calls
  if (removed || bytes_ == 0 || ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) file_ = Descriptor();
  return removed ? absl::NotFoundError(path_ + ": it was removed")
                 : absl::Status(written.code(), absl::StrCat(path_, ": ", written.message()));
}

absl::Status SegmentFile::At(std::uint64_t offset, const absl::Status& what) const {
  return {what.code(), absl::StrCat("at byte ", offset, ": ", what.message())};
}

absl::StatusOr<std::string> SegmentFile::Bytes(std::uint64_t offset, std::uint64_t count) const {
  std::string bytes(count, '\0');
  std::size_t got = 0;
  while (got < count) {
    const ssize_t n = pread(file_.get(), bytes.data() + got, count - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "cannot be read");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

absl::StatusOr<std::shared_ptr<const SegmentFile>> SegmentFile::Open(const std::string& path) {
  const std::shared_ptr<SegmentFile> made(new SegmentFile());
  SegmentFile& file = *made;
  file.path_ = path;
  auto opened = OpenRegular(path);
  if (!opened.ok()) return opened.status();
  file.file_ = *std::move(opened);
  struct stat info {};
  if (fstat(file.file_.get(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  for (std::uint64_t at = 0; at < size;) {
    const auto head = file.Bytes(at, sizeof(format::SegmentHeader));
    if (!head.ok()) return head.status();
    const auto header = ReadSegmentHeader(*head, size - at);
    if (!header.ok()) {
      file.damage_ = file.At(at, header.status());
      break;
    }
    const auto bytes = file.Bytes(at, sizeof(format::SegmentHeader) + header->index_bytes);
    if (!bytes.ok()) return bytes.status();
    auto index = ReadSegmentIndex(*bytes);
    if (!index.ok()) {
      file.damage_ = file.At(at, index.status());
      break;
    }
    file.places_.push_back({at, *std::move(index)});
    at += header->bytes;
    file.whole_bytes_ = at;
  }
  return made;
}

absl::StatusOr<reader::BoxImage> SegmentFile::Read(const Place& place, bool with_calls) const {
  const auto calls = ReadCalls(place);
  if (!calls.ok()) return calls.status();
  if (with_calls) (*calls)->KeepAll();
  if (const absl::Status finished = (*calls)->Finish(); !finished.ok()) return At(place.offset, finished);
  return std::move((*calls)->image);
}

absl::StatusOr<std::unique_ptr<SegmentCalls>> SegmentFile::ReadCalls(const Place& place) const {
  const auto bytes = Bytes(place.offset, place.index.header.bytes);
  if (!bytes.ok()) return At(place.offset, bytes.status());
  auto calls = SegmentCalls::Open(*bytes);
  if (!calls.ok()) return At(place.offset, calls.status());
  (*calls)->image.path = path_;
  return calls;
}

std::vector<std::string> SegmentFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator next(directory, error); !error && next != fs::directory_iterator(); next.increment(error))
    if (next->path().extension() == format::kSegmentSuffix) files.push_back(next->path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace ncclwatch::analyzer
