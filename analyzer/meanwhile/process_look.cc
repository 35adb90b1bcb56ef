#include "analyzer/meanwhile/process_look.h"

#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "analyzer/stacks/join_python.h"
#include "analyzer/stacks/process/calls.h"
#include "analyzer/stacks/process/words.h"
#include "analyzer/stacks/python/python.h"
#include "analyzer/stacks/show/fold.h"
#include "analyzer/stacks/threads/read_threads.h"

namespace ncclwatch::meanwhile {
namespace {

using reader::Doing;
using reader::MeanwhileSample;

constexpr std::size_t kMostChildren = 8;
constexpr std::size_t kMostThreads = 64;  // of the process, among which one is looked for that reads or writes

bool MovesData(Doing doing) { return doing == Doing::kInput || doing == Doing::kCheckpoint; }

}  // namespace

ProcessLook::ProcessLook(int pid, int tid, stacks::FileCache* files, stacks::NameCache* names)
    : pid_(pid), tid_(tid), files_(files), names_(names), memory_(pid), modules_(&memory_, files) {}

stacks::Thread ProcessLook::ThreadNow(int tid) const {
  stacks::Thread thread;
  thread.tid = tid;
  const stacks::ProcThread look(pid_, tid);
  if (const auto stat = look.ReadStat()) {
    thread.name = stat->name;
    thread.state = stat->state;
  }
  return thread;
}

std::optional<ProcessLook::Look> ProcessLook::Take(int tid) {
  if (!stacks::ProcThread(pid_, tid).ReadInCall()) return std::nullopt;
  memory_.Forget();
  stacks::ReadOptions untouched;
  untouched.stop = false;
  stacks::ThreadsRead read = stacks::ReadThreads(&memory_, &modules_, names_, {ThreadNow(tid)}, untouched);
  if (read.threads.empty()) return std::nullopt;
  stacks::JoinPython(stacks::python::Read(pid_, &modules_), &read.threads);
  stacks::Thread& thread = read.threads.front();
  const stacks::InCall call = stacks::Calls::Original(read.calls.front(), thread);
  Seen seen;
  seen.thread = &thread;
  seen.running = call.running;
  if (!call.running && call.number >= 0) seen.call = stacks::CallName(call.number);
  const Argument argument = ArgumentOf(seen.call);
  if (argument == Argument::kDescriptor) {
    seen.descriptor = static_cast<int>(call.arguments[0]);
    seen.file = stacks::OpenFileOf(pid_, seen.descriptor);
  } else if (argument != Argument::kNone) {
    seen.path = memory_.Text(call.arguments[argument == Argument::kSecondPath ? 1 : 0]).value_or("");
  }
  Activity activity = ActivityOf(seen);
  Look look;
  look.sample.doing = activity.doing;
  look.sample.words = stacks::OneLine(activity.words);
  look.sample.where = stacks::Where(thread);
  look.waits_for_others = !seen.running && seen.file.path.empty();
  return look;
}

void ProcessLook::FollowWait(Look* look) {
  if (look->sample.doing == Doing::kLock) FollowThreads(&look->sample);
  if (look->sample.doing == Doing::kInput && look->waits_for_others) FollowChildren(&look->sample);
}

// Only one that reads or writes says something: many threads wait for work, and some always run.
void ProcessLook::FollowThreads(MeanwhileSample* sample) {
  std::vector<stacks::Thread> threads = stacks::LookAtThreads(pid_);
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  for (const stacks::Thread& thread : threads) {
    if (thread.tid == tid_) continue;
    const std::optional<Look> other = Take(thread.tid);
    if (!other || !MovesData(other->sample.doing)) continue;
    sample->doing = other->sample.doing;
    sample->words = fmt::format("thread '{}' {}", stacks::OneLine(thread.name), other->sample.words);
    return;
  }
}

// Workers of a data loader: what most of them do.
void ProcessLook::FollowChildren(MeanwhileSample* sample) {
  std::vector<int> children = stacks::ChildrenOf(pid_);
  if (children.size() > kMostChildren) children.resize(kMostChildren);
  std::map<std::string, int> counts;
  for (const int child : children) {
    std::unique_ptr<ProcessLook>& known = children_[child];
    if (!known) known = std::make_unique<ProcessLook>(child, child, files_, names_);
    const std::optional<Look> look = known->Take();
    if (!look) continue;
    const MeanwhileSample& seen = look->sample;
    const std::string place = seen.where.empty() ? "" : seen.where.front();
    const std::string words = seen.words.empty() ? "running" : seen.words;
    ++counts[place.empty() ? words : fmt::format("{} at {}", words, place)];
  }
  if (counts.empty()) return;
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  sample->words = fmt::format("{} of its {} worker processes {}", most->second, children.size(), most->first);
}

}  // namespace ncclwatch::meanwhile
