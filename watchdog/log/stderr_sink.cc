#include <fmt/format.h>

#include <spdlog/details/log_msg.h>

#include "core/text/printable.h"
#include "watchdog/descriptors/standard.h"
#include "watchdog/log/sinks.h"

namespace ncclwatch::log {
namespace {

// For a pipe that nobody reads. A thread of the host's waits this long at most, and ours must go on with its heartbeat.
constexpr int kHostPatience_ms = 100;
constexpr int kPatience_ms = 500;

}  // namespace

std::string Writer::Prefix() const {
  const std::int64_t rank = rank_.load(std::memory_order_relaxed);
  if (rank == kCommand) return "[ncclwatch] ";
  return rank < 0 ? "[ncclwatch rank ?] " : fmt::format("[ncclwatch rank {}] ", rank);
}

std::string Lines(std::string_view text, const std::string& prefix) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines += prefix;
    lines += Printable(text.substr(0, end));
    lines += '\n';
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

void StderrSink::log(const spdlog::details::log_msg& message) {
  const std::string lines = Lines({message.payload.data(), message.payload.size()}, writer_->Prefix());
  const bool hosts = std::string_view(message.logger_name.data(), message.logger_name.size()) == kHostThread;
  descriptors::WriteLines(lines, hosts ? kHostPatience_ms : kPatience_ms);
}

}  // namespace ncclwatch::log
