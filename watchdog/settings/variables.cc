#include "watchdog/settings/variables.h"

#include <algorithm>
#include <utility>

namespace ncclwatch::settings {
namespace {

constexpr std::string_view kPrefix = "NCCLWATCH";
constexpr std::string_view kOfTests = "NCCLWATCH_TEST_";  // our own tests' variables
constexpr std::size_t kMostLetters = 64;                  // longer names are nobody's typing error

constexpr Variable kVariables[] = {
    {"NCCLWATCH", "on", ""},
    {"NCCLWATCH_BIND", "", ""},
    {"NCCLWATCH_BUBBLE", "20%", ""},
    {"NCCLWATCH_COMMAND", "", ""},
    {"NCCLWATCH_COMMUNICATORS", "1024", "", true},
    {"NCCLWATCH_CRASH_STACK", "64K", "0", true},
    {"NCCLWATCH_DIR", "", "", false, true},
    {"NCCLWATCH_EXCHANGE", "auto", "off"},
    {"NCCLWATCH_EXCLUDE", "", ""},
    {"NCCLWATCH_GPU", "end", "off", true},
    {"NCCLWATCH_HOOK", "", ""},
    {"NCCLWATCH_HOOK_TIMEOUT", "30", "", true},
    {"NCCLWATCH_IGNORE", "", ""},
    {"NCCLWATCH_JOB", "", "", false, true},
    {"NCCLWATCH_KEEP", "7d,2G", "", true},
    {"NCCLWATCH_LOG", "warn", "", true},
    {"NCCLWATCH_METRICS", "", ""},
    {"NCCLWATCH_METRICS_TOKEN_FILE", "", ""},
    {"NCCLWATCH_MPI_CHECKS", "default", ""},
    {"NCCLWATCH_NCCL", "", ""},
    {"NCCLWATCH_NODE", "", "", false, true},
    {"NCCLWATCH_NUMERICS", "off", ""},
    {"NCCLWATCH_ON_FAULT", "dump", "report", true},
    {"NCCLWATCH_OUT", "", ""},
    {"NCCLWATCH_PROFILER", "auto", "off"},
    {"NCCLWATCH_PTRACE", "off", ""},
    {"NCCLWATCH_REDACT", "", ""},
    {"NCCLWATCH_RING", "16384", "", true},
    {"NCCLWATCH_SITES", "auto", "off"},
    {"NCCLWATCH_TIMEOUT", "auto", "", true},
    {"NCCLWATCH_TOKEN", "", "", false, true},
    {"NCCLWATCH_TOKEN_FILE", "", ""},
    {"NCCLWATCH_TOPOLOGY", "", ""},
    {"NCCLWATCH_TRACE", "ring", "ring"},
    {"NCCLWATCH_TRACE_DIR", "", ""},
    {"NCCLWATCH_TRACE_MAX", "", "", true},
};

// A third of what follows the common beginning may be wrong, and two letters of the beginning itself.
std::size_t Tolerance(std::string_view name) {
  const std::size_t own = name.size() > kPrefix.size() ? name.size() - kPrefix.size() - 1 : 0;
  return std::max<std::size_t>(2, (own + 1) / 3);
}

}  // namespace

std::span<const Variable> Variables() { return kVariables; }

const Variable* FindVariable(std::string_view name) {
  for (const Variable& variable : kVariables)
    if (variable.name == name) return &variable;
  return nullptr;
}

std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, now);
  }
  return last[b.size()];
}

std::string_view Nearest(std::string_view name) {
  if (name.size() > kMostLetters) return {};
  std::string_view nearest;
  std::size_t least = Tolerance(name) + 1;
  for (const Variable& variable : kVariables) {
    const std::size_t distance = Distance(name, variable.name);
    if (distance >= least) continue;
    least = distance;
    nearest = variable.name;
  }
  return nearest;
}

std::vector<std::string> Misspelt(const char* const* environment) {
  std::vector<std::string> lines;
  for (; environment && *environment; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with('N') || FindVariable(name) || name.starts_with(kOfTests)) continue;
    const bool ours = name.starts_with("NCCLWATCH_");
    const std::string_view meant = name.size() < kPrefix.size() - 1 ? std::string_view() : Nearest(name);
    // Without our beginning only what can hardly be anything else.
    if (!ours && (meant.empty() || Distance(name, meant) > 2)) continue;
    std::string line;
    for (const char c : name.substr(0, kMostLetters)) line += c >= ' ' && c < 127 ? c : '?';
    line += ": there is no such variable";
    if (!meant.empty()) line.append("; is ").append(meant).append(" meant?");
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace ncclwatch::settings
