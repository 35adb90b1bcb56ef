// Steps of an MPI job until it is killed; in step 50 one rank does as the first argument says.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *how = "healthy";
static int rank, size;

static void receive_from_left(void) {
  static double room[1 << 20];
  MPI_Recv(room, 1 << 20, MPI_DOUBLE, (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);  // RING
}

static void odd_step(void) {
  const int odd = rank == 2;
  if (odd && !strcmp(how, "sleeps")) sleep(1000);  // SLEEPS
  if (odd && !strcmp(how, "computes"))
    for (volatile long i = 0;; ++i) continue;
  if (odd && !strcmp(how, "another")) MPI_Barrier(MPI_COMM_WORLD);  // ANOTHER
  if (!strcmp(how, "ring")) receive_from_left();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1) how = argv[1];
  for (int step = 0;; ++step) {
    if (step == 50 && rank == 0) puts("step 50"), fflush(stdout);
    if (step == 50) odd_step();
    double mine = step, sum = 0;
    if (strcmp(how, "exchange")) {
      MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);  // REDUCE
    } else {
      MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 0, &sum, 1, MPI_DOUBLE, (rank + size - 1) % size, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!strcmp(how, "slow")) usleep(50000);
  }
}
