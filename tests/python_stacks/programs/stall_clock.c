// A clock inside a process: wakes each millisecond, takes and gives back memory as a program does, and keeps the
// longest time that a turn took. Called by ctypes, which lets go of Python's lock: what it sees is the process being
// held up, not its threads waiting for one another.
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct clock {
  _Atomic int stop;
  _Atomic int reset;
  _Atomic long turns;
  _Atomic long longest_us;
  _Atomic long over_20_ms;
  int real_time;  // whether the scheduler lets it in before all else
};

static long microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

__attribute__((visibility("default"))) void stall_clock(struct clock* clock) {
  const size_t bytes = 64 << 10;
  const struct timespec millisecond = {0, 1000000};
  const struct sched_param first = {.sched_priority = 1};
  clock->real_time = sched_setscheduler(0, SCHED_FIFO, &first) == 0;
  for (long before = microseconds(); !clock->stop;) {
    nanosleep(&millisecond, NULL);
    void* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      memset(memory, 1, bytes);
      munmap(memory, bytes);
    }
    const long now = microseconds(), took = now - before;
    before = now;
    if (clock->reset) {
      clock->turns = clock->longest_us = clock->over_20_ms = 0;
      clock->reset = 0;
      continue;
    }
    ++clock->turns;
    if (took > clock->longest_us) clock->longest_us = took;
    clock->over_20_ms += took > 20000;
  }
}
