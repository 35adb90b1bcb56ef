#include "watchdog/act/hook.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "watchdog/act/thread.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace ncclwatch::act {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr int kSignals = 64;

// Everything the two processes need, made before: between clone and exec nothing may allocate or lock.
struct Plan {
  const char* input = nullptr;
  std::vector<const char*> arguments;
  std::vector<const char*> environment;
  char* stacks = nullptr;  // two of kStackBytes
};

void CloseAbove(unsigned first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  for (int fd = static_cast<int>(first); fd < 4096; ++fd) close(fd);
}

// Not _exit(), which is wrapped in a process that we watch and would note the host's end.
[[noreturn]] void Leave(int status) {
  for (;;) syscall(SYS_exit_group, status);
}

int RunCommand(void* argument) {
  const Plan* plan = static_cast<const Plan*>(argument);
  for (int signal = 1; signal <= kSignals; ++signal) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  const int input = open(plan->input, O_RDONLY);
  if (input > 0) dup2(input, STDIN_FILENO);
  CloseAbove(3);
  prctl(PR_SET_PDEATHSIG, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve("/bin/sh", const_cast<char* const*>(plan->arguments.data()),
         const_cast<char* const*>(plan->environment.data()));
  Leave(127);
}

// Stays between the host and the command: exec turns any exit signal back into SIGCHLD, so the command cannot be the
// host's own child, and an orphan would be given to a host that is a subreaper. This one has exit signal 0, never
// execs, and reaps the command.
int Between(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it shares the host's memory and must not keep it beyond the host's end
  CloseAbove(3);
  const int child = clone(RunCommand, plan->stacks + 2 * kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
  if (child > 0)
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  Leave(0);
}

void Run(const std::string& command, const std::string& input, const std::vector<std::string>& environment) {
  Plan plan;
  plan.input = input.c_str();
  plan.arguments = {"sh", "-c", command.c_str(), nullptr};
  for (const std::string& variable : environment) plan.environment.push_back(variable.c_str());
  plan.environment.push_back(nullptr);
  void* stacks = mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stacks == MAP_FAILED) return;
  plan.stacks = static_cast<char*>(stacks);
  // CLONE_VFORK: this thread sleeps until the process in between is gone, so the two never run on one thread pointer
  // at the same time.
  const int between = clone(Between, plan.stacks + kStackBytes, CLONE_VM | CLONE_VFORK, &plan);
  if (between > 0) waitpid(between, nullptr, __WCLONE);
  munmap(stacks, 2 * kStackBytes);
}

}  // namespace

std::vector<std::string> CopyEnvironment() {
  std::vector<std::string> copy;
  for (char** variable = environ; variable && *variable; ++variable) copy.emplace_back(*variable);
  return copy;
}

bool StartHook(const std::string& command, const std::string& input, std::vector<std::string> environment) {
  return StartThread("ncclwatch-hook",
                     [command, input, environment = std::move(environment)] { Run(command, input, environment); });
}

}  // namespace ncclwatch::act
