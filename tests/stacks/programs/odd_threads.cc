// Threads and processes in the states that are hard to read. Prints "ready PID" once it is in the state, and ends at
// the end of its standard input.
//
//   odd_threads vfork | churn | mutex | leader | signal | deep | library FILE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#define KEEP_FRAME asm volatile("" ::: "memory")  // what follows a call keeps it from being a jump

namespace {

std::atomic<bool> over{false};
std::atomic<int> held{0};
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void Ready() {
  std::printf("ready %d\n", static_cast<int>(syscall(SYS_getpid)));
  std::fflush(stdout);
}

[[gnu::noinline]] void UntilTheEnd() {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  over.store(true);
}

pthread_t Start(void* (*body)(void*), const char* name) {
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, body, const_cast<char*>(name)) != 0) std::abort();
  return thread;
}

void Name(void* argument) {
  if (argument) prctl(PR_SET_NAME, argument);
}

// The parent of a vfork child waits in the kernel without being interruptible (state D) until the child is gone.
[[gnu::noinline]] void WaitForVfork() {
  std::printf("ready %d\n", getpid());
  std::fflush(stdout);
  const pid_t child = vfork();
  if (child == 0) {
    UntilTheEnd();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

[[gnu::noinline]] void Recurse(int depth, void (*at_the_bottom)()) {
  volatile char room[64];
  room[0] = static_cast<char>(depth);
  if (depth > 0)
    Recurse(depth - 1, at_the_bottom);
  else
    at_the_bottom();
  KEEP_FRAME;
  room[1] = room[0];
}

void* LivesShortly(void*) {
  Recurse(std::rand() % 50, [] { usleep(static_cast<useconds_t>(std::rand() % 300)); });
  return nullptr;
}

void* StartsOthers(void*) {
  while (!over.load()) {
    pthread_t some[8];
    for (pthread_t& one : some) one = Start(LivesShortly, nullptr);
    for (const pthread_t one : some) pthread_join(one, nullptr);
  }
  return nullptr;
}

void* HoldsTheMutex(void* name) {
  Name(name);
  pthread_mutex_lock(&mutex);
  held.store(1);
  while (!over.load()) usleep(10'000);
  pthread_mutex_unlock(&mutex);
  return nullptr;
}

[[gnu::noinline]] void WaitForMutex() {
  while (held.load() == 0) usleep(1000);
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}

void* WantsTheMutex(void* name) {
  Name(name);
  WaitForMutex();
  return nullptr;
}

void* OutlivesTheLeader(void* name) {
  Name(name);
  usleep(50'000);
  Ready();
  UntilTheEnd();
  _exit(0);
}

[[gnu::noinline]] void InsideHandler() {
  Ready();
  UntilTheEnd();
  KEEP_FRAME;
}

void Handler(int) {
  InsideHandler();
  KEEP_FRAME;
}

// The signal comes between two instructions of this function, on a stack of its own.
[[gnu::noinline]] void Interrupted() {
  std::raise(SIGUSR1);
  KEEP_FRAME;
}

[[gnu::noinline]] void SignalOnAnotherStack() {
  static char room[64 << 10];
  stack_t stack{};
  stack.ss_sp = room;
  stack.ss_size = sizeof(room);
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = Handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  Interrupted();
  KEEP_FRAME;
}

[[gnu::noinline]] void WaitInLibrary(const char* file) {
  void* const library = dlopen(file, RTLD_NOW);
  auto* const wait = library ? reinterpret_cast<void (*)()>(dlsym(library, "WaitInsideLibrary")) : nullptr;
  if (!wait) std::abort();
  wait();
  KEEP_FRAME;
}

}  // namespace

int main(int count, char** words) {
  const std::string_view what = count > 1 ? words[1] : "";
  if (what == "vfork") {
    WaitForVfork();
  } else if (what == "churn") {
    for (int i = 0; i < 4; ++i) Start(StartsOthers, nullptr);
    Ready();
    UntilTheEnd();
    usleep(50'000);
  } else if (what == "mutex") {
    Start(HoldsTheMutex, "holder");
    Start(WantsTheMutex, "waiter");
    usleep(100'000);
    Ready();
    UntilTheEnd();
  } else if (what == "leader") {
    Start(OutlivesTheLeader, "survivor");
    pthread_exit(nullptr);
  } else if (what == "signal") {
    SignalOnAnotherStack();
  } else if (what == "deep") {
    Recurse(5000, [] {
      Ready();
      UntilTheEnd();
    });
  } else if (what == "library" && count > 2) {
    WaitInLibrary(words[2]);
  } else {
    return 2;
  }
  _exit(0);
}
