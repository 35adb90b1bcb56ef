#include "analyzer/console/terminal.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "watchdog/diagnosis/report/render.h"
#include "watchdog/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using diagnosis::Certainty;

std::string ColouredHeading(const std::string& line) {
  constexpr std::pair<Certainty, Colour> kColours[] = {{Certainty::kCertain, Colour::kRed},
                                                       {Certainty::kLikely, Colour::kYellow},
                                                       {Certainty::kSuspected, Colour::kDim}};
  for (const auto& [certainty, colour] : kColours) {
    const std::string word = fmt::format("({})", diagnosis::Name(certainty));
    const std::size_t at = line.find(word + ":");
    if (at == std::string::npos) continue;
    return Coloured(line.substr(0, at), Colour::kBold, true) + Coloured(word, colour, true) +
           Coloured(line.substr(at + word.size()), Colour::kBold, true);
  }
  return Coloured(line, Colour::kBold, true);
}

}  // namespace

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

std::string DiagnosisFor(int descriptor, const diagnosis::Diagnosis& diagnosis) {
  const std::size_t columns = std::min(static_cast<std::size_t>(Width(descriptor)), diagnosis::kColumns);
  const std::string text = PrintableLines(diagnosis::ToText(diagnosis, columns));
  if (!MayColour(descriptor)) return text;
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  // Headings begin at the left margin; all else is indented.
  for (std::string& line : lines)
    if (!line.empty() && line[0] != ' ') line = ColouredHeading(line);
  return absl::StrJoin(lines, "\n");
}

}  // namespace ncclwatch::analyzer
