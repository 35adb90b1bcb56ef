// Preloaded into an MPI program: once a step, before a chosen MPI function, one rank sleeps, computes, or writes 50 MB
// and waits for the disk. SLOW_HOW (sleep, busy, fsync), SLOW_RANK, SLOW_CALL and SLOW_CALLS (of a step: before which
// function, how many calls make a step), SLOW_US; SLOW_FILE for fsync, once in 20 steps.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kFileBytes = 50 << 20, kFileEvery = 20 };

static long setting(const char* name) {
  const char* text = getenv(name);
  return text ? atol(text) : -1;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static void compute(long us) {
  const double end = seconds() + us * 1e-6;
  while (seconds() < end) continue;
}

static void write_checkpoint(void) {
  static char state[kFileBytes];
  const int file = open(getenv("SLOW_FILE"), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (file < 0 || write(file, state, sizeof state) < 0 || fsync(file) != 0) abort();
  close(file);
}

static void be_slow(const char* call) {
  static long rank = -2, every, us, calls;
  static const char *how, *before;
  if (rank == -2) {
    rank = setting("SLOW_RANK");
    every = setting("SLOW_CALLS");
    us = setting("SLOW_US");
    how = getenv("SLOW_HOW");
    before = getenv("SLOW_CALL");
  }
  if (rank != setting("OMPI_COMM_WORLD_RANK") || strcmp(call, before) != 0 || ++calls % every != 0) return;
  if (!strcmp(how, "sleep")) usleep(us);
  if (!strcmp(how, "busy")) compute(us);
  if (!strcmp(how, "fsync") && calls / every % kFileEvery == 0) write_checkpoint();
}

// The application's own code shall be slow: no frame of a function of MPI may lie below. The entry jumps away.
#define BEFORE(function, parameters, arguments)                                  \
  __attribute__((noinline, noclone)) static int end_step_##function parameters { \
    static int(*real) parameters;                                                \
    if (!real) *(void**)&real = dlsym(RTLD_NEXT, #function);                     \
    be_slow(#function);                                                          \
    return real arguments;                                                       \
  }                                                                              \
  int function parameters { return end_step_##function arguments; }

BEFORE(MPI_Allreduce, (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
       (in, out, n, type, op, comm))
BEFORE(MPI_Waitall, (int n, MPI_Request requests[], MPI_Status statuses[]), (n, requests, statuses))
BEFORE(MPI_Sendrecv,
       (const void* out, int out_n, MPI_Datatype out_type, int to, int out_tag, void* in, int in_n,
        MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status),
       (out, out_n, out_type, to, out_tag, in, in_n, in_type, from, in_tag, comm, status))
