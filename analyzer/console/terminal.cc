#include "analyzer/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace ncclwatch::analyzer {

bool MayColour(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color && *no_color) return false;
  const char* term = std::getenv("TERM");
  return term && std::string_view(term) != "dumb" && isatty(descriptor);
}

int Width(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return 100;
}

std::string Coloured(std::string_view text, Colour colour, bool allowed) {
  constexpr const char* kCodes[] = {"", "\033[31m", "\033[33m", "\033[32m", "\033[1m", "\033[2m"};
  if (!allowed || colour == Colour::kNone) return std::string(text);
  return kCodes[static_cast<int>(colour)] + std::string(text) + "\033[0m";
}

namespace {

// Bytes of the UTF-8 sequence at the front, 0 if it is none. Overlong forms do not matter for printing.
std::size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80 ? 1 : (lead >> 5) == 6 ? 2 : (lead >> 4) == 14 ? 3 : (lead >> 3) == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  return length;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = SequenceLength(text.substr(i));
    const auto lead = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters too.
    const bool control =
        lead < 0x20 || lead == 0x7f || (length == 2 && lead == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0);
    if (length == 0 || control) {
      out += '?';
      i += length ? length : 1;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  return out;
}

std::string ColourDiagnosis(const std::string& text, bool allowed) {
  if (!allowed) return text;
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string_view line(text.data() + begin, end - begin);
    // Headings begin at the left margin; all else is indented.
    const bool heading = !line.empty() && line[0] != ' ';
    out += Coloured(line, heading ? Colour::kBold : Colour::kNone, !line.empty());
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

}  // namespace ncclwatch::analyzer
