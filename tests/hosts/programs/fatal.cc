// Fatal signals: fatal WHAT HOW. WHAT raises one, HOW says who handles it. Every ending must be the one that the
// program has without anybody in front of it.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <climits>
#include <csetjmp>
#include <csignal>
#include <thread>

#include "host.h"

namespace {

sigjmp_buf back;
stack_t alternate{};
volatile int zero = 0, hundred = 100;

void Write(const char* text) { CHECK(write(STDOUT_FILENO, text, std::strlen(text)) > 0); }

int NumberOf(const std::string& what) {
  if (what == "null" || what == "wild" || what == "overflow" || what == "segv-raise" || what == "segv-kill" ||
      what == "segv-queue")
    return SIGSEGV;
  if (what == "bus") return SIGBUS;
  if (what == "divide") return SIGFPE;
  if (what == "illegal") return SIGILL;
  if (what == "breakpoint") return SIGTRAP;
  if (what == "forbidden") return SIGSYS;
  return SIGABRT;
}

// A mapping of a file that has become shorter.
volatile char* CutShort() {
  char path[] = "/dev/shm/host-fatal-XXXXXX";
  const int fd = mkstemp(path);
  CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, 4096) == 0);
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(memory != MAP_FAILED && ftruncate(fd, 0) == 0);
  return static_cast<volatile char*>(memory);
}

void Forbid() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, filter};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  syscall(SYS_getppid);
}

// NOLINTNEXTLINE(misc-no-recursion): that is the point
__attribute__((noinline)) int Deeper(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth == INT_MAX ? 0 : Deeper(depth + 1) + room[0];
}

__attribute__((noinline)) void Happen(const std::string& what) {
  if (what == "null") *static_cast<volatile int*>(nullptr) = 1;
  if (what == "wild") *reinterpret_cast<volatile int*>(0x5a5a5a5a5a5a5a5aul) = 1;  // no canonical address: no si_addr
  if (what == "overflow") Deeper(0);
  if (what == "segv-raise") raise(SIGSEGV);
  if (what == "segv-kill") kill(getpid(), SIGSEGV);
  if (what == "segv-queue") sigqueue(getpid(), SIGSEGV, sigval{.sival_int = 7});
  if (what == "abort") std::abort();
  if (what == "bus") *CutShort() = 1;
  if (what == "divide") zero = hundred / zero;
  if (what == "illegal") __builtin_trap();
#if defined(__x86_64__)
  if (what == "breakpoint") asm volatile("int3");
#else
  if (what == "breakpoint") asm volatile("brk #0");
#endif
  if (what == "forbidden") Forbid();
}

void Leave(int) {
  Write("handler leaves\n");
  _exit(40);
}
void JumpBack(int) { siglongjmp(back, 1); }
void Return(int) { Write("handler returns\n"); }
void Explain(int, siginfo_t* info, void* context) {
  char here = 0;
  const bool on_alternate =
      &here >= static_cast<char*>(alternate.ss_sp) && &here < static_cast<char*>(alternate.ss_sp) + alternate.ss_size;
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  std::string text = "signal " + std::to_string(info->si_signo) + " code " + std::to_string(info->si_code) +
                     (on_alternate ? " on the alternate stack" : " on the stack") +
                     (context ? "" : " without context") + ", blocked:";
  for (int number = 1; number < 32; ++number)
    if (sigismember(&mask, number)) text += " " + std::to_string(number);
  if (info->si_code > 0) text += info->si_addr ? " at an address" : " at nothing";
  if (info->si_code <= 0) text += info->si_pid == getpid() ? " from itself" : " from a stranger";
  Write((text + "\n").c_str());
  _exit(41);
}

struct sigaction saved {};
void PassOn(int signal, siginfo_t* info, void* context) {
  Write("mine first\n");
  if (saved.sa_flags & SA_SIGINFO)
    saved.sa_sigaction(signal, info, context);
  else if (saved.sa_handler == SIG_DFL) {
    std::signal(signal, SIG_DFL);
    if (info->si_code <= 0) raise(signal);
  } else {
    saved.sa_handler(signal);
  }
}

void Install(int number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  CHECK(sigaction(number, &action, nullptr) == 0);
}
void Install(int number, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR1);
  CHECK(sigaction(number, &action, &saved) == 0);
}

void UseAlternateStack(std::size_t bytes) {
  alternate.ss_size = bytes;
  alternate.ss_sp = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(alternate.ss_sp != MAP_FAILED && sigaltstack(&alternate, nullptr) == 0);
}

// What the host installed, and the alternate stack, must be what it finds later. Ours stands where nothing was.
void CheckUntouched(int number, const std::string& how) {
  stack_t now{};
  CHECK(sigaltstack(nullptr, &now) == 0);
  CHECK(alternate.ss_sp ? now.ss_sp == alternate.ss_sp : (now.ss_flags & SS_DISABLE) != 0);
  struct sigaction action {};
  CHECK(sigaction(number, nullptr, &action) == 0);
  if (how == "ignored") CHECK(action.sa_handler == SIG_IGN);
}

void BeforeNccl(int number, const std::string& how) {
  if (how == "leaves") Install(number, Leave, 0);
  if (how == "explains") Install(number, Explain, SA_RESTART);
  if (how == "alternate") Install(number, Explain, SA_ONSTACK | SA_NODEFER);
  if (how == "reset") Install(number, Return, static_cast<int>(SA_RESETHAND));
  if (how == "returns") Install(number, Return, 0);
  if (how == "jumps") Install(number, JumpBack, 0);
  if (how == "ignored") Install(number, SIG_IGN, 0);
  if (how == "alternate" || how == "stack-only") UseAlternateStack(65536);
  if (how == "small-stack") UseAlternateStack(8192);  // what SIGSTKSZ has always been
}

void Limit(int what, rlim_t most) {
  rlimit limit{};
  CHECK(getrlimit(static_cast<__rlimit_resource>(what), &limit) == 0);
  limit.rlim_cur = most;
  CHECK(setrlimit(static_cast<__rlimit_resource>(what), &limit) == 0);
}

void AfterNccl(int number, const std::string& how) {
  if (how == "late") Install(number, Leave, 0);
  if (how == "late-explains") Install(number, Explain, SA_RESTART);
  if (how == "passes-on") Install(number, PassOn, 0);
  if (how == "small-files") Limit(RLIMIT_FSIZE, 65536);
  if (how == "no-descriptors") {
    Limit(RLIMIT_NOFILE, 64);
    while (dup(STDOUT_FILENO) >= 0) {
    }
  }
  if (how == "closed")  // all that the program has not opened itself
    for (int fd = 3; fd < 4096; ++fd) close(fd);
}

// In a fork child, which must not write into its parent's box.
void InAChild(const std::string& what) {
  const pid_t child = fork();
  if (child == 0) {
    Happen(what);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  host::Say("child: " + std::to_string(status & 0xff));
}

void InTwoThreads(const std::string& what) {
  std::atomic<int> ready{0};
  const auto body = [&] {
    ++ready;
    while (ready < 2) {
    }
    Happen(what);
  };
  std::thread(body).detach();
  std::thread(body).detach();
  pause();
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const std::string what = argv[1], how = argv[2];
  const int number = NumberOf(what);
  if (!std::getenv("HOST_CORE")) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
  }
  BeforeNccl(number, how);
  const ncclComm_t world = host::World();
  host::AllReduce(world, 61);
  CheckUntouched(number, how);
  AfterNccl(number, how);
  if (how == "jumps") {
    static int times = 0;  // outlives the jump
    for (; times < 40; ++times)
      if (sigsetjmp(back, 1) == 0) Happen(what);
    host::Say("jumped back");
    std::signal(NumberOf(what), SIG_DFL);
  } else if (how == "child") {
    InAChild(what);
  } else if (how == "threads") {
    InTwoThreads(what);
  } else {
    Happen(what);
  }
  host::AllReduce(world, 62);
  host::Say("lived on");
  return 42;
}
