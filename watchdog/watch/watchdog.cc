#include "watchdog/watch/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <optional>
#include <vector>

#include "core/reader/guard.h"
#include "watchdog/act/program.h"
#include "watchdog/act/stacks.h"
#include "watchdog/act/thread.h"
#include "watchdog/descriptors/high.h"
#include "watchdog/evidence/exit.h"
#include "watchdog/evidence/pidfd.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/process.h"
#include "watchdog/rundir/sweep.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/base/context.h"
#include "watchdog/watch/base/lease.h"
#include "watchdog/watch/leader/leader.h"
#include "watchdog/watch/process/ask_signal.h"
#include "watchdog/watch/process/call_sites.h"
#include "watchdog/watch/process/logged_events.h"
#include "watchdog/watch/process/memory_figures.h"
#include "watchdog/watch/process/orders.h"
#include "watchdog/watch/process/sigterm_delay.h"
#include "watchdog/watch/process/tracer.h"

namespace ncclwatch::watch {
namespace {

constexpr int kTick_ms = 40;                         // below the 50 ms that heartbeats promise
constexpr unsigned long kTimerSlack_ns = 2'000'000;  // lets the kernel wake several ranks at once
constexpr std::int64_t kGap_ns = 1'000'000'000;      // not run for this long: nothing may be judged by the clock
constexpr std::int64_t kCheckClockEvery_ns = 1'000'000'000;
constexpr int kMostFailures = 3;  // exceptions (memory) before this process leads no more
constexpr int kStopPatience_ms = 100;

}  // namespace

struct Watchdog::State {
  explicit State(const Start& start)
      : context{start.own, start.own_path, start.directory, start.settings, ""},
        clock(start.own),
        call_sites(start.own),
        memory(start.own),
        logged_events(context),
        orders(start.own, context.directory, start.abort_communicators, start.sample_own_stacks),
        sweep(start.settings.keep, start.directory.path()) {}
  ~State() {
    if (wake >= 0) close(wake);
    if (holder_fd >= 0) close(holder_fd);
  }

  void Run();
  void Beat(std::int64_t now_ns);
  void Lead(std::int64_t now_ns, std::int64_t gap_ns);
  void EndWithTheHost();
  void LookOnceMore(std::int64_t now_ns);
  bool LostGround();
  void MeetHolder();
  void LookAtHolder(std::int64_t now_ns);
  void Wait();
  void UpdateOnceMore();

  Context context;
  ClockKeeper clock;
  CallSites call_sites;
  MemoryFigures memory;
  LoggedEvents logged_events;
  Orders orders;
  std::vector<std::string> environment;
  std::atomic<int> wake{-1};  // readable: stop
  struct stat wake_file {};
  int own_guard = -1;  // number of the black box's mapping
  std::atomic<bool> stop{false};
  std::atomic<bool> finished{false};

  rundir::Sweep sweep;  // of what earlier jobs have left
  bool sweeps = false;  // the first leader does
  std::unique_ptr<LeaseFile> lease;
  std::unique_ptr<Leader> leader;
  std::uint64_t holder = 0;  // whose pidfd holder_fd is
  int holder_fd = -1;
  std::string holder_group;  // its memory's control group
  evidence::MemoryKills holder_kills;
  bool holder_gone = false;
  bool holder_met = false;   // looked at as a process
  bool others_left = false;  // this process leads the ending of the job
  int failures = 0;
  std::int64_t clock_checked_ns = 0;
};

void Watchdog::State::Beat(std::int64_t now_ns) {
  context.own->heartbeat_ns.store(now_ns, std::memory_order_release);
  context.own->heartbeats.fetch_add(1, std::memory_order_relaxed);
  if (now_ns - clock_checked_ns < kCheckClockEvery_ns) return;
  clock_checked_ns = now_ns;
  clock.Check();
  holder_kills.Refresh(now_ns);
  EndWithTheHost();
}

// A process whose main thread left by pthread_exit() ends with its last thread. Where only the library's own are left,
// this one ends the process as the C library would have done for the host's last thread.
void Watchdog::State::EndWithTheHost() {
  constexpr unsigned kDotAndDotDot = 2;
  constexpr unsigned kMain = 1;
  const act::OwnThreads own = act::CountOwnThreads();
  struct stat tasks {};
  if (stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != kDotAndDotDot + kMain + own.running) return;
  if (act::CountOwnThreads().word != own.word) return;
  const std::optional<rundir::ProcessStat> main = rundir::StatOf(getpid());
  if (main && main->state == 'Z') std::exit(0);
}

// Asked after the pidfd was made, the start time settles whose it is.
void Watchdog::State::MeetHolder() {
  const std::optional<HolderProcess> process = lease->NearHolder();
  if (!process || process->holder != holder) return;
  holder_met = true;
  if (context.settings.ptrace) AllowTracing(process->pid);
  holder_fd = evidence::OpenPidfd(process->pid);
  const std::optional<rundir::ProcessStat> stat = rundir::StatOf(process->pid);
  if (stat && process->Is(*stat)) {
    holder_group = holder_kills.Follow(process->pid);
    return;
  }
  // The pid is another process's by now. One that cannot be looked at is judged by its heartbeat.
  if (holder_fd >= 0) close(holder_fd);
  holder_fd = -1;
  holder_gone = stat.has_value();
}

void Watchdog::State::LookAtHolder(std::int64_t now_ns) {
  const std::uint64_t seen = lease->Holder();
  if (seen != holder) {
    if (holder_fd >= 0) close(holder_fd);
    holder = seen;
    holder_fd = -1;
    holder_gone = holder_met = false;
  }
  if (!holder_met) MeetHolder();
  if (holder_fd >= 0) {
    pollfd one = {holder_fd, POLLIN, 0};
    holder_gone = poll(&one, 1, 0) == 1 && (one.revents & POLLIN);
    if (one.revents & POLLNVAL) holder_fd = -1;  // the host has closed it; the heartbeat must do
  }
  if (!holder_gone && !lease->Open(now_ns)) return;
  if (!lease->Take(seen, now_ns)) return;
  if (context.settings.ptrace) AllowTracing(getpid());
  leader = std::make_unique<Leader>(context, lease.get(), &environment);
  if (holder_fd >= 0)
    leader->Remember(static_cast<std::int32_t>(seen & 0xffffffffu), holder_fd, holder_group, holder_kills);
  holder_fd = -1;
  sweeps = sweeps || lease->Generation() == 1;
  log::Info("leads this node, term {}{}", lease->Generation(), holder_gone ? ": the process that led it is gone" : "");
}

void Watchdog::State::Lead(std::int64_t now_ns, std::int64_t gap_ns) {
  if (!lease->Mine()) {
    leader.reset();
    log::Info("leads this node no more: another process has taken the lease");
    return;
  }
  lease->Beat(now_ns);
  if (!leader->Ending()) leader->Tick(now_ns, gap_ns);
  others_left = leader->Ending() && !leader->EndOthers(now_ns);
}

// The process is about to end by SIGTERM: if it leads, or the leader is gone, what it knows is said before.
void Watchdog::State::LookOnceMore(std::int64_t now_ns) {
  if (lease && !leader && failures < kMostFailures) LookAtHolder(now_ns);
  if (!leader || !lease->Mine()) return;
  log::Debug("this process is about to end by SIGTERM: looks once more");
  leader->TickOnceMore(now_ns);
  leader->Linger();
}

// The lease or the black box was cut short, or its file system is full: what stands in its place nobody else sees.
// True if it is the black box: there is nothing left to do here.
bool Watchdog::State::LostGround() {
  const bool lost = reader::guard::Lost(own_guard);
  if (lease && (lost || lease->Lost())) {
    leader.reset();
    lease->Release();
    lease.reset();
    if (!lost) log::Error("the lease was cut short: calls are recorded, but not watched");
  }
  if (lost) log::Error("the black box was cut short, or its file system is full: recording has stopped");
  return lost;
}

void Watchdog::State::Wait() {
  std::vector<pollfd> fds = {{wake, POLLIN, 0}};
  if (leader)
    leader->AddPollFds(&fds);
  else if (holder_fd >= 0 && !holder_gone)
    fds.push_back({holder_fd, POLLIN, 0});
  if (poll(fds.data(), fds.size(), kTick_ms) <= 0 || fds[0].revents == 0 || stop.load(std::memory_order_acquire))
    return;
  // Nobody has asked to stop: the host has closed this descriptor, and may have given its number to a file of its own.
  wake = -1;
}

// What the process has recorded since the last look: after it nobody could name the places of its calls.
void Watchdog::State::UpdateOnceMore() {
  if (reader::guard::Lost(own_guard)) return;
  try {
    call_sites.Update(CallSites::kAtTheEnd);
    logged_events.Update();
  } catch (const std::exception& error) {
    log::Debug("the last calls were not looked at: {}", error.what());
  }
}

void Watchdog::State::Run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlack_ns, 0, 0, 0);
  std::string why;
  lease = LeaseFile::Open(context.directory, &why);
  // A process that ends at once may find its run directory removed already.
  const bool ends =
      context.own->state.load(std::memory_order_acquire) != static_cast<std::uint32_t>(format::ProcessState::kRunning);
  if (!lease && !ends) log::Error("calls are recorded, but not watched: {}", why);
  std::int64_t last_ns = Monotonic();
  while (!stop.load(std::memory_order_acquire)) {
    const std::int64_t now_ns = Monotonic();
    const std::int64_t gap_ns = now_ns - last_ns > kGap_ns ? now_ns - last_ns : 0;
    last_ns = now_ns;
    Beat(now_ns);
    if (LostGround()) break;
    try {
      call_sites.Update();
      memory.Update(now_ns);
      logged_events.Update();
      if (lease && failures < kMostFailures) {
        if (!leader && !stop.load(std::memory_order_acquire)) LookAtHolder(now_ns);
        if (leader) Lead(now_ns, gap_ns);
      }
      if (sweeps) sweeps = sweep.Step();
      if (SigtermDelay::Asked()) {
        LookOnceMore(Monotonic());  // not the time of this tick: a verdict may be younger than that
        SigtermDelay::Answer();
      }
      if (SigtermDelay::IsStuck(now_ns)) {
        LookOnceMore(Monotonic());
        SigtermDelay::TakeStuck();
      }
      if (AskSignal::Taken() && lease) lease->words().evidence_wanted.fetch_add(1, std::memory_order_acq_rel);
      if (lease) orders.ApplyCommands(lease->words(), leader && others_left, Monotonic());
      Wait();
    } catch (const std::exception& error) {
      if (SigtermDelay::Asked()) SigtermDelay::Answer();
      leader.reset();
      if (lease) lease->Release();
      log::Debug("gives the lease back: {}", error.what());
      if (++failures == kMostFailures) log::Error("leads no more: {}", error.what());
    }
  }
  UpdateOnceMore();
  leader.reset();
  if (lease) lease->Release();
  if (SigtermDelay::Asked()) SigtermDelay::Answer();
  if (reader::guard::Lost(own_guard)) SigtermDelay::Withdraw();
}

Watchdog::Watchdog() = default;

std::unique_ptr<Watchdog> Watchdog::Launch(const Start& start) {
  try {
    std::unique_ptr<Watchdog> watchdog(new Watchdog);
    auto state = std::make_shared<State>(start);
    state->environment = act::CopyEnvironment();
    state->context.command = act::FindCommand(state->environment);
    state->wake = descriptors::MoveHigh(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (state->wake < 0 || fstat(state->wake, &state->wake_file) != 0) return nullptr;
    state->own_guard = start.own_guard;
    const bool started = act::StartThread("ncclwatch", [state] {
      state->Run();
      state->finished.store(true, std::memory_order_release);
    });
    if (!started) return nullptr;
    SigtermDelay::Offer();
    AskSignal::Offer();
    watchdog->state_ = std::move(state);
    return watchdog;
  } catch (const std::exception&) {
    errno = ENOMEM;
    return nullptr;
  }
}

Watchdog::~Watchdog() {
  if (!state_) return;
  SigtermDelay::Withdraw();
  AskSignal::Withdraw();
  state_->stop.store(true, std::memory_order_release);
  // Not into a file of the host's, which may have closed this descriptor and been given its number: then the thread
  // sees the flag at its next tick.
  struct stat file {};
  const int wake = state_->wake;
  if (fstat(wake, &file) == 0 && file.st_dev == state_->wake_file.st_dev && file.st_ino == state_->wake_file.st_ino)
    eventfd_write(wake, 1);
  for (int i = 0; i < kStopPatience_ms && !state_->finished.load(std::memory_order_acquire); ++i) usleep(1000);
}

}  // namespace ncclwatch::watch
