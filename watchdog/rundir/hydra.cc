#include "watchdog/rundir/hydra.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "watchdog/rundir/process.h"

namespace ncclwatch::rundir {
namespace {

constexpr int kAncestors = 16;  // wrappers between a rank and its proxy

std::string_view TakeArgument(std::string_view* line) {
  const std::string_view argument = line->substr(0, line->find('\0'));
  line->remove_prefix(std::min(line->size(), argument.size() + 1));
  return argument;
}

std::string HydraPortOf(std::int32_t pid, const Patience& patience) {
  for (int i = 0; i < kAncestors; ++i) {
    const std::optional<ProcessStat> process = StatOf(pid);
    if (!process || process->parent <= 1) break;
    pid = process->parent;
    const std::optional<std::string> line =
        Asked<std::string>(patience, [pid] { return ReadSmall(fmt::format("/proc/{}/cmdline", pid)); });
    if (!line) continue;
    if (std::string port = HydraPortIn(*line); !port.empty()) return port;
  }
  return {};
}

}  // namespace

std::string HydraPortIn(std::string_view line) {
  std::string_view program = TakeArgument(&line);
  program.remove_prefix(program.rfind('/') + 1);
  if (!program.ends_with("pmi_proxy")) return {};
  while (!line.empty())
    if (TakeArgument(&line) == "--control-port") return std::string(TakeArgument(&line));
  return {};
}

Lookup WithHydra(Lookup environment, std::int32_t pid, const Patience& patience) {
  auto port = std::make_shared<const std::string>(HydraPortOf(pid, patience));
  return [environment = std::move(environment), port](std::string_view name) -> std::optional<std::string_view> {
    if (name != kHydraPort) return environment(name);
    return port->empty() ? std::nullopt : std::optional<std::string_view>(*port);
  };
}

}  // namespace ncclwatch::rundir
