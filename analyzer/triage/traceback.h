// A Python traceback, kept whole: the exception that ends it is one event, wherever its lines lie.
#pragma once

#include <absl/time/time.h>

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

class Traceback {
 public:
  Traceback(std::uint64_t line, std::optional<absl::Time> at, int local_rank)
      : line_(line), at_(at), local_rank_(local_rank) {}

  // The line after those that were added. False: it is the exception that ends the traceback, or no part of it.
  bool Add(std::string_view line) {
    ++line_;
    std::string_view text = line;
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
    if (text.empty() || text.size() < line.size()) {
      if (text.substr(0, 6) == "File \"") where_ = text;
      return ++lines_ < kMost;
    }
    // "torch.OutOfMemoryError: CUDA out of memory": a dotted name, then a colon or the line's end.
    std::size_t name = 0;
    while (name < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[name])) || text[name] == '_' || text[name] == '.'))
      ++name;
    if (name > 0 && (name == text.size() || text[name] == ':')) exception_ = text;
    return false;
  }

  bool HasException() const { return !exception_.empty(); }
  const std::string& exception() const { return exception_; }
  const std::string& where() const { return where_; }  // the innermost frame: "File "x.py", line 3, in f"
  std::uint64_t line_of_exception() const { return line_; }
  std::optional<absl::Time> at() const { return at_; }
  int local_rank() const { return local_rank_; }

 private:
  static constexpr int kMost = 2000;  // lines; more is no traceback

  std::uint64_t line_;
  std::optional<absl::Time> at_;
  int local_rank_;
  int lines_ = 0;
  std::string where_, exception_;
};

}  // namespace ncclwatch::analyzer
