// Threads that call MPI where they may not, or that leave a message or an order to chance.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common.h"

static int word, sum;

static void run(void* (*work)(void*), void (*beside)(void)) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  beside();
  pthread_join(thread, NULL);
}

static void nothing(void) {}

// ---- the wrong thread ----------------------------------------------------------------------------------------------

static void* sends(void* unused) {
  planted();
  MPI_Send(&word, 1, MPI_INT, partner, 80, ring);
  return unused;
}

static void another_thread(void) {
  if (rank == odd) run(sends, nothing);
  if (rank == partner) MPI_Recv(&word, 1, MPI_INT, odd, 80, ring, MPI_STATUS_IGNORE);
}

// ---- two at once ---------------------------------------------------------------------------------------------------

enum { kWords = 40 };
static atomic_int inside;

static void* receives(void* unused) {
  atomic_store(&inside, 1);
  MPI_Recv(&word, 1, MPI_INT, partner, 81, ring, MPI_STATUS_IGNORE);
  return unused;
}

static void sends_meanwhile(void) {
  while (!atomic_load(&inside)) usleep(1000);
  planted();
  for (int i = 0; i < kWords; ++i, usleep(5000)) MPI_Send(&sum, 1, MPI_INT, partner, 82, MPI_COMM_WORLD);
}

static void at_once(void) {  // the answer comes after all of the words
  if (rank == odd) run(receives, sends_meanwhile);
  if (rank != partner) return;
  for (int i = 0; i < kWords; ++i) MPI_Recv(&sum, 1, MPI_INT, odd, 82, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(&word, 1, MPI_INT, odd, 81, ring);
}

static void* meets(void* unused) {
  MPI_Barrier(ring);
  return unused;
}

static void adds(void) { MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, ring); }

static void collectives_at_once(void) {
  if (rank == odd) {
    planted();
    run(meets, adds);
    return;
  }
  usleep(300000);  // both of the odd rank's threads are inside by then
  meets(NULL);
  adds();
}

// ---- one of several ------------------------------------------------------------------------------------------------

static void* never_comes(void* unused) {
  MPI_Recv(&word, 1, MPI_INT, partner, 83, ring, MPI_STATUS_IGNORE);
  return unused;
}

static void goes_on(void) {
  planted();
  for (int i = 0; i < 50; ++i)
    MPI_Sendrecv(&rank, 1, MPI_INT, partner, 84, &sum, 1, MPI_INT, partner, 84, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void one_stuck(void) {
  if (rank == odd) run(never_comes, goes_on);
  if (rank != partner) return;
  for (int i = 0; i < 50; ++i)
    MPI_Sendrecv(&rank, 1, MPI_INT, odd, 84, &sum, 1, MPI_INT, odd, 84, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void* listens(void* unused) {
  MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 85, ring, MPI_STATUS_IGNORE);
  return unused;
}

static void forgotten_at_the_end(void) {
  pthread_t thread;
  if (rank == odd) {
    pthread_create(&thread, NULL, listens, NULL);
    usleep(100000);
    planted();
  }
  finish();
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"another_thread", another_thread},
      {"at_once", at_once},
      {"collectives_at_once", collectives_at_once},
      {"one_stuck", one_stuck},
      {"forgotten_at_the_end", forgotten_at_the_end},
  };
  const char* name = argc > 1 ? argv[1] : "";
  const int level = !strcmp(name, "another_thread") ? MPI_THREAD_FUNNELED
                    : !strcmp(name, "at_once")      ? MPI_THREAD_SERIALIZED
                                                    : MPI_THREAD_MULTIPLE;
  return run_case(argc, argv, cases, COUNT_OF(cases), level, 0);
}
