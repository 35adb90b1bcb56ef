#include "analyzer/console/print.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/text/printable.h"
#include "watchdog/log/log.h"

namespace ncclwatch::analyzer {

void WriteOut(std::string_view text) { std::fputs(PrintableLines(text).c_str(), stdout); }

void WriteComplaint(std::string_view command, std::string_view text) {
  const std::string line = fmt::format("ncclwatch{}{}: {}", command.empty() ? "" : " ", command, text);
  std::fputs((Printable(line) + "\n").c_str(), stderr);
}

// The callers have asked NCCLWATCH_LOG.
void WriteNote(std::string_view text) { log::Warn("{}", text); }

void PrintJson(const nlohmann::ordered_json& value) {
  std::puts(PrintableJson(value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)).c_str());
}

}  // namespace ncclwatch::analyzer
