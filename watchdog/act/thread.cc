#include "watchdog/act/thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <memory>

#include "core/reader/guard.h"

namespace ncclwatch::act {
namespace {

constexpr std::size_t kStackBytes = 1 << 20;

struct Body {
  const char* name;
  std::function<void()> run;
};

// Process, threads begun (16 bits), threads ended (16 bits): a forked child has none of its parent's.
std::atomic<std::uint64_t> census{0};
constexpr std::uint64_t kBegun = 1 << 16, kEnded = 1;

std::uint64_t Ours(std::uint64_t word) {
  const std::uint64_t process = static_cast<std::uint64_t>(getpid()) << 32;
  return word >> 32 == process >> 32 ? word : process;
}

std::uint64_t With(std::uint64_t word, std::uint64_t one) {
  constexpr std::uint64_t kHalf = 0xffff;
  if (one == kEnded) return (word & ~kHalf) | ((word + kEnded) & kHalf);
  return (word & ~(kHalf << 16)) | ((word + kBegun) & kHalf << 16);
}

// A thread counts itself: never more than there are.
void Count(std::uint64_t one) {
  std::uint64_t word = census.load(std::memory_order_acquire);
  while (!census.compare_exchange_weak(word, With(Ours(word), one), std::memory_order_acq_rel)) {
  }
}

void* Main(void* argument) {
  Count(kBegun);
  const std::unique_ptr<Body> body(static_cast<Body*>(argument));
  prctl(PR_SET_NAME, body->name);
  reader::guard::OpenThisThread();
  try {
    body->run();
  } catch (const std::exception&) {
  }
  Count(kEnded);
  return nullptr;
}

}  // namespace

OwnThreads CountOwnThreads() {
  const std::uint64_t word = Ours(census.load(std::memory_order_acquire));
  return {static_cast<std::uint16_t>((word >> 16) - word), word};
}

bool StartThread(const char* name, std::function<void()> run) {
  std::unique_ptr<Body> body(new Body{name, std::move(run)});
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // Born with everything blocked: a signal meant for the application must never run its handler here.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, Main, body.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return false;
  static_cast<void>(body.release());
  return true;
}

}  // namespace ncclwatch::act
