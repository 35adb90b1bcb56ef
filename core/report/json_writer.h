// A small writer of JSON, indented or in one line: keys and values in the order in which they are given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ncclwatch::diagnosis {

class JsonWriter {
 public:
  enum class Layout { kIndented, kOneLine };
  explicit JsonWriter(Layout layout = Layout::kIndented) : layout_(layout) {}
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& BeginLine();  // an array on one line, of plain values; ends with EndArray
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view text);  // what is not UTF-8 becomes U+FFFD
  JsonWriter& Integer(std::int64_t value);
  JsonWriter& Unsigned(std::uint64_t value);
  JsonWriter& Seconds(double value);  // three decimals
  JsonWriter& Number(double value);   // as short as tells it apart; null of what is no number
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Raw(std::string_view json);  // a value, as it is
  std::string Take();                      // with a newline at the end

 private:
  void Separate();
  void Close(char bracket);
  void Newline();
  const Layout layout_;
  std::string text_;
  int depth_ = 0;
  bool first_ = true;
  bool after_key_ = false;
  bool line_ = false;
};

}  // namespace ncclwatch::diagnosis
