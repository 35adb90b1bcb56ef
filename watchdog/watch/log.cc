#include "watchdog/watch/log.h"

#include "watchdog/descriptors/standard.h"

#include "watchdog/text/printable.h"

namespace ncclwatch::watch {
namespace {

constexpr int kPatience_ms = 500;

}  // namespace

Log::Log(settings::LogLevel level, std::int32_t rank)
    : level_(level), prefix_("[ncclwatch rank " + (rank >= 0 ? std::to_string(rank) : std::string("?")) + "] ") {}

void Log::Say(settings::LogLevel level, std::string_view text) const {
  if (level > level_) return;
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines += prefix_;
    lines += Printable(text.substr(0, end));
    lines += '\n';
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  // A full pipe that nobody reads must not stop the heartbeat.
  descriptors::WriteLines(lines, kPatience_ms);
}

}  // namespace ncclwatch::watch
