// Preloaded: the clock of the process is CLOCK_AHEAD seconds ahead.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  const long status = syscall(SYS_clock_gettime, clock, now);
  const char* const ahead = getenv("CLOCK_AHEAD");
  if (clock == CLOCK_REALTIME && ahead) now->tv_sec += atoi(ahead);
  return (int)status;
}
