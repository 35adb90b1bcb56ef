// Likewise (functions.cc) what the injected library does not call.
#include <pthread.h>

#include <cerrno>
#include <ctime>

#define NCCLWATCH_FLOOR extern "C" __attribute__((visibility("hidden")))

namespace {

constexpr long kSecond_ns = 1'000'000'000;

timespec Sum(const timespec& a, const timespec& b, int sign) {
  timespec sum{a.tv_sec + sign * b.tv_sec, a.tv_nsec + sign * b.tv_nsec};
  if (sum.tv_nsec >= kSecond_ns) ++sum.tv_sec, sum.tv_nsec -= kSecond_ns;
  if (sum.tv_nsec < 0) --sum.tv_sec, sum.tv_nsec += kSecond_ns;
  return sum;
}

}  // namespace

// 2.30. The wait follows the clock of the day, in pieces of at most a second: so late it is where that clock is set
// back.
NCCLWATCH_FLOOR int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                           const timespec* until) {
  timespec now{}, day{};
  if (clock_gettime(clock, &now) != 0) return EINVAL;
  clock_gettime(CLOCK_REALTIME, &day);
  const timespec left = Sum(*until, now, -1);
  if (left.tv_sec < 0) return ETIMEDOUT;
  const bool last = left.tv_sec < 1;
  const timespec piece = Sum(day, last ? left : timespec{1, 0}, 1);
  const int result = pthread_cond_timedwait(condition, mutex, &piece);
  return result == ETIMEDOUT && !last ? 0 : result;  // 0: a spurious wake-up, which every caller must expect
}
