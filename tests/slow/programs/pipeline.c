// A pipeline of MPI, a stage on each rank: all micro-batches forward, then back. One stage may take longer.
//
//   pipeline STEPS BATCHES BATCH_US STAGE EXTRA_US
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kActivation = 256, kGradient = 4096 };

static float activation[kActivation], gradient[kGradient], sum[kGradient];
static int rank, ranks;

// From one neighbour, to the other one.
static void pass(int from, int to, useconds_t us) {
  if (from >= 0 && from < ranks)
    MPI_Recv(activation, kActivation, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  usleep(us);
  if (to >= 0 && to < ranks) MPI_Send(activation, kActivation, MPI_FLOAT, to, 0, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 6) {
    fprintf(stderr, "pipeline STEPS BATCHES BATCH_US STAGE EXTRA_US\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int steps = atoi(argv[1]), batches = atoi(argv[2]);
  const useconds_t us = (useconds_t)(atoi(argv[3]) + (rank == atoi(argv[4]) ? atoi(argv[5]) : 0));
  for (int step = 0; step < steps; ++step) {
    for (int batch = 0; batch < batches; ++batch) pass(rank - 1, rank + 1, us);
    for (int batch = 0; batch < batches; ++batch) pass(rank + 1, rank - 1, us);
    MPI_Allreduce(gradient, sum, kGradient, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
