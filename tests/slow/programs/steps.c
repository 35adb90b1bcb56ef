// A training loop of MPI: three reductions a step, and an evaluation now and then. From one step on a rank takes
// longer.
//
//   steps STEPS STEP_US RANK FROM_STEP EXTRA_US sleep|busy
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kBuckets = 3, kCount = 4096, kEvaluateEvery = 50 };

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void work(double us, int busy) {
  const double end = now_us() + us;
  if (!busy) usleep((useconds_t)us);
  while (busy && now_us() < end) continue;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 7) {
    fprintf(stderr, "steps STEPS STEP_US RANK FROM_STEP EXTRA_US sleep|busy\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int steps = atoi(argv[1]), slow = atoi(argv[3]), from = atoi(argv[4]), busy = strcmp(argv[6], "busy") == 0;
  const double step_us = atof(argv[2]), extra_us = atof(argv[5]);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  static float gradient[kCount], sum[kCount];
  srand((unsigned)rank + 1);
  for (int step = 0; step < steps; ++step) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      work(step_us / kBuckets * (0.95 + 0.1 * rand() / RAND_MAX), 0);
      if (bucket == 1 && rank == slow && step >= from) work(extra_us, busy);
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
