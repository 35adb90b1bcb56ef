#include "analyzer/import/chakra/documents.h"

#include <fmt/core.h>

namespace ncclwatch::analyzer::import::chakra {
namespace {

constexpr std::size_t kMostObjectBytes = 64u << 20;
constexpr std::size_t kMostDepth = 1000;
constexpr std::string_view kArrays[] = {"\"nodes\"", "\"workload_graph\""};

std::string_view WithoutEnd(std::string_view text, std::string_view characters) {
  return text.substr(0, text.find_last_not_of(characters) + 1);
}

nlohmann::json ParsedObject(const std::string& text) {
  nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  return object.is_object() ? object : nlohmann::json();
}

}  // namespace

// Whether the '[' that comes now is that of the nodes: the value of the document's key.
bool ObjectCutter::BeginsArray() const {
  if (array_ || depth_ != 1) return false;
  const std::string_view key = WithoutEnd(WithoutEnd(text_, " \t\r\n"), ":");
  for (const std::string_view name : kArrays)
    if (WithoutEnd(key, " \t\r\n").ends_with(name)) return true;
  return false;
}

void ObjectCutter::Open(char bracket) {
  if (bracket == '[' && BeginsArray()) {
    array_ = true;
    head_ = ParsedObject(text_ + "[]}");
    text_.clear();
  }
  // A node begins: of an array two brackets deep, else at once.
  if (bracket == '{' && depth_ == (array_ ? 2 : 0)) text_.clear();
  ++depth_;
}

void ObjectCutter::Close(absl::FunctionRef<void(std::string_view)> take) {
  if (depth_ == 0) return;
  --depth_;
  if (depth_ != (array_ ? 2 : 0)) return;
  if (text_.starts_with('{')) take(text_);
  text_.clear();
}

absl::Status ObjectCutter::Feed(std::string_view text, absl::FunctionRef<void(std::string_view)> take) {
  for (const char c : text) {
    ++offset_;
    if (!in_text_ && (c == '{' || c == '[')) Open(c);
    text_ += c;
    if (in_text_) {
      in_text_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_text_ = true;
    } else if (c == '}' || c == ']') {
      Close(take);
    }
    if (text_.size() > kMostObjectBytes || depth_ > kMostDepth)
      return absl::DataLossError(fmt::format("at byte {}: no object of JSON is so long, or so deep", offset_));
  }
  return absl::OkStatus();
}

absl::Status ObjectCutter::End() const {
  if (depth_ == 0) return absl::OkStatus();
  return absl::DataLossError(fmt::format("at byte {}: cut off", offset_));
}

nlohmann::json ObjectCutter::Tail() const {
  const std::size_t end = text_.find(']');
  return array_ && end != std::string::npos ? ParsedObject("{\"\": null" + text_.substr(end + 1)) : nlohmann::json();
}

}  // namespace ncclwatch::analyzer::import::chakra
