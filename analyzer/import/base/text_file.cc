#include "analyzer/import/base/text_file.h"

#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>

#include "analyzer/files/input_file.h"

namespace ncclwatch::analyzer::import {
namespace {

constexpr unsigned kPiece = 1 << 20;             // bytes
constexpr std::size_t kLongestLine = 16u << 20;  // bytes

}  // namespace

void TextFile::Close::operator()(gzFile_s* file) const { gzclose(file); }

absl::StatusOr<TextFile> TextFile::Open(const std::string& path) {
  auto descriptor = OpenRegular(path);
  if (!descriptor.ok()) return descriptor.status();
  TextFile file;
  const int own = dup(descriptor->get());
  file.file_.reset(gzdopen(own, "rb"));
  if (!file.file_) {
    close(own);
    return absl::ResourceExhaustedError(path + ": cannot be opened");
  }
  gzbuffer(file.file_.get(), kPiece);
  file.buffer_.resize(kPiece);
  return file;
}

absl::StatusOr<std::string_view> TextFile::Next() {
  const int got = gzread(file_.get(), buffer_.data(), kPiece);
  int error = Z_OK;
  const char* reason = gzerror(file_.get(), &error);
  if (got < 0 || (got == 0 && error != Z_OK))
    return absl::DataLossError(fmt::format("at byte {}: {}", next_, error == Z_BUF_ERROR ? "cut off" : reason));
  offset_ = next_;
  next_ += static_cast<std::uint64_t>(got);
  return std::string_view(buffer_).substr(0, static_cast<std::size_t>(got));
}

std::string FirstBytes(const std::string& path, std::size_t most) {
  auto file = TextFile::Open(path);
  if (!file.ok()) return "";
  const auto piece = file->Next();
  return piece.ok() ? std::string(piece->substr(0, most)) : "";
}

absl::Status EachLine(const std::string& path, absl::FunctionRef<void(std::string_view)> take) {
  auto file = TextFile::Open(path);
  if (!file.ok()) return file.status();
  std::string rest;
  for (;;) {
    const auto piece = file->Next();
    if (!piece.ok()) {
      if (!rest.empty()) take(rest);
      return piece.status();
    }
    if (piece->empty()) break;
    std::string_view text = *piece;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      rest += text.substr(0, end);
      take(rest);
      rest.clear();
      text.remove_prefix(end + 1);
    }
    rest += text;
    if (rest.size() > kLongestLine)
      return absl::DataLossError(fmt::format("at byte {}: a line without an end", file->offset()));
  }
  if (!rest.empty()) take(rest);
  return absl::OkStatus();
}

}  // namespace ncclwatch::analyzer::import
