// Text from elsewhere (call sites, host and job names, file names, what a server answers) on its way to a terminal or a
// file that people read: nothing in it may steer the terminal. The only definition; every line that is printed passes
// through it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ncclwatch {

namespace printable {

// Bytes of the UTF-8 sequence at the front, 0 if it is none.
inline std::size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80                    ? 1
                             : lead >= 0xc2 && lead <= 0xdf ? 2
                             : (lead >> 4) == 14            ? 3
                             : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  // Longer than need be: U+009B in three bytes is taken for what it is by some terminals. Nor halves of a pair of
  // UTF-16, and what lies behind U+10FFFF.
  const auto second = static_cast<unsigned char>(length > 1 ? text[1] : 0);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90)) return 0;
  return (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f) ? 0 : length;
}

// U+0000 to U+001F, U+007F, and U+0080 to U+009F (CSI and OSC in one character).
inline bool IsControl(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  return lead < 0x20 || lead == 0x7f || (lead == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0);
}

}  // namespace printable

// In place, without memory of its own: control characters (also line ends and tabs) and bytes that are not UTF-8 become
// '?'. The bytes that are left.
inline std::size_t MakePrintable(char* text, std::size_t bytes) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < bytes;) {
    const std::size_t length = printable::SequenceLength({text + i, bytes - i});
    const std::size_t step = length == 0 ? 1 : length;
    if (length == 0 || printable::IsControl({text + i, step})) {
      text[kept++] = '?';
    } else {
      for (std::size_t j = 0; j < step; ++j) text[kept++] = text[i + j];
    }
    i += step;
  }
  return kept;
}

// One line.
inline std::string Printable(std::string_view text) {
  std::string line(text);
  line.resize(MakePrintable(line.data(), line.size()));
  return line;
}

// Several lines, whose line ends stay.
inline std::string PrintableLines(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += Printable(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

// JSON that a library has written, which escapes only what JSON says it must: the other control characters lie inside
// strings, and become \u007f or \u0080 to \u009f there.
inline std::string PrintableJson(std::string_view json) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : 0);
    const bool c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (byte != 0x7f && !c1) {
      out += json[i];
      continue;
    }
    const unsigned char code = c1 ? next : byte;
    out += "\\u00";
    out += kDigits[code >> 4];
    out += kDigits[code & 15];
    i += c1;
  }
  return out;
}

}  // namespace ncclwatch
