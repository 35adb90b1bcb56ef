// A program with a prctl() and a nanosleep() of its own, in front of the C library's: it sees what is asked of them.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <ctime>
#include <thread>

#include "host.h"

namespace {

constexpr int kSetPtracer = 0x59616d61;  // PR_SET_PTRACER

std::atomic<int> tracers{0};
std::atomic<int> slept{0};      // of threads that fault
std::atomic<bool> hold{false};  // the first handler that asks for its thread's name waits
std::atomic<bool> held{false};  // it waits
std::atomic<int> handled{0};
thread_local volatile bool faults = false;
thread_local volatile char* page = nullptr;

// As a safepoint of a virtual machine does: the page is made accessible, and the thread goes on.
void OnFault(int, siginfo_t*, void*) {
  ++handled;
  mprotect(const_cast<char*>(page), 4096, PROT_READ | PROT_WRITE);
}

void Fault() {
  page = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK(page != MAP_FAILED);
  faults = true;
  *page = 1;
}

// One thread's signal is being written down; until it is, the other one's handler must come to its turn all the same.
void FaultInTwoThreads() {
  hold = true;
  std::thread first(Fault);
  for (int i = 0; i < 1000 && !held; ++i) usleep(1000);  // without the library nobody asks
  std::thread second(Fault);
  second.join();
  host::Say(handled == 1 ? "the second handler ran first" : "both handlers ran");
  hold = false;
  first.join();
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  unsigned long argument[4];
  for (unsigned long& one : argument) one = va_arg(list, unsigned long);
  va_end(list);
  if (option == kSetPtracer) ++tracers;
  if (option == PR_GET_NAME && faults && hold && !held.exchange(true))
    while (hold) syscall(SYS_sched_yield);
  return static_cast<int>(syscall(SYS_prctl, option, argument[0], argument[1], argument[2], argument[3]));
}

__attribute__((visibility("default"))) int nanosleep(const timespec* time, timespec* left) {
  if (faults) ++slept;
  return static_cast<int>(syscall(SYS_nanosleep, time, left));
}
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const std::string mode = argv[1];
  if (mode == "handled") {
    struct sigaction action {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSEGV, &action, nullptr) == 0);
  }
  const ncclComm_t world = host::World();
  host::AllReduce(world, 131);
  if (mode == "handled") {
    FaultInTwoThreads();
    host::Say("slept " + std::to_string(slept));
  }
  if (mode == "tracer") {
    const int least = host::FromEnvironment("LEAST_TRACERS", 0);
    for (int i = 0; i < 1000 && (i < 50 || tracers < least); ++i) usleep(10'000);
    host::AllReduce(world, 132);  // both ranks have waited by now
    host::Say(tracers > 0 ? "named a tracer" : "named no tracer");
  }
  return 0;
}
