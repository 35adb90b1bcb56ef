#include "watchdog/watch/node/evidence_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "watchdog/act/thread.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/base/lease.h"

namespace ncclwatch::watch {
namespace {

// For processes that write their own stacks: two turns of their watchdogs, and what the reading takes.
constexpr std::int64_t kOwnStacks_ns = 700'000'000;
constexpr long kEvidencePoll_ns = 10'000'000;

// Through a mapping of its own: the leader's may be gone before this thread is.
bool AskForOwnStacks(const descriptors::Directory& directory) {
  std::string why;
  const std::unique_ptr<LeaseFile> lease = LeaseFile::Open(directory, &why);
  if (lease) lease->words().own_stacks_wanted.fetch_add(1, std::memory_order_acq_rel);
  return lease != nullptr;
}

}  // namespace

struct EvidenceRun::State {
  std::string command;
  std::vector<std::string> environment;
  EvidenceRequest request;
  Stacks stacks;  // of the thread that takes them until stacks_taken

  std::atomic<bool> states_written{false};  // stored with release at the end of its thread, as the others
  std::atomic<bool> stacks_taken{false};
  std::atomic<bool> copied{false};
  bool reported = false;  // Tick has given the stacks away; the copying has begun after it
  bool copying = false;

  void TakeStacks();
  bool AllThere(std::int64_t since_ns);
  void AwaitSamples();
};

// Reads what lies there of the processes wanted. True if it is of now.
bool EvidenceRun::State::AllThere(std::int64_t since_ns) {
  stacks.processes.clear();
  bool all = true;
  for (const act::StackTarget& target : request.targets) {
    std::optional<reader::ProcessStacks> process =
        reader::ReadProcessStacks(request.dump.directory, static_cast<std::uint32_t>(target.pid));
    const bool fresh = process && process->at_ns >= since_ns && process->start_time == target.start_time;
    all &= fresh && !process->where.empty();
    if (fresh) stacks.processes.push_back(std::move(*process));
  }
  return all;
}

void EvidenceRun::State::TakeStacks() {
  const std::int64_t began_ns = Monotonic();
  stacks.complaint = act::TakeStacks({.command = command,
                                      .directory = request.dump.directory,
                                      .targets = request.targets,
                                      .environment = environment});
  if (AllThere(began_ns)) return;
  for (const act::StackTarget& target : request.targets) request.dump.directory.Unlink(act::SampleOf(target.pid));
  if (!AskForOwnStacks(request.dump.directory)) return;
  AwaitSamples();
  const std::string complaint = act::UnwindSamples({.command = command,
                                                    .directory = request.dump.directory,
                                                    .targets = request.targets,
                                                    .environment = environment});
  if (stacks.complaint.empty()) stacks.complaint = complaint;
  AllThere(began_ns);
}

// Until every process of which there are no stacks has left a sample, or for kOwnStacks_ns.
void EvidenceRun::State::AwaitSamples() {
  const std::int64_t until_ns = Monotonic() + kOwnStacks_ns;
  const auto there = [&](const act::StackTarget& target) {
    const bool read = std::any_of(stacks.processes.begin(), stacks.processes.end(), [&](const auto& process) {
      return static_cast<std::int32_t>(process.pid) == target.pid && !process.where.empty();
    });
    struct stat info {};
    return read || request.dump.directory.Stat(act::SampleOf(target.pid), &info);
  };
  while (!std::all_of(request.targets.begin(), request.targets.end(), there) && Monotonic() < until_ns) {
    const timespec pause{0, kEvidencePoll_ns};
    nanosleep(&pause, nullptr);
  }
}

void EvidenceRun::Ask(EvidenceRequest request) {
  if (!state_) return Begin(std::move(request));
  if (next_) request.request = std::max(request.request, next_->request);
  next_ = std::move(request);
}

void EvidenceRun::Begin(EvidenceRequest request) {
  auto state = std::make_shared<State>();
  state->command = command_;
  state->environment = *environment_;
  state->request = std::move(request);
  state_ = state;
  act::Dump states = state->request.dump;
  states.boxes.clear();
  states.own = nullptr;
  const bool saving = act::StartThread("ncclwatch-dump", [state, states] {
    act::Save(states);
    state->states_written.store(true, std::memory_order_release);
  });
  if (!saving) state->states_written.store(true, std::memory_order_release);
  const bool reading = act::StartThread(act::kStacksThread, [state] {
    state->TakeStacks();
    state->stacks_taken.store(true, std::memory_order_release);
  });
  if (reading) return;
  state->stacks.complaint = "no thread could be made for stacks";
  state->stacks_taken.store(true, std::memory_order_release);
}

std::optional<Stacks> EvidenceRun::Tick() {
  if (!state_) return std::nullopt;
  State& state = *state_;
  if (!state.reported && state.stacks_taken.load(std::memory_order_acquire)) {
    state.reported = true;
    state.stacks.verdict_at_ns = state.request.verdict_at_ns;
    return std::move(state.stacks);
  }
  if (state.reported && !state.copying && state.states_written.load(std::memory_order_acquire)) {
    state.copying = true;
    act::Dump everything = state.request.dump;
    everything.suspects.clear();
    const bool copying = act::StartThread("ncclwatch-dump", [shared = state_, everything] {
      act::Save(everything);
      shared->copied.store(true, std::memory_order_release);
    });
    if (!copying) state.copied.store(true, std::memory_order_release);
  }
  if (!state.copied.load(std::memory_order_acquire)) return std::nullopt;
  answered_ = std::max(answered_, state.request.request);
  state_.reset();
  if (next_) Begin(std::move(*std::exchange(next_, std::nullopt)));
  return std::nullopt;
}

}  // namespace ncclwatch::watch
