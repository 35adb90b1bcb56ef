#include "analyzer/run/running_normally.h"

#include <fmt/core.h>

#include <charconv>
#include <csignal>
#include <string>

#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::uint64_t kExiting = 0x4;  // PF_EXITING of linux/sched.h
constexpr std::uint64_t kKillPending = 1u << (SIGKILL - 1);

// Numbers of proc(5), 3 to 52: those behind the command's name.
std::string_view Field(std::string_view stat, int number) {
  std::size_t at = stat.rfind(')');
  if (at == std::string_view::npos) return {};
  for (int field = 2; field < number; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string_view::npos) return {};
  }
  const std::string_view rest = stat.substr(at + 1);
  return rest.substr(0, rest.find_first_of(" \n"));
}

bool Number(std::string_view word, std::uint64_t* value) {
  return std::from_chars(word.data(), word.data() + word.size(), *value).ec == std::errc();
}

}  // namespace

bool TellsOfUnharmed(std::string_view stat, std::uint64_t start_time) {
  const std::string_view state = Field(stat, 3);
  if (state.empty() || state == "Z" || state == "X") return false;
  std::uint64_t flags = 0, started = 0, pending = 0, code = 0;
  if (!Number(Field(stat, 9), &flags) || !Number(Field(stat, 22), &started)) return false;
  if (!Number(Field(stat, 31), &pending) || !Number(Field(stat, 52), &code)) return false;
  // A signal that ends the group is its exit code from the moment it is sent; older kernels say it is pending.
  return started == start_time && (flags & kExiting) == 0 && (pending & kKillPending) == 0 && code == 0;
}

bool IsUnharmed(std::int32_t pid, std::uint64_t start_time) {
  const auto stat = rundir::ReadSmall(fmt::format("/proc/{}/stat", pid), 4096);
  return stat && TellsOfUnharmed(*stat, start_time);
}

}  // namespace ncclwatch::analyzer
