#include "analyzer/stacks/threads/read_threads.h"

#include <algorithm>
#include <charconv>

#include "analyzer/stacks/unwind/interrupted.h"
#include "watchdog/act/stacks.h"

namespace ncclwatch::stacks {
namespace {

// A thread on its way through the steps.
struct Work {
  Thread thread;
  InCall call;
  bool allowed = true;
  std::optional<Snapshot> snapshot;
  Walk walk;
};

class Steps {
 public:
  Steps(Memory* memory, Modules* modules, const ReadOptions& options)
      : memory_(memory), modules_(modules), options_(options) {}

  void LookAtAll(const std::vector<Thread>& seen) {
    for (const Thread& thread : seen) {
      Work work;
      work.thread = thread;
      if (Look(&work)) work_.push_back(std::move(work));
    }
  }

  // Those that are running, and later those of which more registers are needed.
  template <typename Wanted>
  void Stop(Wanted wanted) {
    std::vector<int> tids;
    std::vector<Work*> which;
    for (Work& work : work_) {
      if (!options_.stop || !work.allowed || !wanted(work)) continue;
      tids.push_back(work.thread.tid);
      which.push_back(&work);
    }
    if (tids.empty()) return;
    std::vector<Stopped> stopped = ReadStopped(*memory_, modules_->maps(), tids, options_.deadline);
    for (std::size_t i = 0; i < which.size(); ++i) {
      Work& work = *which[i];
      if (!stopped[i].trouble.empty()) work.thread.trouble = stopped[i].trouble;
      if (!stopped[i].snapshot) continue;
      work.snapshot = std::move(stopped[i].snapshot);
      work.thread.how = How::kStopped;
      work.walk.frames.clear();
    }
  }

  void UnwindAll() {
    for (Work& work : work_) {
      if (!work.snapshot || !work.walk.frames.empty()) continue;
      CopiedStretch stack(work.snapshot->stack_begin, work.snapshot->stack, memory_);
      work.walk = Unwind(work.snapshot->registers, &stack, memory_, modules_);
      if (work.thread.how == How::kSleeping && !work.walk.sure()) work.thread.how = How::kPartly;
    }
  }

  std::vector<Work>& work() { return work_; }

 private:
  // False if it is gone.
  bool Look(Work* work) {
    Thread& seen = work->thread;
    const ProcThread thread(memory_->pid(), seen.tid);
    if (!thread.there()) return false;
    if (seen.state == 'Z' || seen.state == 'X') {
      work->allowed = false;
      seen.trouble = "it has ended";
      return true;
    }
    Sleeping sleeping = ReadSleeping(thread, *memory_, modules_->maps());
    work->call = sleeping.call;
    work->allowed = sleeping.allowed;
    if (!sleeping.allowed) seen.trouble = "not allowed to look at it";
    work->snapshot = std::move(sleeping.snapshot);
    if (work->snapshot) seen.how = How::kSleeping;
    // It has begun or ended its wait since it was seen.
    if ((seen.state == 'R') == work->snapshot.has_value()) {
      const auto now = thread.ReadStat();
      if (!now) return false;
      seen.state = now->state;
      seen.channel = thread.WaitChannel();
    }
    if (seen.state == 'D') seen.waits_on = KernelText(thread.KernelFunctions());
    return true;
  }

  static std::string KernelText(const std::string& functions) {
    return functions.empty() ? "" : "in the kernel: " + functions;
  }

  Memory* memory_;
  Modules* modules_;
  const ReadOptions& options_;
  std::vector<Work> work_;
};

bool IsOnSocket(int pid, const InCall& call) {
  const ProcFolder folder("/proc/" + std::to_string(pid) + "/fd");
  const auto link = folder.Link(std::to_string(static_cast<int>(call.arguments[0])).c_str());
  return link && link->starts_with("socket:");
}

// Its registers are needed, and a stop does not show in what it waits for.
bool MayBeStopped(int pid, const Work& work) {
  if (work.thread.how != How::kPartly) return false;
  if (work.thread.state == 'T') return true;  // stopped as it is
  if (work.thread.state != 'S' || !GoesOnByItself(work.call.number, false)) return false;
  return GoesOnByItself(work.call.number, true) || !IsOnSocket(pid, work.call);
}

bool IsRunning(const Work& work) { return !work.snapshot && work.thread.state != 'D'; }

std::string TroubleOf(const Work& work) {
  if (!work.thread.trouble.empty()) return work.thread.trouble;
  if (!work.snapshot)
    return work.call.running || work.call.number >= 0 ? "it is running and was not stopped" : "it could not be read";
  switch (work.walk.ending) {
    case Ending::kOutermost: return "";
    case Ending::kUnknown: return "a register is needed that is known only of stopped threads";
    case Ending::kNoTable: return "code without unwind table";
    case Ending::kUnreadable: return "its stack could not be read";
    case Ending::kNonsense: return "what is on its stack makes no sense";
    case Ending::kCut: return "";
  }
  return "";
}

}  // namespace

std::vector<Thread> LookAtThreads(int pid) {
  constexpr std::size_t kMostThreads = 4096;
  std::vector<Thread> threads;
  for (const std::string& name : ProcFolder("/proc/" + std::to_string(pid) + "/task").Names()) {
    Thread thread;
    std::from_chars(name.data(), name.data() + name.size(), thread.tid);
    const ProcThread look(pid, thread.tid);
    const auto stat = look.there() ? look.ReadStat() : std::nullopt;
    if (!stat || stat->name == act::kStacksThread) continue;
    thread.name = stat->name;
    thread.state = stat->state;
    thread.channel = look.WaitChannel();
    threads.push_back(std::move(thread));
    if (threads.size() == kMostThreads) break;
  }
  std::sort(threads.begin(), threads.end(), [](const Thread& a, const Thread& b) { return a.tid < b.tid; });
  return threads;
}

ThreadsRead ReadThreads(Memory* memory, Modules* modules, NameCache* names, const std::vector<Thread>& seen,
                        const ReadOptions& options) {
  Steps steps(memory, modules, options);
  steps.LookAtAll(seen);
  steps.Stop(IsRunning);
  steps.UnwindAll();
  steps.Stop([memory](const Work& work) { return MayBeStopped(memory->pid(), work); });
  steps.UnwindAll();
  ThreadsRead read;
  std::vector<Walk> walks;
  for (Work& work : steps.work()) {
    work.thread.trouble = TroubleOf(work);
    work.thread.cut = work.walk.ending == Ending::kCut;
    walks.push_back(std::move(work.walk));
  }
  std::vector<std::vector<Frame>> frames = NameFrames(walks, modules, names);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Work& work = steps.work()[i];
    work.thread.frames = std::move(frames[i]);
    read.calls.push_back(work.call);
    read.threads.push_back(std::move(work.thread));
  }
  return read;
}

}  // namespace ncclwatch::stacks
