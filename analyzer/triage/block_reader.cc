#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>

#include "analyzer/files/descriptor.h"
#include "analyzer/files/input_file.h"
#include "analyzer/triage/log_file.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kBlock = 1 << 20;
constexpr std::string_view kZstdMagic("\x28\xb5\x2f\xfd", 4);

// That of the thread's last reader: many files are smaller than its pages are costly.
std::unique_ptr<char[]>& SpareBuffer() {
  thread_local std::unique_ptr<char[]> spare;
  return spare;
}

}  // namespace

class BlockReader::Source {
 public:
  virtual ~Source() = default;
  // How much, 0: the end, -1: `error` says why not.
  virtual ssize_t Read(char* to, std::size_t most, std::string* error) = 0;
};

namespace {

class Plain : public BlockReader::Source {
 public:
  explicit Plain(Descriptor file) : file_(std::move(file)) {}
  ssize_t Read(char* to, std::size_t most, std::string* error) override {
    ssize_t got = 0;
    do got = read(file_.get(), to, most);
    while (got < 0 && errno == EINTR);
    if (got < 0) *error = std::strerror(errno);
    return got;
  }

 private:
  Descriptor file_;
};

class Gzip : public BlockReader::Source {
 public:
  explicit Gzip(Descriptor file) : file_(gzdopen(file.Release(), "rb")) { gzbuffer(file_, 1 << 17); }
  ~Gzip() override { gzclose(file_); }
  ssize_t Read(char* to, std::size_t most, std::string* error) override {
    const int got = gzread(file_, to, static_cast<unsigned>(most));
    int code = 0;
    const char* const why = gzerror(file_, &code);
    if (got < 0 || (got == 0 && code != Z_OK && code != Z_STREAM_END)) {
      *error = why;
      return -1;
    }
    return got;
  }

 private:
  gzFile file_;
};

class Zstandard : public BlockReader::Source {
 public:
  explicit Zstandard(Descriptor file) : file_(std::move(file)), stream_(ZSTD_createDStream()) {}
  ~Zstandard() override { ZSTD_freeDStream(stream_); }
  ssize_t Read(char* to, std::size_t most, std::string* error) override {
    ZSTD_outBuffer out{to, most, 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size) {
        const ssize_t got = read(file_.get(), packed_, sizeof packed_);
        if (got < 0) *error = std::strerror(errno);
        if (got == 0 && left_ != 0) *error = "the file ends in the middle of a frame";
        if (got <= 0) return error->empty() ? 0 : -1;
        in_ = {packed_, static_cast<std::size_t>(got), 0};
      }
      left_ = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(left_)) {
        *error = ZSTD_getErrorName(left_);
        return -1;
      }
    }
    return static_cast<ssize_t>(out.pos);
  }

 private:
  Descriptor file_;
  ZSTD_DStream* stream_;
  char packed_[1 << 17];
  ZSTD_inBuffer in_{packed_, 0, 0};
  std::size_t left_ = 0;  // of a frame
};

}  // namespace

BlockReader::BlockReader(const std::string& path) {
  auto opened = OpenRegular(path);
  if (!opened.ok()) {
    error_ = std::string(opened.status().message());
    return;
  }
  Descriptor file = *std::move(opened);
  char magic[4] = {};
  if (pread(file.get(), magic, sizeof magic, 0) < 0) {
    error_ = std::strerror(errno);
    return;
  }
  if (std::string_view(magic, 2) == "\x1f\x8b")
    source_ = std::make_unique<Gzip>(std::move(file));
  else if (std::string_view(magic, 4) == kZstdMagic)
    source_ = std::make_unique<Zstandard>(std::move(file));
  else
    source_ = std::make_unique<Plain>(std::move(file));
}

BlockReader::~BlockReader() {
  if (buffer_) SpareBuffer() = std::move(buffer_);
}

bool BlockReader::Next(std::string_view* block) {
  if (!source_) return false;
  if (!buffer_) buffer_ = std::move(SpareBuffer());
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(2 * kBlock);
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  // One line that is longer than a block is cut.
  while (!ended_ && end_ < kBlock) {
    const ssize_t got = source_->Read(buffer_.get() + end_, kBlock, &error_);
    ended_ = got <= 0;
    if (ended_) break;
    const std::string_view fresh(buffer_.get() + end_, static_cast<std::size_t>(got));
    end_ += fresh.size();
    if (fresh.find('\n') != std::string_view::npos) break;
  }
  const std::string_view text(buffer_.get(), end_);
  const std::size_t last = text.rfind('\n');
  begin_ = ended_ || last == std::string_view::npos ? end_ : last + 1;
  bytes_ += begin_;
  *block = text.substr(0, begin_);
  return begin_ > 0;
}

}  // namespace ncclwatch::analyzer
