#include "analyzer/stacks/dump.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "analyzer/stacks/join_python.h"
#include "analyzer/stacks/precedence.h"
#include "analyzer/stacks/process/calls.h"
#include "analyzer/stacks/process/state.h"
#include "analyzer/stacks/threads/read_threads.h"
#include "watchdog/rundir/launcher.h"
#include "watchdog/rundir/process.h"

namespace ncclwatch::stacks {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::int32_t RankOf(int pid) {
  const auto environment = rundir::EnvironmentOf(pid);
  if (!environment) return -1;
  return rundir::PlaceFrom([&](std::string_view name) { return rundir::Find(*environment, name); }).rank;
}

// What the reading threads and the one that waits for them share. A reading thread that is late is given up: its
// generation is no longer the present one, and what it still finds is dropped.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<ProcessStacks> processes;
  std::vector<bool> done;
  std::size_t next = 0;
  int generation = 0;
  Moment begun, patience;  // of processes[next]: when its reading began, and when it is given up
};

// One process may take what is left for it and those after it, and at least each_limit.
void Begin(const DumpOptions& options, Moment deadline, Progress* progress) {
  const std::size_t left = progress->processes.size() - progress->next;
  progress->begun = Clock::now();
  if (left == 0) return;
  const auto share = (deadline - progress->begun) / static_cast<std::int64_t>(left);
  progress->patience = std::min(deadline, progress->begun + std::max<Clock::duration>(options.each_limit, share));
}

class Reading {
 public:
  Reading(std::shared_ptr<Progress> progress, int generation, std::vector<Target> targets, DumpOptions options,
          Moment deadline)
      : progress_(std::move(progress)),
        generation_(generation),
        targets_(std::move(targets)),
        options_(options),
        deadline_(deadline),
        holders_(deadline) {}

  void Run() {
    TakePrecedence();
    for (std::size_t index = 0; Take(&index);) {
      ProcessStacks process;
      process.matters = targets_[index].matters;
      process.rank = targets_[index].rank;
      process.host = rundir::HostName();
      process.at_ns = MonotonicNow();
      process.pid = targets_[index].pid;
      if (IsAnother(targets_[index])) {
        process.trouble = "another process has its pid by now: not looked at";
      } else if (!ReadProcess(targets_[index].pid, &process)) {
        process.trouble = "there is no such process";
        process.threads.clear();
      } else {
        // What follows may wait for locks of the process: what can be told without them is told first.
        if (!Publish(index, process, false)) return;
        ReadInside(&process);
        AddState(&process);
      }
      PutFirst(&process);
      if (!Publish(index, std::move(process), true)) return;
    }
  }

 private:
  static bool IsAnother(const Target& target) {
    if (target.start_time == 0) return false;
    const std::optional<rundir::ProcessStat> now = rundir::StatOf(target.pid);
    return now && now->start_time != target.start_time;
  }

  bool Take(std::size_t* index) {
    const std::lock_guard lock(progress_->mutex);
    if (generation_ != progress_->generation || progress_->next == targets_.size()) return false;
    *index = progress_->next;
    Begin(options_, deadline_, progress_.get());
    // Stops may take half of the time: what is known by then is worth more than the rest.
    stop_deadline_ = progress_->begun + (progress_->patience - progress_->begun) / 2;
    return true;
  }

  bool Publish(std::size_t index, ProcessStacks process, bool done) {
    const std::lock_guard lock(progress_->mutex);
    if (generation_ != progress_->generation) return false;
    progress_->processes[index] = std::move(process);
    if (done) {
      progress_->done[index] = true;
      progress_->next = index + 1;
      Begin(options_, deadline_, progress_.get());
    }
    progress_->changed.notify_all();
    return true;
  }

  void ReadInside(ProcessStacks* process) {
    process->command = CommandOf(process->pid);
    if (process->rank < 0) process->rank = RankOf(process->pid);
    const int through = LivingThread(*process);
    Memory memory(through);
    Modules modules(&memory, &files_);
    if (modules.maps().all().empty()) {
      process->trouble = NothingInside(*process);
      return;
    }
    ReadOptions options;
    options.stop = options_.stop;
    options.deadline = stop_deadline_;
    ThreadsRead read = ReadThreads(&memory, &modules, &names_, process->threads, options);
    const python::Stacks python =
        python::Read(through, &modules, options_.variables ? python::Want::kVariables : python::Want::kLines);
    const Descriptors descriptors(through, &holders_);
    const Calls calls(&memory, &descriptors);
    for (std::size_t i = 0; i < read.threads.size(); ++i) {
      Thread& thread = read.threads[i];
      const InCall call = Calls::Original(read.calls[i], thread);
      const Search search = thread.tid == process->matters ? Search::kEverywhere : Search::kNear;
      thread.call = calls.Text(call);
      if (const std::string on = calls.WaitsOn(call, thread, read.threads, search); !on.empty())
        thread.waits_on += (thread.waits_on.empty() ? "" : "; ") + on;
    }
    JoinPython(python, &read.threads);
    if (python.present) process->python = PythonText(python, read.threads);
    const auto holds = [&](const python::Thread& thread) {
      return thread.gil == python::Gil::kHeld && thread.tid != process->matters;
    };
    process->python_holds = !python.trouble.empty() || std::any_of(python.threads.begin(), python.threads.end(), holds);
    process->threads = std::move(read.threads);
  }

  // Memory and descriptors are seen through the main thread, which stays while others come and go. If it has ended
  // before others, through one of these.
  static int LivingThread(const ProcessStacks& process) {
    int other = process.pid;
    for (const Thread& thread : process.threads) {
      if (thread.state == 'Z' || thread.state == 'X') continue;
      if (thread.tid == process.pid) return process.pid;
      if (other == process.pid) other = thread.tid;
    }
    return other;
  }

  static std::string NothingInside(const ProcessStacks& process) {
    const auto main = std::find_if(process.threads.begin(), process.threads.end(),
                                   [&](const Thread& thread) { return thread.tid == process.pid; });
    if (main != process.threads.end() && main->state == 'Z' && process.threads.size() == 1)
      return "it has ended and was not waited for yet (zombie)";
    const ProcFolder folder("/proc/" + std::to_string(process.pid));
    const bool readable = folder.Read("maps", 1).has_value();
    if (readable) return "it has no memory of its own (it is ending, or a thread of the kernel)";
    return WhyNotAllowed(process.pid, folder.error());
  }

  static std::string PythonText(const python::Stacks& python, const std::vector<Thread>& threads) {
    std::string text = "Python " + python.version;
    for (const python::Thread& thread : python.threads) {
      if (thread.gil != python::Gil::kHeld) continue;
      const auto found =
          std::find_if(threads.begin(), threads.end(), [&](const Thread& other) { return other.tid == thread.tid; });
      text += "; thread " + std::to_string(thread.tid) + (found == threads.end() ? "" : " '" + found->name + "'") +
              " holds its lock (GIL)";
    }
    return python.trouble.empty() ? text : text + "; " + python.trouble;
  }

  static void PutFirst(ProcessStacks* process) {
    std::stable_partition(process->threads.begin(), process->threads.end(),
                          [&](const Thread& thread) { return thread.tid == process->matters; });
  }

  std::shared_ptr<Progress> progress_;
  int generation_;
  std::vector<Target> targets_;
  DumpOptions options_;
  Moment deadline_, stop_deadline_;
  FileCache files_;
  NameCache names_;
  Holders holders_;
};

void GiveUp(std::size_t index, bool hangs, Progress* progress) {
  ProcessStacks& process = progress->processes[index];
  process.trouble = hangs ? "reading it did not come to an end: it keeps its memory locked, as in a page fault that "
                            "waits for a file"
                          : "there was no time left to read it";
  AddState(&process);
  ++progress->generation;
  progress->next = index + 1;
}

}  // namespace

Dump ReadAll(const std::vector<Target>& targets, const DumpOptions& options) {
  const Moment deadline = Clock::now() + options.limit;
  const auto progress = std::make_shared<Progress>();
  progress->processes.resize(targets.size());
  progress->done.assign(targets.size(), false);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    progress->processes[i].pid = targets[i].pid;
    progress->processes[i].rank = targets[i].rank;
    progress->processes[i].trouble = "there was no time left to read it";
  }
  Dump dump;
  std::unique_lock lock(progress->mutex);
  while (progress->next < targets.size() && Clock::now() < deadline) {
    const int generation = progress->generation;
    Begin(options, deadline, progress.get());
    std::thread reader(
        [reading = std::make_shared<Reading>(progress, generation, targets, options, deadline)] { reading->Run(); });
    while (progress->next < targets.size() && progress->generation == generation) {
      progress->changed.wait_until(lock, progress->patience);
      if (Clock::now() < progress->patience) continue;
      if (progress->next == targets.size() || progress->generation != generation) break;
      dump.stuck = true;
      GiveUp(progress->next, Clock::now() >= progress->begun + options.each_limit, progress.get());
    }
    if (progress->generation != generation) {
      reader.detach();
      continue;
    }
    lock.unlock();
    reader.join();
    lock.lock();
  }
  ++progress->generation;  // who still reads shall not write any more
  dump.processes = progress->processes;
  return dump;
}

}  // namespace ncclwatch::stacks
