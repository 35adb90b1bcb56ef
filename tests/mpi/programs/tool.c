// A tool of the sort that PMPI is made for: a library that stands between a program and its MPI, loaded before or after
// ncclwatch's.
#include <mpi.h>
#include <stdio.h>

static int calls;

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const int result = PMPI_Allreduce(from, to, count, type, op, comm);
  ++calls;
  return result;
}

int MPI_Barrier(MPI_Comm comm) { return PMPI_Barrier(comm); }  // may be a jump

int MPI_Finalize(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("tool on rank %d: %d calls\n", rank, calls);
  fflush(stdout);
  return PMPI_Finalize();
}
