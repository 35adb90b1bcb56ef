// A halo exchange on a periodic grid: halo STEPS STEP_US SLOW_RANK FROM_STEP LATE_US HOW. From that step on the slow rank
// sleeps, computes, or writes 50 MB beside the program and waits for the disk once in 20 steps (HOW: sleep, busy, fsync).
#include <fcntl.h>
#include <libgen.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kCells = 2000, kNeighbours = 4, kFileBytes = 50 << 20 };

static void compute(int us) {
  const double end = MPI_Wtime() + us * 1e-6;
  while (MPI_Wtime() < end) continue;
}

static void write_checkpoint(void) {
  static char state[kFileBytes];
  const int file = open("checkpoint.bin", O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (file < 0 || write(file, state, sizeof state) < 0 || fsync(file) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  close(file);
}

static void be_late(const char *how, int step, int late_us) {
  if (!strcmp(how, "sleep")) usleep(late_us);
  if (!strcmp(how, "busy")) compute(late_us);
  if (!strcmp(how, "fsync") && step % 20 == 0) write_checkpoint();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc != 7 || chdir(dirname(argv[0])) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
  const int steps = atoi(argv[1]), step_us = atoi(argv[2]), slow = atoi(argv[3]), from = atoi(argv[4]);
  int size, rank, shape[2] = {0, 0}, periodic[2] = {1, 1}, neighbours[kNeighbours];
  MPI_Comm grid;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Dims_create(size, 2, shape);
  MPI_Cart_create(MPI_COMM_WORLD, 2, shape, periodic, 0, &grid);
  MPI_Comm_rank(grid, &rank);
  for (int axis = 0; axis < 2; ++axis) MPI_Cart_shift(grid, axis, 1, &neighbours[2 * axis], &neighbours[2 * axis + 1]);
  static double out[kNeighbours][kCells], in[kNeighbours][kCells];
  double own = 1, all = 0;
  for (int step = 0; step < steps; ++step) {
    usleep(step_us);
    if (rank == slow && step >= from) be_late(argv[6], step, atoi(argv[5]));
    MPI_Request requests[2 * kNeighbours];
    for (int i = 0; i < kNeighbours; ++i)
      MPI_Irecv(in[i], kCells, MPI_DOUBLE, neighbours[i ^ 1], i, grid, &requests[i]);
    for (int i = 0; i < kNeighbours; ++i)
      MPI_Isend(out[i], kCells, MPI_DOUBLE, neighbours[i], i, grid, &requests[kNeighbours + i]);
    MPI_Waitall(2 * kNeighbours, requests, MPI_STATUSES_IGNORE);
    if (step % 10 == 0) MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Comm_free(&grid);
  MPI_Finalize();
  return 0;
}
