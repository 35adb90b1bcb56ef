#include "analyzer/attach/roll_call.h"

#include <absl/strings/str_split.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <thread>
#include <utility>

#include "analyzer/attach/communicator.h"
#include "analyzer/attach/place.h"
#include "analyzer/attach/rendezvous.h"
#include "analyzer/stacks/base/maps.h"
#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/base/modules.h"
#include "analyzer/stacks/dump.h"
#include "analyzer/stacks/python/groups.h"
#include "analyzer/stacks/show/fold.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer::attach {
namespace {

using Clock = std::chrono::steady_clock;
using stacks::Frame;
using stacks::Thread;

constexpr int kLooks = 5;                          // until their distances grow no more
constexpr std::chrono::milliseconds kStill{4000};  // a rank that moved before stands still
constexpr std::size_t kStackTop = 256 << 10;  // bytes of the main thread's stack in which its frames are looked for
constexpr std::size_t kBefore = 64, kBehind = 512;  // of a return address: saved registers, and the caller's variables

// All lines of the program and of its packages with their numbers, and its native callers: what changes when it goes
// on.
std::string TrailOf(const Thread& thread) {
  std::string trail;
  for (const Frame& frame : thread.frames) {
    if (frame.kind == Frame::Kind::kPython) {
      trail += fmt::format("{}:{}\n", frame.file, frame.line);
      for (const Frame::Variable& one : frame.numbers) trail += fmt::format("{}={}\n", one.name, one.value);
    } else if (IsOfProgram(frame)) {
      trail += fmt::format("{:#x}\n", frame.address);
    }
  }
  return trail;
}

// A loop that makes the same call again and again stands in the same line each time. Its variables, in registers that
// the call has saved or beside its return address, tell that it goes on.
std::string VariablesOf(int pid, const Frame* caller) {
  if (caller == nullptr) return "";
  const stacks::Maps maps = stacks::Maps::Of(pid);
  const auto stack = std::find_if(maps.all().begin(), maps.all().end(),
                                  [](const stacks::Mapping& one) { return one.path == "[stack]"; });
  if (stack == maps.all().end()) return "";
  const std::size_t bytes = std::min<std::uint64_t>(kStackTop, stack->end - stack->begin);
  std::string copy(bytes, '\0');
  const std::size_t got = stacks::Memory(pid).ReadNow(stack->end - bytes, copy.data(), bytes);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= got; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, copy.data() + at, sizeof word);
    if (word != caller->address) continue;
    const std::size_t begin = at - std::min(at, kBefore);
    return copy.substr(begin, std::min(got, at + kBehind) - begin);
  }
  return "";
}

// Clock ticks of all threads.
std::uint64_t TicksOf(int pid) {
  const std::string stat = rundir::ReadSmall(fmt::format("/proc/{}/stat", pid), 4096).value_or("");
  const std::size_t name = stat.rfind(')');
  if (name == std::string::npos) return 0;
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name + 1), ' ', absl::SkipEmpty());
  constexpr std::size_t kUser = 11, kSystem = 12;  // of those behind the name
  if (fields.size() <= kSystem) return 0;
  return std::strtoull(fields[kUser].c_str(), nullptr, 10) + std::strtoull(fields[kSystem].c_str(), nullptr, 10);
}

// torch's data loaders have the environment of their rank, and stand in this function.
bool IsLoader(const stacks::ProcessStacks& process) {
  const Thread* const main = MainOf(process);
  return main != nullptr && std::any_of(main->frames.begin(), main->frames.end(), [](const Frame& frame) {
           return frame.kind == Frame::Kind::kPython && frame.function == "_worker_loop";
         });
}

struct Trail {
  std::string lines, variables;
  bool operator==(const Trail&) const = default;
};

std::string GroupName(int pid, std::uint64_t object) {
  stacks::Memory memory(pid);
  stacks::Modules modules(&memory, nullptr);
  for (const stacks::python::ProcessGroup& group : stacks::python::ReadGroups(pid, &modules))
    if (group.object == object) return group.name;
  return "";
}

// CLOCK_REALTIME.
double StartOf(const stacks::ProcessStacks& process) {
  timespec real{}, boot{};
  clock_gettime(CLOCK_REALTIME, &real);
  clock_gettime(CLOCK_BOOTTIME, &boot);
  const auto seconds = [](const timespec& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  return seconds(real) - seconds(boot) +
         static_cast<double>(process.start_time) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// A program that was built anew since has its variables elsewhere.
bool IsOlder(const std::string& path, double than_s) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && static_cast<double>(info.st_mtim.tv_sec) <= than_s;
}

// Only of one that stands still: what is read of its stack now belongs to the registers that were read before.
void AddNumbers(stacks::SourceLines* lines, stacks::ProcessStacks* process) {
  stacks::Memory memory(process->pid);
  const double start_s = StartOf(*process);
  for (Thread& thread : process->threads)
    if (thread.tid == process->matters)
      for (Frame& frame : thread.frames)
        if (IsOfProgram(frame) && !frame.guessed && IsOlder(frame.module_path, start_s))
          frame.numbers = lines->NumbersOf(frame, &memory);
}

Standing StandingOf(const stacks::ProcessStacks& process, stacks::SourceLines* lines) {
  Standing one;
  one.rank = process.rank;
  one.pid = process.pid;
  one.start_time = process.start_time;
  one.host = process.host;
  one.trouble = process.trouble;
  one.holds = process.state;
  const Thread* const main = MainOf(process);
  if (main == nullptr) return one;
  one.state = main->state;
  // One that runs and must not be stopped: where it stands is not known.
  if (main->frames.empty() && one.trouble.empty()) one.trouble = main->trouble;
  const Wait wait = WaitOf(process);
  one.in = wait.in;
  one.to_one = wait.to_one;
  one.of_device = wait.of_device;
  one.peer = wait.peer;
  if (wait.group != 0) one.group = GroupName(process.pid, wait.group);
  if (wait.call != nullptr && IsOfMpi(wait.in)) one.group = CommunicatorOf(process.pid, *wait.call);
  one.group_known = !IsOfMpi(wait.in) || !one.group.empty();
  one.where = stacks::Where(*main);
  one.python_site = PythonSite(*main);
  one.step = StepOf(*main);
  one.path = PathOf(*main);
  if (const Frame* caller = CallerOf(*main)) one.site = SiteText(*caller, lines);
  if (const Frame* function = HostFunctionOf(process)) one.host_function = SiteText(*function, lines);
  if (IsJoining(one.in)) one.rendezvous = RendezvousOf(process.pid);
  return one;
}

Trail TrailAt(const stacks::ProcessStacks& process) {
  const Thread* const main = MainOf(process);
  if (main == nullptr) return {};
  const Frame* const function = HostFunctionOf(process);
  return {TrailOf(*main) + fmt::format("{:#x}\n", function == nullptr ? 0 : function->address),
          VariablesOf(process.pid, CallerOf(*main))};
}

// What was seen of one process so far.
struct History {
  std::uint64_t ticks = 0;  // of its processor time in the first look
  Clock::time_point began, changed;
  std::optional<Trail> trail;
  bool moved = false;
};

// It ran, and did not stop in time, as it gets no processor. That is no sign of a move.
bool IsUnseen(const stacks::ProcessStacks& process) {
  const Thread* const main = MainOf(process);
  return process.trouble.empty() && main != nullptr && main->frames.empty();
}

void Compare(const stacks::ProcessStacks& process, bool first, History* history) {
  const auto now = Clock::now();
  if (first) *history = {TicksOf(process.pid), now, now, std::nullopt, false};
  if (IsUnseen(process)) return;
  Trail trail = TrailAt(process);
  if (history->trail && trail != *history->trail) {
    history->moved = true;
    history->changed = now;
  }
  history->trail = std::move(trail);
}

// A rank that was not seen is where it was seen last.
void LookAgain(std::vector<stacks::ProcessStacks> now, std::vector<stacks::ProcessStacks>* last) {
  last->resize(now.size());
  for (std::size_t i = 0; i < now.size(); ++i)
    if (!IsUnseen(now[i]) || (*last)[i].pid == 0) (*last)[i] = std::move(now[i]);
}

// Some moved at first, and stand still since: more looks are needed, they may have come to their end meanwhile.
bool IsSettling(const std::map<int, History>& histories, Clock::time_point last_but_one) {
  return std::any_of(histories.begin(), histories.end(), [&](const auto& one) {
    return one.second.moved && one.second.changed <= last_but_one && Clock::now() - one.second.changed < kStill;
  });
}

}  // namespace

RollCall CallRoll(const RunningJob& job, std::chrono::milliseconds limit) {
  std::vector<stacks::Target> targets;
  for (const RankProcess& one : job.ranks) targets.push_back({one.pid, 0, one.rank, one.start_time});
  stacks::DumpOptions options;
  options.variables = true;
  RollCall call;
  const auto began = Clock::now();
  std::map<int, History> histories;
  auto pause = limit / 12;
  const auto is_enough = [&](Clock::time_point last, Clock::time_point now) {
    const auto took = now - began;
    return call.looks >= 2 && took >= limit && (took >= 2 * limit || !IsSettling(histories, last));
  };
  for (auto last = began, now = began; !is_enough(last, now);) {
    if (call.looks > 0) std::this_thread::sleep_for(pause);
    if (call.looks + 1 < kLooks) pause += pause / 2;
    LookAgain(stacks::ReadAll(targets, options).processes, &call.last);
    for (const stacks::ProcessStacks& process : call.last) Compare(process, call.looks == 0, &histories[process.pid]);
    ++call.looks;
    last = std::exchange(now, Clock::now());
  }
  stacks::SourceLines lines;
  const auto end = Clock::now();
  call.seconds = std::chrono::duration<double>(end - began).count();
  for (stacks::ProcessStacks& process : call.last) {
    if (IsLoader(process)) continue;
    const History& history = histories[process.pid];
    const bool moving = history.moved && end - history.changed < kStill;
    if (!moving) AddNumbers(&lines, &process);
    Standing one = StandingOf(process, &lines);
    one.moving = moving;
    const double seconds = std::chrono::duration<double>(end - history.began).count();
    one.busy =
        static_cast<double>(TicksOf(process.pid) - history.ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds;
    call.ranks.push_back(std::move(one));
  }
  call.logs = ReadLogs(job);
  return call;
}

}  // namespace ncclwatch::analyzer::attach
