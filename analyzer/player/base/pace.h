// When the next call is due. Header only: the modules have it too.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace ncclwatch::player {

// What prepares and checks data is part of what lies between calls, as far as that lasts.
class Pace {
 public:
  static std::int64_t Now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
  }

  // The next call is due so long after the end of the last one.
  void After(std::int64_t ns) { due_ns_ = over_ns_ + ns; }

  // Short waits burn the processor, as what lay there did; the end of long ones too, since sleep ends late.
  void Wait() {
    constexpr std::int64_t kLate = 200'000;
    if (const std::int64_t left = due_ns_ - Now() - kLate; left > 0) {
      const timespec span{left / 1'000'000'000, left % 1'000'000'000};
      nanosleep(&span, nullptr);
    }
    while (Now() < due_ns_) {
    }
    over_ns_ = std::max(over_ns_, due_ns_);
  }

  // The call alone. Returns how long it took.
  template <class Make>
  std::int64_t Timed(Make make) {
    Wait();
    const std::int64_t began = Now();
    make();
    over_ns_ = Now();
    return over_ns_ - began;
  }
  std::int64_t over_ns() const { return over_ns_; }

 private:
  std::int64_t over_ns_ = Now(), due_ns_ = Now();
};

}  // namespace ncclwatch::player
