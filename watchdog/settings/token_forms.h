// Secrets that are known by their form: tokens of services that begin in a fixed way, keys, signatures in headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ncclwatch::settings {

struct Span {
  std::size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

// Which three letters a token may begin with, as a set of hashes, so that almost all places are left after one look.
using TokenBeginnings = std::array<std::uint64_t, 256>;
extern const TokenBeginnings kTokenBeginnings;
constexpr std::size_t HashOfThree(char a, char b, char c) {
  const auto of = [](char letter) { return static_cast<std::size_t>(static_cast<unsigned char>(letter)); };
  return (of(a) * 961 + of(b) * 31 + of(c)) % (64 * TokenBeginnings().size());
}
inline bool MayBeginToken(std::string_view text, std::size_t at) {
  if (text.size() - at < 3) return false;
  const std::size_t hash = HashOfThree(text[at], text[at + 1], text[at + 2]);
  return (kTokenBeginnings[hash / 64] >> (hash % 64) & 1) != 0;
}

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
