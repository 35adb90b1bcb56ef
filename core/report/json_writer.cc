#include "core/report/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "core/text/printable.h"

namespace ncclwatch::diagnosis {
namespace {

void AppendEscaped(std::string_view text, std::string* to) {
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      *to += '\\';
      *to += c;
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\u%04x", static_cast<unsigned>(c));
      *to += buffer;
      ++i;
    } else if (const std::size_t length = printable::SequenceLength(text.substr(i)); length > 0) {
      *to += PrintableJson(text.substr(i, length));
      i += length;
    } else {
      *to += "\xef\xbf\xbd";
      ++i;
    }
  }
}

}  // namespace

void JsonWriter::Newline() {
  if (layout_ == Layout::kOneLine) return;
  text_ += '\n';
  text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) text_ += line_ ? ", " : ",";
  if (depth_ > 0 && !line_) Newline();
  first_ = false;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  text_ += '{';
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  text_ += '[';
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginLine() {
  BeginArray();
  line_ = true;
  return *this;
}

void JsonWriter::Close(char bracket) {
  --depth_;
  if (!first_ && !line_) Newline();
  line_ = false;
  text_ += bracket;
  first_ = false;
}

JsonWriter& JsonWriter::EndObject() {
  Close('}');
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  Close(']');
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  text_ += '"';
  AppendEscaped(key, &text_);
  text_ += "\": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  text_ += '"';
  AppendEscaped(text, &text_);
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  text_ += json;
  return *this;
}

JsonWriter& JsonWriter::Integer(std::int64_t value) {
  Separate();
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Unsigned(std::uint64_t value) {
  Separate();
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  text_ += fmt::format("{}", value);
  return *this;
}

JsonWriter& JsonWriter::Seconds(double value) {
  Separate();
  // Not %f: the host program's locale may say comma.
  const auto thousandths = static_cast<std::int64_t>(value * 1000 + (value < 0 ? -0.5 : 0.5));
  const std::int64_t magnitude = thousandths < 0 ? -thousandths : thousandths;
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%s%lld.%03lld", thousandths < 0 ? "-" : "",
                static_cast<long long>(magnitude / 1000), static_cast<long long>(magnitude % 1000));
  text_ += buffer;
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  text_ += "null";
  return *this;
}

std::string JsonWriter::Take() {
  text_ += '\n';
  return std::move(text_);
}

}  // namespace ncclwatch::diagnosis
