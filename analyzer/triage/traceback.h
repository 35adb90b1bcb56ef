// A Python traceback, kept whole: the exception that ends it is one event, wherever its lines lie.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ncclwatch::analyzer {

class Traceback {
 public:
  // `logger`: what stands before "Traceback" in its first line, and then before each line.
  Traceback(std::uint64_t line, std::string_view logger) : line_(line), logger_(logger) {}

  // The line after those that were added. False: it is the exception that ends the traceback, or no part of it.
  bool Add(std::string_view line);

  std::optional<absl::Time> at;
  bool own_time = false;  // `at` stands in its first line
  bool caught = false;    // the line behind it says that the program lives with it
  bool chained = false;   // raised while an exception that was reported before was handled

  bool HasException() const { return !exception_.empty(); }
  const std::string& exception() const { return exception_; }
  const std::string& where() const { return where_; }  // the innermost frame: "File "x.py", line 3, in f"
  std::uint64_t line_of_exception() const { return line_; }

 private:
  std::uint64_t line_;
  std::string logger_;
  int lines_ = 0;
  std::string where_, exception_;
};

}  // namespace ncclwatch::analyzer
