// Preloaded into an MPI program: counts and times what it calls most, and appends a line for each function and rank to
// the file TIMER_OUT when it calls MPI_Finalize: rank, function, calls, seconds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct {
  const char* name;
  long calls;
  double seconds;
} Timer;

static Timer timers[16];
static int used;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

#define TIME(function, parameters, arguments)       \
  int function parameters {                         \
    static int(*real) parameters;                   \
    static Timer* timer;                            \
    if (!real) {                                    \
      *(void**)&real = dlsym(RTLD_NEXT, #function); \
      timer = &timers[used++];                      \
      timer->name = #function;                      \
    }                                               \
    const double began = now();                     \
    const int result = real arguments;              \
    timer->seconds += now() - began;                \
    ++timer->calls;                                 \
    return result;                                  \
  }

TIME(MPI_Allreduce, (const void* in, void* out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (in, out, n, type, op, comm))
TIME(MPI_Barrier, (MPI_Comm comm), (comm))
TIME(MPI_Bcast, (void* data, int n, MPI_Datatype type, int root, MPI_Comm comm), (data, n, type, root, comm))
TIME(MPI_Irecv, (void* in, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request),
     (in, n, type, from, tag, comm, request))
TIME(MPI_Isend, (const void* out, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request),
     (out, n, type, to, tag, comm, request))
TIME(MPI_Send, (const void* out, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm),
     (out, n, type, to, tag, comm))
TIME(MPI_Sendrecv,
     (const void* out, int out_n, MPI_Datatype out_type, int to, int out_tag, void* in, int in_n, MPI_Datatype in_type,
      int from, int in_tag, MPI_Comm comm, MPI_Status* status),
     (out, out_n, out_type, to, out_tag, in, in_n, in_type, from, in_tag, comm, status))
TIME(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status))
TIME(MPI_Waitall, (int n, MPI_Request requests[], MPI_Status statuses[]), (n, requests, statuses))

int MPI_Finalize(void) {
  FILE* file = fopen(getenv("TIMER_OUT"), "a");
  for (int i = 0; file && i < used; ++i)
    fprintf(file, "%s %s %ld %.9f\n", getenv("OMPI_COMM_WORLD_RANK"), timers[i].name, timers[i].calls,
            timers[i].seconds);
  if (file) fclose(file);
  int (*real)(void);
  *(void**)&real = dlsym(RTLD_NEXT, "MPI_Finalize");
  return real();
}
