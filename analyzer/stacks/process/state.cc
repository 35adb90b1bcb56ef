#include "analyzer/stacks/process/state.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "analyzer/stacks/process/cgroup.h"
#include "analyzer/stacks/process/words.h"
#include "analyzer/stacks/threads/proc_thread.h"
#include "analyzer/stacks/threads/read_threads.h"
#include "watchdog/act/stacks.h"
#include "watchdog/rundir/process.h"
#include "watchdog/settings/redact.h"
#include "watchdog/settings/rules.h"

namespace ncclwatch::stacks {
namespace {

constexpr std::size_t kMostCommand = 200;  // bytes
constexpr std::size_t kMostChildren = 8;
constexpr double kWorthSaying = 1.0;  // percent of the time
constexpr double kHoldsUp = 20.0;     // ... percent, in which nothing in the group ran
constexpr double kNearlyFull = 0.95;  // of a limit on memory

std::uint64_t KiB(const std::string& status, const char* name) {
  return std::strtoull(FieldOf(status, name).c_str(), nullptr, 10) << 10;
}

// Something outside holds it up.
std::string Held(const ProcessStacks& process, const std::string& status, const GroupState& groups) {
  const std::string tracer = FieldOf(status, "TracerPid");
  const bool traced = !tracer.empty() && tracer != "0";
  char state = '?';
  for (const Thread& thread : process.threads)
    if (thread.tid == process.pid) state = thread.state;
  if (FieldOf(status, "CoreDumping") == "1") return "it is writing a core dump";
  if (state == 't') return "stopped by a debugger: " + (traced ? PidText(std::atoi(tracer.c_str())) : "unknown");
  if (state == 'T')
    return fmt::format("stopped by a signal (SIGSTOP or the like); kill -CONT {} lets it go on", process.pid);
  if (groups.frozen) return "frozen by its control group";
  if (traced) return "a debugger is attached: " + PidText(std::atoi(tracer.c_str()));
  return "";
}

std::string ThreadText(const Thread& thread, const ProcessStacks& process) {
  return fmt::format("thread {} '{}'{}", thread.tid, thread.name,
                     thread.tid == process.pid && process.threads.size() > 1 ? " (the main one)" : "");
}

std::string Waiting(const Thread& thread, const ProcessStacks& process) {
  const std::string who = ThreadText(thread, process);
  if (thread.state == 'R') return who + " is running";
  if (thread.state == 'Z' || thread.state == 'X') return who + " has ended";
  std::string text =
      who + (thread.state == 'D' ? " is stuck in the kernel (uninterruptible)" : " is " + StateText(thread.state));
  if (!thread.call.empty()) text += " in " + thread.call;
  if (thread.call.empty() && !thread.channel.empty()) text += " (" + thread.channel + ")";
  if (!thread.waits_on.empty()) text += "; " + thread.waits_on;
  return text;
}

std::string CountText(const ProcessStacks& process) {
  std::map<char, int> counts;
  for (const Thread& thread : process.threads) ++counts[thread.state];
  std::vector<std::string> texts;
  for (const auto& [state, count] : counts) texts.push_back(fmt::format("{} {}", count, StateText(state)));
  return fmt::format("{} thread{}: {}", process.threads.size(), process.threads.size() == 1 ? "" : "s",
                     absl::StrJoin(texts, ", "));
}

std::string ChildrenText(int pid) {
  std::vector<int> children = ChildrenOf(pid);
  std::erase_if(children, [](int child) {
    const auto stat = ProcThread(child, child).ReadStat();
    return stat && stat->name == act::kStacksThread;
  });
  if (children.empty()) return "";
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(children.size(), kMostChildren); ++i) shown.push_back(PidText(children[i]));
  return fmt::format("{}: {}", children.size() == 1 ? "child" : "children", ListText(shown, children.size()));
}

std::string MemoryText(const std::string& status, const GroupState& groups) {
  std::string text = "memory: " + BytesText(KiB(status, "VmRSS")) + " resident";
  if (const std::uint64_t swapped = KiB(status, "VmSwap")) text += ", " + BytesText(swapped) + " in swap";
  if (groups.limit_bytes && groups.used_bytes)
    text += fmt::format("; control group {} uses {} of {}", groups.memory_group, BytesText(*groups.used_bytes),
                        BytesText(*groups.limit_bytes));
  if (groups.killed > 0)
    text += fmt::format("; the kernel has killed {} of its processes because memory ran out", groups.killed);
  return text;
}

bool IsShortOfMemory(const std::string& status, const GroupState& groups) {
  const bool full = groups.limit_bytes && groups.used_bytes &&
                    static_cast<double>(*groups.used_bytes) >= kNearlyFull * static_cast<double>(*groups.limit_bytes);
  return full || groups.killed > 0 || KiB(status, "VmSwap") > 0;
}

bool IsHeldUp(const GroupState& groups) {
  const auto holds = [](const std::optional<Pressure>& pressure) { return pressure && pressure->full >= kHoldsUp; };
  return holds(groups.memory) || holds(groups.disk);
}

std::string PressureText(const GroupState& groups) {
  std::vector<std::string> texts;
  const auto add = [&texts](const char* what, const std::optional<Pressure>& pressure) {
    if (!pressure || pressure->some < kWorthSaying) return;
    texts.push_back(fmt::format("{:.0f} % for {}", pressure->some, what));
    if (pressure->full >= kWorthSaying) texts.back() += fmt::format(" ({:.0f} % of it everything)", pressure->full);
  };
  add("memory", groups.memory);
  add("processors", groups.processor);
  add("disks", groups.disk);
  return texts.empty() ? "" : "of the last 10 s something waited " + absl::StrJoin(texts, ", ");
}

}  // namespace

bool ReadProcess(int pid, ProcessStacks* process) {
  const auto stat = rundir::StatOf(pid);
  if (!stat) return false;
  process->pid = pid;
  process->start_time = stat->start_time;
  if (process->matters == 0) process->matters = pid;
  process->threads = LookAtThreads(pid);
  return true;
}

void AddState(ProcessStacks* process) {
  const std::string status = ProcFolder(fmt::format("/proc/{}", process->pid)).Read("status", 16384).value_or("");
  const GroupState groups = ReadGroups(process->pid);
  const auto add = [](std::string sentence, std::vector<std::string>* to) {
    if (!sentence.empty()) to->push_back(std::move(sentence));
  };
  process->state.clear();
  process->figures.clear();
  add(Held(*process, status, groups), &process->state);
  const auto matters = std::find_if(process->threads.begin(), process->threads.end(),
                                    [&](const Thread& thread) { return thread.tid == process->matters; });
  if (matters != process->threads.end()) add(Waiting(*matters, *process), &process->state);
  for (const Thread& thread : process->threads)
    if (thread.state == 'D' && thread.tid != process->matters) add(Waiting(thread, *process), &process->state);
  add(ChildrenText(process->pid), &process->state);
  add(MemoryText(status, groups), IsShortOfMemory(status, groups) ? &process->state : &process->figures);
  add(PressureText(groups), IsHeldUp(groups) ? &process->state : &process->figures);
  add(CountText(*process), &process->figures);
}

std::string CommandOf(int pid) {
  constexpr std::size_t kMostRead = 16 << 10;
  const std::string words = ProcFolder(fmt::format("/proc/{}", pid)).Read("cmdline", kMostRead).value_or("");
  const char* redact =
      settings::Allowed([](const char* name) -> const char* { return std::getenv(name); }, "NCCLWATCH_REDACT");
  std::string command = settings::CommandText(words, words.size() < kMostRead, redact ? redact : "");
  if (command.size() > kMostCommand) command.replace(kMostCommand, std::string::npos, "...");
  return command;
}

std::string WhyNotAllowed(int pid, int error) {
  if (error == ESRCH) return "it is gone";
  struct stat owner {};
  const std::string folder = fmt::format("/proc/{}", pid);
  if (stat(folder.c_str(), &owner) != 0) return "it is gone";
  const std::string status = ProcFolder(folder).Read("status", 16384).value_or("");
  const auto uid = static_cast<unsigned>(std::strtoul(FieldOf(status, "Uid").c_str(), nullptr, 10));
  if (geteuid() != 0 && uid != geteuid()) return fmt::format("it belongs to another user (uid {})", uid);
  if (geteuid() != 0 && owner.st_uid != uid) return "it has made itself unreadable (not dumpable, or set-uid)";
  const std::string scope = rundir::ReadSmall("/proc/sys/kernel/yama/ptrace_scope", 16).value_or("0\n");
  if (scope[0] != '0')
    return fmt::format("kernel.yama.ptrace_scope is {}: only {} may look into it", scope[0],
                       scope[0] == '1' ? "a parent, or whom the process itself has named," : "root");
  return fmt::format("the kernel does not allow it: {}", std::strerror(error));
}

}  // namespace ncclwatch::stacks
