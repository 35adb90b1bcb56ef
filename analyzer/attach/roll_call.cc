#include "analyzer/attach/roll_call.h"

#include <absl/strings/match.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>
#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "analyzer/stacks/base/maps.h"
#include "analyzer/stacks/base/memory.h"
#include "analyzer/stacks/dump.h"
#include "analyzer/stacks/lines/lines.h"
#include "analyzer/stacks/show/fold.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::analyzer::attach {
namespace {

using Clock = std::chrono::steady_clock;
using stacks::Frame;
using stacks::Thread;

constexpr int kMostLooks = 5;
constexpr std::size_t kStackTop = 256 << 10;  // bytes of the main thread's stack in which its frames are looked for
constexpr std::size_t kBefore = 64, kBehind = 512;  // of a return address: saved registers, and the caller's variables

// What a call waits for.
struct Wait {
  std::string in;
  bool to_one = false, of_device = false;
  std::size_t frame = 0;  // the outermost of the call
};

bool IsToOne(std::string_view call) {
  static const RE2 pattern(R"((?i)(send|recv|wait|probe|test)(all|any|some)?$)");
  return RE2::PartialMatch(re2::StringPiece(call.data(), call.size()), pattern);
}

// The call of a library that the program, or its framework, has made: the outermost one.
Wait NativeWait(const Thread& thread) {
  static const RE2 call(R"(^P?(MPI_[A-Z][a-z]\w*|nccl[A-Z]\w+)$)");
  static const RE2 fortran(R"(^p?mpi_([a-z]\w+?)_{1,2}$)");
  static const RE2 device(R"(^(?:cuda|cu)(?:Stream|Event|Ctx|Device)Synchronize(?:_v2)?$)");
  static const RE2 gloo(
      R"(^gloo::(?:\(anonymous namespace\)::)?(allreduce|broadcast|allgatherv?|barrier|reduce|scatter|gatherv?|alltoallv?|reduce_scatter)\b)");
  static const RE2 work(R"(^c10d::(?:\w+::)*\w*(?:Work\w*::wait|::waitWork))");
  Wait wait;
  for (std::size_t i = 0; i < thread.frames.size(); ++i) {
    const Frame& frame = thread.frames[i];
    std::string name;
    if (frame.kind != Frame::Kind::kNative) continue;
    const std::string& function = frame.function;
    if (RE2::PartialMatch(function, call, &name))
      wait = {name, IsToOne(name), false, i};
    else if (RE2::PartialMatch(function, fortran, &name))
      wait = {"MPI_" + name, IsToOne(name), false, i};
    else if (RE2::FullMatch(function, device))
      wait = {function, false, true, i};
    else if (RE2::PartialMatch(function, gloo, &name))
      wait = {name, false, false, i};
    else if (wait.in.empty() && RE2::PartialMatch(function, work))
      wait = {"Work.wait", false, false, i};
  }
  if (absl::StrContains(wait.in, "Init") || absl::StrContains(wait.in, "Finalize")) wait.to_one = false;
  return wait;
}

// torch.distributed's function that the program called.
Wait PythonWait(const Thread& thread) {
  Wait wait;
  for (std::size_t i = 0; i < thread.frames.size(); ++i) {
    const Frame& frame = thread.frames[i];
    if (frame.kind != Frame::Kind::kPython) continue;
    const bool of_torch =
        absl::StrContains(frame.file, "/torch/distributed/") || absl::StrContains(frame.file, "/mpi4py/");
    if (!of_torch) {
      if (!wait.in.empty() || !absl::StrContains(frame.file, "/torch/")) break;
      continue;
    }
    if (!absl::EndsWith(frame.file, "/c10d_logger.py") && !absl::EndsWith(frame.file, "/run.py"))
      wait = {frame.function, absl::StrContains(frame.function, "send") || absl::StrContains(frame.function, "recv"),
              false, i};
  }
  return wait;
}

// Of the thread that the program runs in; else of one that works for it, as autograd's and gloo's do.
Wait WaitOf(const stacks::ProcessStacks& process) {
  for (const Thread& thread : process.threads) {
    if (thread.tid != process.matters) continue;
    if (Wait python = PythonWait(thread); !python.in.empty()) return python;
    if (Wait native = NativeWait(thread); !native.in.empty()) return native;
  }
  for (const Thread& thread : process.threads)
    if (Wait native = NativeWait(thread); thread.tid != process.matters && !native.in.empty() && !native.of_device)
      return native;
  return {};
}

const Thread* MainOf(const stacks::ProcessStacks& process) {
  const auto main = std::find_if(process.threads.begin(), process.threads.end(),
                                 [&](const Thread& thread) { return thread.tid == process.matters; });
  return main == process.threads.end() ? nullptr : &*main;
}

// The innermost line of the program itself.
std::string PythonSite(const Thread& thread) {
  std::string any;
  for (const stacks::Line& line : stacks::Fold(thread.frames)) {
    if (!line.python || line.noise) continue;
    if (line.origin == stacks::Origin::kProgram) return line.text;
    if (any.empty()) any = line.text;
  }
  return any;
}

bool IsOfProgram(const Frame& frame) {
  return frame.kind == Frame::Kind::kNative && stacks::GroupOf(frame) == stacks::Group::kNone &&
         !absl::StartsWith(frame.module, "libmpi") && !absl::StartsWith(frame.module, "libopen-") &&
         !absl::StartsWith(frame.module, "libmpich") && !absl::StartsWith(frame.module, "mca_") &&
         !absl::StartsWith(frame.module, "libuc") && !absl::StartsWith(frame.module, "libfabric");
}

const Frame* CallerOf(const Thread& thread, std::size_t from) {
  for (std::size_t i = from; i < thread.frames.size(); ++i)
    if (IsOfProgram(thread.frames[i])) return &thread.frames[i];
  return nullptr;
}

// The first frame outside of the library's call.
std::size_t BehindCall(const Thread& thread) {
  const Wait wait = NativeWait(thread);
  return wait.in.empty() ? 0 : wait.frame + 1;
}

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
};

// "step (hang.c:13)" where there is debug information.
std::string SiteText(const Frame& frame, stacks::SourceLines* lines) {
  const auto line = lines->At(frame.module_path, frame.module_address, INT64_MAX);
  if (!line || line->line == 0) return stacks::ShortText(frame);
  return fmt::format("{} ({}:{})", line->function.empty() ? frame.function : line->function,
                     line->file.substr(line->file.rfind('/') + 1), line->line);
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
  const Wait wait = WaitOf(process);
  one.in = wait.in;
  one.to_one = wait.to_one;
  one.of_device = wait.of_device;
  one.where = stacks::Where(*main);
  one.python_site = PythonSite(*main);
  one.step = StepOf(*main);
  if (const Frame* caller = CallerOf(*main, BehindCall(*main))) one.site = SiteText(*caller, lines);
  return one;
}

Trail TrailAt(const stacks::ProcessStacks& process) {
  const Thread* const main = MainOf(process);
  if (main == nullptr) return {};
  return {TrailOf(*main), VariablesOf(process.pid, CallerOf(*main, BehindCall(*main)))};
}

}  // namespace

RollCall CallRoll(const RunningJob& job, std::chrono::milliseconds limit) {
  std::vector<stacks::Target> targets;
  for (const RankProcess& one : job.ranks) targets.push_back({one.pid, 0, one.rank, one.start_time});
  stacks::DumpOptions options;
  options.variables = true;
  RollCall call;
  const auto began = Clock::now();
  std::map<int, std::pair<std::uint64_t, Clock::time_point>> ticks;
  std::map<int, Trail> first;
  std::map<int, bool> moved;
  auto pause = limit / 12;
  while (call.looks < 2 || (call.looks < kMostLooks && Clock::now() - began < limit)) {
    if (call.looks > 0) std::this_thread::sleep_for(pause), pause += pause / 2;
    call.last = stacks::ReadAll(targets, options).processes;
    for (const stacks::ProcessStacks& process : call.last) {
      Trail trail = TrailAt(process);
      if (call.looks == 0) {
        ticks[process.pid] = {TicksOf(process.pid), Clock::now()};
        first[process.pid] = std::move(trail);
      } else {
        const Trail& before = first[process.pid];
        moved[process.pid] = moved[process.pid] || trail.lines != before.lines || trail.variables != before.variables;
      }
    }
    ++call.looks;
  }
  stacks::SourceLines lines;
  call.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  for (const stacks::ProcessStacks& process : call.last) {
    if (IsLoader(process)) continue;
    Standing one = StandingOf(process, &lines);
    one.moving = moved[process.pid];
    const auto& [before, at] = ticks[process.pid];
    const double seconds = std::chrono::duration<double>(Clock::now() - at).count();
    one.busy = static_cast<double>(TicksOf(process.pid) - before) / static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds;
    call.ranks.push_back(std::move(one));
  }
  return call;
}

}  // namespace ncclwatch::analyzer::attach
