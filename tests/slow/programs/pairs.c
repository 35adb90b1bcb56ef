// Ranks that compute for a while and then reduce so many floats in each pair of them.
//
//   pairs STEPS STEP_US COUNT
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMostRanks = 8, kMostCount = 1 << 18 };

// The peers of this rank, in the order in which all ranks pass the pairs.
static int make_pairs(int rank, int size, MPI_Comm* pairs) {
  int peers = 0;
  for (int a = 0; a < size; ++a)
    for (int b = a + 1; b < size; ++b) {
      MPI_Comm pair;
      MPI_Comm_split(MPI_COMM_WORLD, rank == a || rank == b ? 0 : MPI_UNDEFINED, rank, &pair);
      if (pair != MPI_COMM_NULL) pairs[peers++] = pair;
    }
  return peers;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int steps = argc == 4 ? atoi(argv[1]) : 0, count = argc == 4 ? atoi(argv[3]) : 0;
  if (steps < 1 || count < 1 || count > kMostCount || size > kMostRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  static float gradient[kMostCount], sum[kMostCount];
  MPI_Comm pairs[kMostRanks];
  const int peers = make_pairs(rank, size, pairs);
  srand((unsigned)rank + 1);
  for (int step = 0; step < steps; ++step) {
    usleep((useconds_t)(atof(argv[2]) * (0.95 + 0.1 * rand() / RAND_MAX)));
    for (int i = 0; i < peers; ++i) MPI_Allreduce(gradient, sum, count, MPI_FLOAT, MPI_SUM, pairs[i]);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int i = 0; i < peers; ++i) MPI_Comm_free(&pairs[i]);
  MPI_Finalize();
  return 0;
}
