#include "watchdog/act/program.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "watchdog/act/in_time.h"
#include "watchdog/descriptors/standard.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace ncclwatch::act {
namespace {

constexpr std::size_t kChildStackBytes = 64 << 10;
constexpr int kSignals = 64;
constexpr std::int64_t kPoll_ns = 2'000'000;       // how often the deadline is looked at
constexpr std::int64_t kAlone_ms = 2'000;          // beyond its deadline, once the host is gone
constexpr rlim_t kMostOutput = rlim_t{256} << 20;  // bytes of any one file that it writes

// Everything the two processes need, made before: between clone and exec nothing may allocate or lock.
struct Plan {
  const char* input = nullptr;
  const char* output = nullptr;  // null: the host's
  std::vector<const char*> arguments;
  std::vector<const char*> environment;
  char* stacks = nullptr;  // two of kChildStackBytes
  std::int64_t deadline_ms = 0;
  std::int64_t grace_ms = 0;
  Outcome outcome;
};

void CloseAbove(unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  for (int fd = static_cast<int>(first); fd < 4096; ++fd) close(fd);
}

// Not _exit(), which is wrapped in a process that we watch and would note the host's end.
[[noreturn]] void Leave(int status) {
  for (;;) syscall(SYS_exit_group, status);
}

// What the host has opened under these numbers since its start is no place for a command's words.
void AvoidFilesOfTheHost() {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (descriptors::IsAsLoaded(fd)) continue;
    close(fd);
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0 && nowhere != fd) dup2(nowhere, fd);
  }
}

void Redirect(const Plan& plan) {
  const int input = open(plan.input, O_RDONLY | O_NOFOLLOW);
  if (input > 0) dup2(input, STDIN_FILENO);
  if (!plan.output) return AvoidFilesOfTheHost();
  const int output = open(plan.output, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (output < 0) return;
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
}

void Restrain(const Plan& plan) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (plan.deadline_ms == 0) return;
  const sched_param ordinary{};
  sched_setscheduler(0, SCHED_OTHER, &ordinary);  // the host's threads may have real time
  const rlimit bounded{kMostOutput, kMostOutput};
  if (plan.output) setrlimit(RLIMIT_FSIZE, &bounded);
  // Survives exec: ends it if nobody is left to do so.
  const std::int64_t alone_ms = plan.deadline_ms + plan.grace_ms + kAlone_ms;
  const itimerval alarm{{0, 0}, {alone_ms / 1000, alone_ms % 1000 * 1000}};
  setitimer(ITIMER_REAL, &alarm, nullptr);
}

int RunCommand(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  for (int signal = 1; signal <= kSignals; ++signal) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  Redirect(*plan);
  CloseAbove(3);
  prctl(PR_SET_PDEATHSIG, 0);
  if (plan->grace_ms != 0) setsid();
  Restrain(*plan);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan->arguments[0], const_cast<char* const*>(plan->arguments.data()),
         const_cast<char* const*>(plan->environment.data()));
  plan->outcome.error = errno;  // its memory is the host's until exec
  Leave(127);
}

void AwaitCommand(int child, Plan* plan) {
  std::int64_t until_ns = Now_ns() + plan->deadline_ms * 1'000'000;
  bool asked = plan->grace_ms == 0;  // to end
  const pid_t whom = plan->grace_ms == 0 ? child : -child;
  for (;;) {
    const bool watch = plan->deadline_ms != 0 && (plan->outcome.in_time || !asked);
    const int ended = waitpid(child, &plan->outcome.status, watch ? WNOHANG : 0);
    if (ended == child && plan->grace_ms != 0 && !plan->outcome.in_time) kill(whom, SIGKILL);  // what it left behind
    if (ended == child || (ended < 0 && errno != EINTR)) return;
    if (!watch) continue;
    if (Now_ns() >= until_ns) {
      if (plan->outcome.in_time) {
        plan->outcome.in_time = false;
        kill(whom, asked ? SIGKILL : SIGTERM);
        until_ns += plan->grace_ms * 1'000'000;
      } else {
        asked = true;
        kill(whom, SIGKILL);
      }
      continue;
    }
    const timespec pause{0, kPoll_ns};
    nanosleep(&pause, nullptr);
  }
}

// Stays between the host and the command: exec turns any exit signal back into SIGCHLD, so the command cannot be the
// host's own child, and an orphan would be given to a host that is a subreaper. This one has exit signal 0, never
// execs, and reaps the command.
int Between(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it shares the host's memory and must not keep it beyond the host's end
  CloseAbove(3);
  const int child = clone(RunCommand, plan->stacks + 2 * kChildStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
  if (child > 0)
    AwaitCommand(child, plan);
  else
    plan->outcome.error = errno;
  Leave(0);
}

bool IsLoaders(const std::string& variable) {
  return variable.starts_with("LD_PRELOAD=") || variable.starts_with("LD_LIBRARY_PATH=") ||
         variable.starts_with("LD_AUDIT=");
}

}  // namespace

std::vector<std::string> CopyEnvironment() {
  std::vector<std::string> copy;
  for (char** variable = environ; variable && *variable; ++variable) copy.emplace_back(*variable);
  return copy;
}

std::vector<std::string> WithoutLoader(const std::vector<std::string>& environment) {
  std::vector<std::string> kept;
  std::copy_if(environment.begin(), environment.end(), std::back_inserter(kept),
               [](const std::string& variable) { return !IsLoaders(variable); });
  return kept;
}

Outcome RunProgram(const Program& program) {
  Plan plan;
  plan.input = program.input.empty() ? "/dev/null" : program.input.c_str();
  plan.output = program.output.empty() ? nullptr : program.output.c_str();
  for (const std::string& word : program.arguments) plan.arguments.push_back(word.c_str());
  plan.arguments.push_back(nullptr);
  for (const std::string& variable : program.environment) plan.environment.push_back(variable.c_str());
  plan.environment.push_back(nullptr);
  plan.deadline_ms = program.deadline_ms;
  plan.grace_ms = program.grace_ms;
  void* stacks = mmap(nullptr, 2 * kChildStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stacks == MAP_FAILED) {
    plan.outcome.error = errno;
    return plan.outcome;
  }
  plan.stacks = static_cast<char*>(stacks);
  // CLONE_VFORK: this thread sleeps until the process in between is gone, so the two never run on one thread pointer
  // at the same time.
  const int between = clone(Between, plan.stacks + kChildStackBytes, CLONE_VM | CLONE_VFORK, &plan);
  if (between > 0)
    waitpid(between, nullptr, __WCLONE);
  else
    plan.outcome.error = errno;
  munmap(stacks, 2 * kChildStackBytes);
  return plan.outcome;
}

}  // namespace ncclwatch::act
