// Small text files of a run directory, line by line and word by word. Nothing here trusts a byte.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "core/reader/file.h"
#include "core/reader/stacks.h"
#include "core/text/printable.h"
#include "watchdog/descriptors/directory.h"

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

// The rest of a line as text that may be printed and written again: what was cut and cleaned once stays as it is.
inline std::string LineText(std::string_view rest) {
  constexpr std::size_t kMostText = 400;  // bytes of one frame or state
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  std::string text = Printable(rest.substr(0, kMostText));
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// "process pid N start T rank R host H at_ns NS": pairs of name and value in any order, unknown names passed over;
// after the first word, and the whole line with its end.
inline std::optional<ProcessStacks> ParseProcessLine(std::string_view line) {
  ProcessStacks process;
  bool whole = true;
  for (std::string_view name = Word(&line); !name.empty(); name = Word(&line)) {
    const std::string_view value = Word(&line);
    if (name == "pid") whole &= ReadNumber(value, &process.pid);
    if (name == "start") whole &= ReadNumber(value, &process.start_time);
    if (name == "at_ns") whole &= ReadNumber(value, &process.at_ns);
    if (name == "rank" && !ReadNumber(value, &process.rank)) process.rank = -1;
    if (name == "host") process.host = LineText(value);
  }
  if (process.host.empty()) process.host = kNoHost;
  if (!whole || process.pid == 0 || process.start_time == 0) return std::nullopt;
  return process;
}

inline std::string ProcessLine(const ProcessStacks& process) {
  return "process pid " + std::to_string(process.pid) + " start " + std::to_string(process.start_time) + " rank " +
         std::to_string(process.rank) + " host " + process.host + " at_ns " + std::to_string(process.at_ns) + "\n";
}

// Of a file in the directory, at most so many bytes; empty if it cannot be read.
inline std::string Beginning(const descriptors::Directory& directory, const std::string& name, std::size_t most) {
  const File file(directory, name);
  if (!file.reason().empty()) return {};
  std::string text(std::min<std::uint64_t>(file.bytes(), most), '\0');
  text.resize(file.ReadAt(0, text.data(), text.size()));
  return text;
}

}  // namespace ncclwatch::reader
