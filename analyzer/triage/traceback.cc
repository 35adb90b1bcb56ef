#include "analyzer/triage/traceback.h"

#include <algorithm>
#include <cctype>

namespace ncclwatch::analyzer {

bool Traceback::Add(std::string_view line) {
  constexpr int kMost = 2000;       // lines; more is no traceback
  constexpr std::size_t kSame = 8;  // letters: clocks in the prefix may differ behind them
  ++line_;
  if (line.size() >= logger_.size() && line.substr(0, kSame) == std::string_view(logger_).substr(0, kSame))
    line.remove_prefix(logger_.size());
  const std::string_view text = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
  if (text.empty() || text.size() < line.size()) {
    if (text.substr(0, 6) == "File \"") where_ = text;
    return ++lines_ < kMost;
  }
  // "torch.OutOfMemoryError: CUDA out of memory": a dotted name, then a colon or the line's end.
  const auto is_name = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_' || letter == '.';
  };
  const auto name = std::find_if_not(text.begin(), text.end(), is_name);
  if (name != text.begin() && (name == text.end() || *name == ':')) exception_ = text;
  return false;
}

}  // namespace ncclwatch::analyzer
