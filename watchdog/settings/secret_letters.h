// Signs and bounds of secret_scan.cc and secret_value.cc.
#pragma once

#include <cstddef>
#include <string_view>

namespace ncclwatch::settings {

// Bounds of what is looked at in vain, so that the time stays linear whatever the text.
inline constexpr std::size_t kLongestName = 128;
inline constexpr std::size_t kMostBlanks = 32;
inline constexpr std::size_t kMostSlashes = 4;
inline constexpr std::size_t kMostDoubtful = 64;
inline constexpr std::size_t kMostInBrackets = 4096;

inline bool IsLarge(char c) { return c >= 'A' && c <= 'Z'; }
inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }
inline bool IsLetter(char c) { return IsLarge(c) || (c >= 'a' && c <= 'z'); }
inline bool IsOfName(char c) { return IsLetter(c) || IsDigit(c) || c == '_' || c == '-' || c == '.'; }
inline bool IsOfNameOrHidden(char c) { return IsOfName(c) || c == '*'; }
inline bool IsBlank(char c) { return c == ' ' || c == '\t'; }
inline bool IsQuote(char c) { return c == '"' || c == '\'' || c == '`'; }
inline bool EndsWord(char c) { return c == '\0' || c == '\n' || c == '\r' || IsBlank(c); }
inline bool IsOneOf(char c, std::string_view letters) { return letters.find(c) != std::string_view::npos; }

}  // namespace ncclwatch::settings
