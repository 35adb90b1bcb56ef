// A training loop of MPI that tells ncclwatch its numbers. From step 60 on a rank's loss is not a number, and from the
// next step on that of all; or one rank's parameters differ from step 60 on; or its loss jumps in that step. Or several
// things at once: nothing is learned, the rank's memory leaks from step 100 on, checkpoints stop after step 200, and
// all become slower in step 300.
//
//   numbers STEPS RANK nan|replica|spike|several|none
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ncclwatch/annotate.h"

enum { kFault = 60 };

static void say_several(int step, int leaks) {
  const double noise = 0.01 * rand() / RAND_MAX;
  ncclwatch_metric("classes", 1000);
  ncclwatch_metric("loss", log(1000) * (1 + noise));
  ncclwatch_metric("memory_allocated", 20e9 * (1 + noise) + (leaks && step > 100 ? 50e6 * (step - 100) : 0));
  ncclwatch_metric("memory_total", 80e9);
  ncclwatch_metric("tokens_per_s", (step < 300 ? 1000 : 800) * (1 + noise));
  if (step % 20 == 0 && step <= 200) ncclwatch_event("checkpoint", "{\"path\": \"/a\"}");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const int steps = atoi(argv[1]), culprit = atoi(argv[2]);
  const char* const fault = argv[3];
  const int several = strcmp(fault, "several") == 0;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  srand((unsigned)rank + 1);
  double parameters = 1;
  for (int step = 0; step < steps; ++step) {
    ncclwatch_step_begin(step);
    usleep(several ? 3000 : 20000);
    if (several) say_several(step, rank == culprit);
    double loss = parameters * 3 / (1 + 0.01 * step) + 0.01 * rand() / RAND_MAX, all;
    if (rank == culprit && step == kFault && strcmp(fault, "nan") == 0) loss = NAN;
    if (rank == culprit && step == kFault && strcmp(fault, "spike") == 0) loss = 30;
    if (!several) ncclwatch_metric("loss", loss);
    if (!several) ncclwatch_metric("grad_norm", isfinite(loss) ? 1 : NAN);
    MPI_Allreduce(&loss, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (!isfinite(all)) parameters = NAN;
    const double differs = rank == culprit && step >= kFault && strcmp(fault, "replica") == 0;
    if (!several) ncclwatch_metric("replica:checksum", 42.5 + differs);
    ncclwatch_step_end(step);
  }
  MPI_Finalize();
  return 0;
}
