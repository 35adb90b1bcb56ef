// A training loop of MPI: three reductions a step, and an evaluation now and then. From one step on a rank takes
// longer: it sleeps or computes for so long, reads two records of a file, or writes and syncs a file until the time
// is over. Of rank -1 all ranks do so.
//
//   steps STEPS STEP_US RANK FROM_STEP EXTRA_US sleep|busy|cpu|read|write [FILE]
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kBuckets = 3, kCount = 4096, kEvaluateEvery = 50, kRecords = 2 };

static double now_us(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void sleep_for(double us) { usleep((useconds_t)us); }

// By the wall's clock, or by what the thread has had of a processor.
static void compute(clockid_t clock, double us) {
  const double end = now_us(clock) + us;
  while (now_us(clock) < end) continue;
}

static void check(int good) {
  if (!good) MPI_Abort(MPI_COMM_WORLD, 3);
}

static void next_batch(int file) {
  char byte;
  for (int i = 0; i < kRecords; ++i) check(read(file, &byte, 1) == 1);
}

static void keep_state(int file, double us) {
  static char state[1 << 12];  // small, so that the time goes into fsync
  const double end = now_us(CLOCK_MONOTONIC) + us;
  check(lseek(file, 0, SEEK_SET) == 0);
  while (now_us(CLOCK_MONOTONIC) < end) check(write(file, state, sizeof(state)) == sizeof(state) && fsync(file) == 0);
}

static void take_longer(const char* how, int file, double us) {
  if (strcmp(how, "sleep") == 0) sleep_for(us);
  if (strcmp(how, "busy") == 0) compute(CLOCK_MONOTONIC, us);
  if (strcmp(how, "cpu") == 0) compute(CLOCK_THREAD_CPUTIME_ID, us);
  if (strcmp(how, "read") == 0) next_batch(file);
  if (strcmp(how, "write") == 0) keep_state(file, us);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 7 && argc != 8) {
    fprintf(stderr, "steps STEPS STEP_US RANK FROM_STEP EXTRA_US sleep|busy|cpu|read|write [FILE]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int steps = atoi(argv[1]), slow = atoi(argv[3]), from = atoi(argv[4]);
  const double step_us = atof(argv[2]), extra_us = atof(argv[5]);
  const char* const how = argv[6];
  int rank, file = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int is_slow = slow < 0 || rank == slow;
  if (argc == 8 && is_slow)
    check((file = open(argv[7], strcmp(how, "write") == 0 ? O_WRONLY | O_CREAT : O_RDONLY, 0600)) >= 0);
  static float gradient[kCount], sum[kCount];
  srand((unsigned)rank + 1);
  for (int step = 0; step < steps; ++step) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      sleep_for(step_us / kBuckets * (0.95 + 0.1 * rand() / RAND_MAX));
      if (bucket == 1 && is_slow && step >= from) take_longer(how, file, extra_us);
      MPI_Allreduce(gradient, sum, kCount - bucket, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (step % kEvaluateEvery == kEvaluateEvery - 1) {
      double loss = rank, all;
      MPI_Reduce(&loss, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    }
  }
  MPI_Finalize();
  return 0;
}
