#include "watchdog/act/in_time.h"

#include <atomic>
#include <ctime>

#include "watchdog/act/thread.h"

namespace ncclwatch::act {
namespace {

constexpr long kStep_ns = 50'000;

bool AskInTime(std::function<void()> question, std::int64_t* left_ns) {
  if (*left_ns <= 0) return false;
  auto done = std::make_shared<std::atomic<bool>>(false);
  const std::int64_t began_ns = Now_ns();
  const bool started = StartThread("ncclwatch-ask", [done, question = std::move(question)] {
    question();
    done->store(true, std::memory_order_release);
  });
  if (!started) return false;
  const std::int64_t until_ns = began_ns + *left_ns;
  while (!done->load(std::memory_order_acquire) && Now_ns() < until_ns) {
    const timespec step{0, kStep_ns};
    nanosleep(&step, nullptr);
  }
  *left_ns = until_ns - Now_ns();
  return done->load(std::memory_order_acquire);
}

}  // namespace

std::int64_t Now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

rundir::Patience InTime(int budget_ms) {
  auto left_ns = std::make_shared<std::int64_t>(budget_ms * 1'000'000LL);
  return [left_ns](std::function<void()> question) { return AskInTime(std::move(question), left_ns.get()); };
}

}  // namespace ncclwatch::act
