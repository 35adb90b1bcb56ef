// Small text files of a run directory, line by line and word by word. Nothing here trusts a byte.
#pragma once

#include <algorithm>
#include <charconv>
#include <string_view>

namespace ncclwatch::reader {

// The lines of a text, without their ends.
class Lines {
 public:
  explicit Lines(std::string_view text) : left_(text) {}
  bool Next(std::string_view* line) {
    if (left_.empty()) return false;
    const std::size_t end = std::min(left_.find('\n'), left_.size());
    *line = left_.substr(0, end);
    left_.remove_prefix(std::min(end + 1, left_.size()));
    return true;
  }

 private:
  std::string_view left_;
};

// The next word of a line; empty at its end.
inline std::string_view Word(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(' '), line->size()));
  const std::size_t end = std::min(line->find(' '), line->size());
  const std::string_view word = line->substr(0, end);
  line->remove_prefix(end);
  return word;
}

// False, and *to as it was, where the word is not all of it a number that fits.
template <typename Number>
bool ReadNumber(std::string_view word, Number* to) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || word.empty()) return false;
  *to = value;
  return true;
}

}  // namespace ncclwatch::reader
