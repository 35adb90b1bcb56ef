#include "analyzer/stacks/process/words.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>

#include "analyzer/stacks/threads/proc_thread.h"

namespace ncclwatch::stacks {
namespace {

struct Call {
  long number;
  const char* name;
};
constexpr Call kCalls[] = {
#include "system_calls.inc"
};

}  // namespace

std::string StateText(char state) {
  switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "stuck in the kernel";
    case 'T': return "stopped by a signal";
    case 't': return "stopped by a debugger";
    case 'Z': return "ended, not waited for yet";
    case 'X': return "ended";
    case 'I': return "idle";
    default: return "in an unknown state";
  }
}

std::string BytesText(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 && unit > 0 ? 1 : 0, kUnits[unit]);
}

std::string PidText(int pid) {
  const auto stat = ProcThread(pid, pid).ReadStat();
  return stat ? fmt::format("pid {} '{}' ({})", pid, stat->name, StateText(stat->state))
              : fmt::format("pid {} (gone)", pid);
}

std::string ListText(const std::vector<std::string>& shown, std::size_t all) {
  const std::string text = absl::StrJoin(shown, ", ");
  return all > shown.size() ? fmt::format("{} and {} more", text, all - shown.size()) : text;
}

std::string CallName(long number) {
  const auto* const found =
      std::find_if(std::begin(kCalls), std::end(kCalls), [number](const Call& call) { return call.number == number; });
  return found == std::end(kCalls) ? "" : found->name;
}

}  // namespace ncclwatch::stacks
