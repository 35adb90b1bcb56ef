// Correct: threads that call MPI one at a time, or not at all, as the level that is granted allows; collectives of
// several threads, each on a communicator of its own, or in turns.
#include <pthread.h>

#include "common.h"

enum { kRounds = 60 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm own[kThreads];
static int64_t sums[kThreads];

static void start(void* (*work)(void*)) {
  pthread_t all[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) pthread_create(&all[i], NULL, work, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(all[i], NULL);
  for (int i = 0; i < kThreads; ++i) fold(sums[i]);
}

static void* computes(void* number) {
  const int thread = (int)(intptr_t)number;
  for (int i = 0; i < kRounds; ++i) sums[thread] += i * (thread + rank);
  return NULL;
}

static void beside(void) {  // nobody but the main thread calls
  pthread_t other;
  pthread_create(&other, NULL, computes, (void*)(intptr_t)1);
  for (int i = 0; i < kRounds; ++i) MPI_Barrier(ring);
  pthread_join(other, NULL);
  fold(sums[1]);
}

// Between one thread's call and another one's lies a lock; what comes first does not matter.
static void* in_turn(void* number) {
  const int thread = (int)(intptr_t)number, left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (int i = 0; i < kRounds; ++i) {
    MPI_Request requests[2];
    int got = 0, word = rank + i, done = 0;
    pthread_mutex_lock(&turn);
    MPI_Irecv(&got, 1, MPI_INT, left, thread, ring, &requests[0]);
    MPI_Isend(&word, 1, MPI_INT, right, thread, ring, &requests[1]);
    pthread_mutex_unlock(&turn);
    while (!done) {
      pthread_mutex_lock(&turn);
      MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
      pthread_mutex_unlock(&turn);
    }
    sums[thread] += got;
  }
  return NULL;
}

static void turns(void) { start(in_turn); }

static void* on_its_own(void* number) {
  const int thread = (int)(intptr_t)number;
  for (int i = 0; i < kRounds / 10; ++i) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, own[thread]);
    MPI_Barrier(own[thread]);
    sums[thread] += sum;
  }
  return NULL;
}

static void collectives(void) {
  for (int i = 0; i < kThreads; ++i) MPI_Comm_dup(ring, &own[i]);
  start(on_its_own);
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&own[i]);
}

// One communicator, handed on from thread to thread in the same order everywhere.
static void* in_order(void* number) {
  const int thread = (int)(intptr_t)number;
  static int next;
  for (int i = 0; i < kRounds / 10; ++i) {
    for (int mine = 0; !mine;) {
      pthread_mutex_lock(&turn);
      mine = next % kThreads == thread;
      if (mine) {
        int sum = 0;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, ring);
        sums[thread] += sum;
        ++next;
      }
      pthread_mutex_unlock(&turn);
    }
  }
  return NULL;
}

static void handed_on(void) { start(in_order); }

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"beside", beside},
      {"turns", turns},
      {"collectives", collectives},
      {"handed_on", handed_on},
  };
  const char* name = argc > 1 ? argv[1] : "";
  const int level = !strcmp(name, "beside")        ? MPI_THREAD_FUNNELED
                    : !strcmp(name, "collectives") ? MPI_THREAD_MULTIPLE
                                                   : MPI_THREAD_SERIALIZED;
  return RUN_CLEAN(argc, argv, cases, level);
}
