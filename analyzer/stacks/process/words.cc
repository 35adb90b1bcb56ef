#include "analyzer/stacks/process/words.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdio>

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
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, kUnits[unit]);
  return text.data();
}

std::string PidText(int pid) {
  const auto stat = ProcThread(pid, pid).ReadStat();
  const std::string number = "pid " + std::to_string(pid);
  return stat ? number + " '" + stat->name + "' (" + StateText(stat->state) + ")" : number + " (gone)";
}

std::string CallName(long number) {
  const auto* const found =
      std::find_if(std::begin(kCalls), std::end(kCalls), [number](const Call& call) { return call.number == number; });
  return found == std::end(kCalls) ? "" : found->name;
}

}  // namespace ncclwatch::stacks
