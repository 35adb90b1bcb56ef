// A native library that a Python program calls, and which calls NCCL itself: in the calling thread, in a thread of its
// own, or through a function of the program.
#include <pthread.h>
#include <stddef.h>
#include <time.h>

struct arguments {
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, void*);
  void* buffer;
  size_t count;
  void* communicator;
};

static unsigned long long made;  // of call_times

void call_directly(const struct arguments* of) {
  of->all_reduce(of->buffer, of->buffer, of->count, 7, 0, of->communicator, NULL);
}

void call_times(const struct arguments* of, int times) {
  __atomic_fetch_add(&made, (unsigned long long)times, __ATOMIC_RELAXED);
  while (times-- > 0) call_directly(of);
}

unsigned long long calls(void) { return __atomic_load_n(&made, __ATOMIC_RELAXED); }

void call_for_ever(const struct arguments* of) {
  for (;;) call_directly(of);
}

static void* run(void* of) {
  call_directly(of);
  return NULL;
}

void call_in_thread(struct arguments* of) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, of) == 0) pthread_join(thread, NULL);
}

void call_back(void (*function)(void*)) { function(NULL); }

// The best of `rounds` rounds of `calls` calls, in nanoseconds of the thread's processor time for each call.
double best_ns(const struct arguments* of, int rounds, int calls) {
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < calls; ++i) call_directly(of);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    const double ns = ((to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / calls;
    if (ns < best) best = ns;
  }
  return best;
}

struct timing {
  const struct arguments* of;
  double ns;
};

static void* run_timed(void* timing) {
  struct timing* const of = timing;
  of->ns = best_ns(of->of, 20, 5000);
  return NULL;
}

// The same in a thread that has no Python.
double best_ns_in_thread(const struct arguments* of) {
  struct timing timing = {of, 0};
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_timed, &timing) == 0) pthread_join(thread, NULL);
  return timing.ns;
}
