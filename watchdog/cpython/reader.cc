#include "watchdog/cpython/reader.h"

#include <algorithm>
#include <array>

namespace ncclwatch::cpython {

std::optional<std::string> Reader::Text(std::uint64_t address, std::size_t limit) {
  constexpr std::uint64_t kPageBytes = 4096;
  std::string text;
  std::array<char, 64> piece;
  while (text.size() < limit) {
    // Pieces do not cross pages: the next one may not be there.
    std::size_t bytes = std::min<std::size_t>(piece.size(), kPageBytes - (address + text.size()) % kPageBytes);
    bytes = std::min(bytes, limit - text.size());
    if (!Read(address + text.size(), piece.data(), bytes)) {
      if (text.empty()) return std::nullopt;
      return text;
    }
    const auto end = std::find(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(bytes), '\0');
    text.append(piece.begin(), end);
    if (end != piece.begin() + static_cast<std::ptrdiff_t>(bytes)) break;
  }
  return text;
}

}  // namespace ncclwatch::cpython
