// `*` in the pattern stands for any number of characters, also none. Capital letters matter.
#pragma once

#include <string_view>

namespace ncclwatch {

constexpr bool MatchesPattern(std::string_view pattern, std::string_view text) {
  std::size_t at = 0, in_text = 0, star = std::string_view::npos, resume = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in_text;
    } else if (at < pattern.size() && pattern[at] == text[in_text]) {
      ++at;
      ++in_text;
    } else if (star != std::string_view::npos) {
      at = star + 1;  // the star takes one character more
      in_text = ++resume;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace ncclwatch
