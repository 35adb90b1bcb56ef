// Writes a pickle of plain data as torch's own pickler does: protocol 2, every string once.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer::exporting {

class PickleWriter {
 public:
  PickleWriter();

  void None();
  void Bool(bool value);
  void Integer(std::int64_t value);
  void String(std::string_view text);
  // What is written between the two becomes the items; in a dictionary keys and values in turn.
  void BeginList();
  void EndList();
  void BeginDictionary();
  void EndDictionary();
  void Pair(std::string_view first, std::string_view second);  // a tuple of two strings

  void Key(std::string_view key) { String(key); }
  void Item(std::string_view key, std::string_view value);
  void Item(std::string_view key, const char* value) { Item(key, std::string_view(value)); }
  void Item(std::string_view key, std::int64_t value);
  void Item(std::string_view key, bool value);

  std::string Take();  // all of it, ended

 private:
  void Byte(char byte) { bytes_ += byte; }
  template <typename T>
  void Fixed(T value);

  std::string bytes_;
  absl::flat_hash_map<std::string, std::uint32_t> numbers_;  // of strings that are there already
};

}  // namespace ncclwatch::analyzer::exporting
