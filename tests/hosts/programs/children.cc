// Children of a process that uses NCCL: fork with and without exec, vfork, raw clone, and children that outlive it.
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>

#include "host.h"

namespace {

void Report(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  host::Say(WIFEXITED(status) ? "child left with " + std::to_string(WEXITSTATUS(status))
                              : "child ended by signal " + std::to_string(WTERMSIG(status)));
}

void ForkExec() {
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "echo from the shell; exit 4", static_cast<char*>(nullptr));
    _exit(98);
  }
  Report(child);
}

// Leaves by exit(): destructors and atexit handlers of a copied process must not touch its parent's black box.
void ForkExit() {
  const pid_t child = fork();
  if (child == 0) {
    int version = 0;
    NCCL(ncclGetVersion(&version));
    std::exit(version > 0 ? 7 : 8);
  }
  Report(child);
}

void ForkQuick() {
  const pid_t child = fork();
  if (child == 0) _exit(3);
  Report(child);
}

void ForkKilled() {
  const pid_t child = fork();
  if (child == 0) {
    kill(getpid(), SIGKILL);
    pause();
  }
  Report(child);
}

void ForkAborts() {
  const pid_t child = fork();
  if (child == 0) std::abort();
  Report(child);
}

void VforkExec() {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", static_cast<char*>(nullptr));
    _exit(98);
  }
  Report(child);
}

void VforkExit() {
  const pid_t child = vfork();
  if (child == 0) _exit(5);
  Report(child);
}

// Past every atfork handler: only the kernel knows that this is another process.
void RawClone() {
  const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) {
    int version = 0;
    for (int i = 0; i < 100; ++i) ncclGetVersion(&version);
    syscall(SYS_exit_group, version > 0 ? 6 : 8);
  }
  Report(static_cast<pid_t>(child));
}

void RawCloneExit() {
  const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child == 0) _exit(9);
  Report(static_cast<pid_t>(child));
}

}  // namespace

int main(int argc, char** argv) {
  const ncclComm_t world = host::World();
  host::AllReduce(world, 11);
  for (int i = 1; i < argc; ++i) {
    const std::string mode = argv[i];
    if (mode == "fork_exec") ForkExec();
    if (mode == "fork_exit") ForkExit();
    if (mode == "fork_quick") ForkQuick();
    if (mode == "fork_killed") ForkKilled();
    if (mode == "fork_aborts") ForkAborts();
    if (mode == "vfork_exec") VforkExec();
    if (mode == "vfork_exit") VforkExit();
    if (mode == "raw_clone") RawClone();
    if (mode == "raw_clone_exit") RawCloneExit();
    host::AllReduce(world, 20 + i);
  }
  CHECK(waitpid(-1, nullptr, 0) == -1 && errno == ECHILD);
  NCCL(ncclCommDestroy(world));
  host::Say("parent done");
  return 0;
}
