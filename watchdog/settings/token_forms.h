// Secrets that are known by their form: tokens of services that begin in a fixed way, keys, signatures in headers.
#pragma once

#include <cstddef>
#include <string_view>

namespace ncclwatch::settings {

struct Span {
  std::size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

// The token whose form begins at `at`; empty: none does. It may begin later than `at`: "Bearer " is no secret.
Span TokenAt(std::string_view text, std::size_t at);

// A token that is known by what stands within it, at `at`: "Q~" of Azure, ":" of Telegram, "." of Discord. It may begin
// before `at`.
Span TokenAround(std::string_view text, std::size_t at);

// Letters and digits in such a mixture as no word has.
bool LooksRandom(std::string_view text);

// Whether something new begins at `at`: no letter or digit stands before it, but for the end of an escape sequence
// (\n, \u0022, %3D, those of a terminal).
bool IsBoundary(std::string_view text, std::size_t at);

}  // namespace ncclwatch::settings
