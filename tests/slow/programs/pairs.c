// Three ranks that compute for a while and then reduce a megabyte in each pair of them.
//
//   pairs STEPS STEP_US
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { kRanks = 3, kCount = 1 << 18 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3 || size != kRanks) MPI_Abort(MPI_COMM_WORLD, 2);
  const int steps = atoi(argv[1]);
  static float gradient[kCount], sum[kCount];
  MPI_Comm pairs[kRanks];
  for (int without = 0; without < kRanks; ++without)
    MPI_Comm_split(MPI_COMM_WORLD, rank == without ? MPI_UNDEFINED : 0, rank, &pairs[without]);
  for (int step = 0; step < steps; ++step) {
    usleep((useconds_t)(atof(argv[2]) * (0.95 + 0.1 * rand() / RAND_MAX)));
    for (int without = 0; without < kRanks; ++without)
      if (rank != without) MPI_Allreduce(gradient, sum, kCount, MPI_FLOAT, MPI_SUM, pairs[without]);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
