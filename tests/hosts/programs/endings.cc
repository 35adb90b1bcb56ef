// Every way in which a process can end with a communicator in use.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <csignal>
#include <exception>
#include <stdexcept>
#include <thread>

#include "host.h"

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that nobody catches is one of the endings
int main(int argc, char** argv) {
  CHECK(argc == 2);
  const std::string mode = argv[1];
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::atexit([] { host::Say("atexit"); });
  std::at_quick_exit([] { host::Say("at_quick_exit"); });
  auto* const forbidden = static_cast<volatile int*>(mmap(nullptr, 4, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const ncclComm_t world = host::World();
  host::AllReduce(world, 11);
  host::Say("before the end");
  if (mode == "return") return 21;
  if (mode == "exit") std::exit(22);
  if (mode == "_exit") _exit(23);
  if (mode == "_Exit") _Exit(24);
  if (mode == "quick-exit") std::quick_exit(25);
  if (mode == "thread-exit") {
    std::thread([] { std::exit(26); }).detach();
    pause();
  }
  if (mode == "thread_exit") {
    std::thread([] { _exit(27); }).detach();
    pause();
  }
  // The main thread ends, the process lives on in another one, whose end is the end of the process.
  if (mode == "pthread-exit") {
    std::thread([world] {
      host::AllReduce(world, 12);
      host::Say("after the main thread");
    }).detach();
    pthread_exit(nullptr);
  }
  if (mode == "abort") std::abort();
  if (mode == "terminate") throw std::runtime_error("nobody catches this");
  if (mode == "noexcept") [](int value) noexcept { std::string("abc").at(value); }(argc + 2);
  if (mode == "segv") *forbidden = 1;
  if (mode == "kill") kill(getpid(), SIGKILL);
  if (mode == "term") raise(SIGTERM);
  if (mode == "handled") {
    std::signal(SIGSEGV, [](int) { _exit(28); });
    *forbidden = 1;
  }
  if (mode == "execve") {
    execl("/bin/sh", "sh", "-c", "echo after exec; exit 29", static_cast<char*>(nullptr));
  }
  return 97;
}
