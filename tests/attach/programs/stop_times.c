// Preloaded into `ncclwatch attach`: how many threads it stops; and in microseconds the longest time from the moment in
// which it sees that a thread has stopped until it lets the thread go on, and from its request on. The latter includes
// the thread's wait for a processor. Written to $STOP_TIMES at the end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

enum { kMost = 1 << 22 };
static _Atomic long long asked[kMost], seen[kMost], longest, longest_asked, stops;

static long long now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void raise_to(_Atomic long long *most, long long took) {
  for (long long before = *most; took > before && !atomic_compare_exchange_weak(most, &before, took);) continue;
}

pid_t waitpid(pid_t tid, int *status, int options) {
  pid_t (*const real)(pid_t, int *, int) = (pid_t(*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid");
  const pid_t got = real(tid, status, options);
  if (got > 0) seen[got % kMost] = now_us();
  return got;
}

long ptrace(enum __ptrace_request request, ...) {
  long (*const real)(enum __ptrace_request, ...) = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
  va_list words;
  va_start(words, request);
  const pid_t tid = va_arg(words, pid_t);
  void *const address = va_arg(words, void *), *const data = va_arg(words, void *);
  va_end(words);
  if (request == PTRACE_INTERRUPT) asked[tid % kMost] = now_us();
  const long result = real(request, tid, address, data);
  if (request == PTRACE_DETACH) {
    ++stops;
    raise_to(&longest, now_us() - seen[tid % kMost]);
    raise_to(&longest_asked, now_us() - asked[tid % kMost]);
  }
  return result;
}

__attribute__((destructor)) static void tell(void) {
  const char *const path = getenv("STOP_TIMES");
  FILE *const file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%lld %lld %lld\n", stops, longest, longest_asked);
  fclose(file);
}
