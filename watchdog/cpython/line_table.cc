#include "watchdog/cpython/line_table.h"

#include <cstddef>

namespace ncclwatch::cpython {
namespace {

std::uint8_t Byte(std::string_view table, std::size_t at) { return static_cast<std::uint8_t>(table[at]); }
std::int8_t Signed(std::string_view table, std::size_t at) { return static_cast<std::int8_t>(table[at]); }

int Line(std::int64_t line) { return line > 0 && line <= INT32_MAX ? static_cast<int>(line) : 0; }

// Pairs of (bytes further, lines further): the line changes where the bytes are reached (Objects/lnotab_notes.txt).
int OfLnotab(std::string_view table, std::int64_t line, std::int64_t offset) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    at += Byte(table, i);
    if (at > offset) break;
    line += Signed(table, i + 1);
  }
  return Line(line);
}

// Pairs of (bytes of this stretch, lines further), PEP 626.
int OfLinetable(std::string_view table, std::int64_t line, std::int64_t offset) {
  constexpr std::int8_t kNoLine = -128;
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const std::int8_t further = Signed(table, i + 1);
    if (further != kNoLine) line += further;
    end += Byte(table, i);
    if (offset < end) return further == kNoLine ? 0 : Line(line);
  }
  return 0;
}

// Six bits a byte, least significant first, the bit after them says that more follow; then the sign is the lowest bit.
std::int64_t SignedVarint(std::string_view table, std::size_t at) {
  constexpr unsigned kBits = 6, kMore = 0x40, kMost = 36;
  std::uint64_t value = 0;
  for (unsigned shift = 0; at < table.size() && shift <= kMost; shift += kBits, ++at) {
    value |= std::uint64_t{Byte(table, at) & (kMore - 1)} << shift;
    if ((Byte(table, at) & kMore) == 0) break;
  }
  const auto size = static_cast<std::int64_t>(value >> 1);
  return (value & 1) != 0 ? -size : size;
}

// Entries begin with a byte that has the highest bit set: four bits of form, three of length (PEP 657,
// InternalDocs/code_objects.md).
int OfLocations(std::string_view table, std::int64_t line, std::int64_t offset) {
  constexpr unsigned kFirst = 0x80, kUnit = 2;
  constexpr unsigned kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < table.size();) {
    const unsigned form = Byte(table, i) >> 3 & 0xf;
    end += std::int64_t{(Byte(table, i) & 7) + 1} * kUnit;
    if (form >= kOneLine0 && form <= kOneLine2) line += form - kOneLine0;
    if (form == kNoColumns || form == kLong) line += SignedVarint(table, i + 1);
    if (line < INT32_MIN || line > INT32_MAX) return 0;
    if (offset < end) return form == kNone ? 0 : Line(line);
    do ++i;
    while (i < table.size() && Byte(table, i) < kFirst);
  }
  return 0;
}

}  // namespace

int LineAt(int minor, std::string_view table, int first_line, std::int64_t offset) {
  if (offset < 0) return Line(first_line);
  if (minor <= 9) return OfLnotab(table, first_line, offset);
  return minor == 10 ? OfLinetable(table, first_line, offset) : OfLocations(table, first_line, offset);
}

}  // namespace ncclwatch::cpython
