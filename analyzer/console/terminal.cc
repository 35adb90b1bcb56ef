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
