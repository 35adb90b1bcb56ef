#include "analyzer/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/report/render.h"

namespace ncclwatch::analyzer {
namespace {

const char* CodeOf(Colour colour) {
  constexpr const char* kCodes[] = {"", "\033[31m", "\033[33m", "\033[32m", "\033[1m", "\033[2m"};
  return kCodes[static_cast<int>(colour)];
}
constexpr const char* kPlain = "\033[0m";

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

std::string DiagnosisFor(int descriptor, const diagnosis::Diagnosis& diagnosis) {
  const std::size_t columns = std::min(static_cast<std::size_t>(Width(descriptor)), diagnosis::kColumns);
  if (!MayColour(descriptor)) return diagnosis::ToText(diagnosis, columns);
  return diagnosis::ToText(
      diagnosis, columns,
      {CodeOf(Colour::kBold), CodeOf(Colour::kRed), CodeOf(Colour::kYellow), CodeOf(Colour::kDim), kPlain});
}

}  // namespace ncclwatch::analyzer
