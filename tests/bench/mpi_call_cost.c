// What a watched call of MPI costs in one process: interleaved rounds of the library's own functions and of those that
// the program is linked against, which a preloaded library wraps; beside them the floor, the library's own with a bare
// record of each call. The best round of each counts. Without a preload the first two are the same, and what is printed
// as added is the error of measurement.
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_floor.h"

enum { kCalls = 2000, kRounds = 500 };  // a round: some tenths of a millisecond, so that a good one is uninterrupted

#define FUNCTIONS(each) \
  each(MPI_Allreduce) each(MPI_Barrier) each(MPI_Comm_rank) each(MPI_Irecv) each(MPI_Send) each(MPI_Wait)

// The ways to call: through pointers each way.
typedef struct {
#define POINTER(name) __typeof__(&name) name;
  FUNCTIONS(POINTER)
#undef POINTER
} Mpi;
enum Way { kBare, kWatched, kFloor, kWays };
static Mpi way[kWays];

#define FLOOR(name, parameters, arguments)           \
  static int floor_##name parameters {               \
    volatile uint64_t* const record = floor_enter(); \
    const int result = way[kBare].name arguments;    \
    floor_leave(record);                             \
    return result;                                   \
  }
FLOOR(MPI_Allreduce, (const void* out, void* in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
      (out, in, count, type, op, comm))
FLOOR(MPI_Barrier, (MPI_Comm comm), (comm))
FLOOR(MPI_Irecv, (void* in, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request),
      (in, count, type, from, tag, comm, request))
FLOOR(MPI_Send, (const void* out, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),
      (out, count, type, to, tag, comm))
FLOOR(MPI_Wait, (MPI_Request * request, MPI_Status* status), (request, status))
static int floor_MPI_Comm_rank(MPI_Comm comm, int* rank) { return way[kBare].MPI_Comm_rank(comm, rank); }
#undef FLOOR

static void allreduce(const Mpi* mpi) {
  double out = 1, in;
  mpi->MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}
static void barrier(const Mpi* mpi) { mpi->MPI_Barrier(MPI_COMM_SELF); }
static void to_self(const Mpi* mpi) {
  double out = 1, in;
  MPI_Request request;
  mpi->MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 7, MPI_COMM_SELF, &request);
  mpi->MPI_Send(&out, 1, MPI_DOUBLE, 0, 7, MPI_COMM_SELF);
  mpi->MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void comm_rank(const Mpi* mpi) {
  int rank;
  mpi->MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

static const struct {
  const char* name;
  void (*run)(const Mpi*);
  int calls;
} kSeries[] = {{"Allreduce of 8 bytes", allreduce, 1},
               {"Barrier", barrier, 1},
               {"Irecv, Send, Wait to self", to_self, 3},
               {"Comm_rank", comm_rank, 1}};
enum { kNumber = sizeof kSeries / sizeof *kSeries };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double round_ns(void (*run)(const Mpi*), const Mpi* mpi) {
  const double from = now_ns();
  for (int i = 0; i < kCalls; ++i) run(mpi);
  return (now_ns() - from) / kCalls;
}

// The library itself, which a preload does not come before in the search of its own handle.
static void* library(void) {
  static const char* const names[] = {"libmpi.so.40", "libmpi.so", "libmpich.so.12", "libmpich.so"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    void* handle = dlopen(names[i], RTLD_NOLOAD | RTLD_LAZY);
    if (handle) return handle;
  }
  return NULL;
}

// With the name of a series ("only Allreduce", and "bare" or "watched" after it) nothing is timed: for tools that count
// instructions.
static int only(const char* name, int watched, int calls) {
  for (int i = 0; i < kNumber; ++i)
    if (strncmp(kSeries[i].name, name, strlen(name)) == 0)
      for (int j = 0; j < calls; ++j) kSeries[i].run(&way[watched ? kWatched : kBare]);
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  void* handle = library();
  if (!handle) return 2;
  floor_open();
#define LOOK_UP(name)                               \
  way[kWatched].name = name;                        \
  *(void**)&way[kBare].name = dlsym(handle, #name); \
  way[kFloor].name = floor_##name;
  FUNCTIONS(LOOK_UP)
#undef LOOK_UP
  if (argc > 3) {
    only(argv[1], strcmp(argv[2], "watched") == 0, atoi(argv[3]));
    return MPI_Finalize();
  }
  const int rounds = argc > 1 ? atoi(argv[1]) : kRounds;
  const double limit = argc > 2 ? atof(argv[2]) : 0;  // of what is added to a call; 0: only print
  double best[kNumber][kWays];
  for (int i = 0; i < kNumber; ++i)
    for (int which = 0; which < kWays; ++which) best[i][which] = 1e18;
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < kNumber; ++i)
      for (int turn = 0; turn < kWays; ++turn) {
        const int which = (turn + round) % kWays;
        const double ns = round_ns(kSeries[i].run, &way[which]);
        if (ns < best[i][which]) best[i][which] = ns;
      }
  int over = 0;
  for (int i = 0; i < kNumber; ++i) {
    const double added = (best[i][kWatched] - best[i][kBare]) / kSeries[i].calls;
    printf("%-26s %7.1f ns, through the program's own name %7.1f: added %5.1f ns a call; a bare record %5.1f\n",
           kSeries[i].name, best[i][kBare], best[i][kWatched], added,
           (best[i][kFloor] - best[i][kBare]) / kSeries[i].calls);
    if (limit > 0 && added > limit) over = 1;
  }
  MPI_Finalize();
  return over;
}
