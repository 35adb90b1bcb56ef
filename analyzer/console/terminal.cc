#include "analyzer/console/terminal.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

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
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  // Headings begin at the left margin; all else is indented.
  for (std::string& line : lines)
    if (!line.empty()) line = Coloured(line, line[0] != ' ' ? Colour::kBold : Colour::kNone, true);
  return absl::StrJoin(lines, "\n");
}

}  // namespace ncclwatch::analyzer
