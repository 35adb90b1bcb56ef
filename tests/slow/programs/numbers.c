// A training loop of MPI that tells ncclwatch its numbers. From step 60 on a rank's loss is not a number, and from the
// next step on that of all; or one rank's parameters differ from step 60 on; or its loss jumps in that step.
//
//   numbers STEPS RANK nan|replica|spike|none
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ncclwatch/annotate.h"

enum { kFault = 60 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const int steps = atoi(argv[1]), culprit = atoi(argv[2]);
  const char* const fault = argv[3];
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  srand((unsigned)rank + 1);
  double parameters = 1;
  for (int step = 0; step < steps; ++step) {
    ncclwatch_step_begin(step);
    usleep(20000);
    double loss = parameters * 3 / (1 + 0.01 * step) + 0.01 * rand() / RAND_MAX, all;
    if (rank == culprit && step == kFault && strcmp(fault, "nan") == 0) loss = NAN;
    if (rank == culprit && step == kFault && strcmp(fault, "spike") == 0) loss = 30;
    ncclwatch_metric("loss", loss);
    ncclwatch_metric("grad_norm", isfinite(loss) ? 1 : NAN);
    MPI_Allreduce(&loss, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (!isfinite(all)) parameters = NAN;
    const double differs = rank == culprit && step >= kFault && strcmp(fault, "replica") == 0;
    ncclwatch_metric("replica:checksum", 42.5 + differs);
    ncclwatch_step_end(step);
  }
  MPI_Finalize();
  return 0;
}
