// What objects of MPI cost in memory: requests, communicators and datatypes, so many of each open at once; bytes of
// resident memory an object. Run with the library and without: the difference is what tracking them costs.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static double resident(void) {
  long all = 0, here = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &all, &here) != 2) exit(2);
  fclose(file);
  return (double)here * (double)sysconf(_SC_PAGESIZE);
}

static void report(const char* what, int number, double before) {
  printf("%-14s %8d open: %7.1f bytes each\n", what, number, number ? (resident() - before) / number : 0.0);
  fflush(stdout);
}

static void requests(int number) {
  MPI_Request* open = malloc((size_t)number * sizeof *open);
  double* values = calloc((size_t)number, sizeof *values);
  if (!open || !values) exit(2);
  for (int i = 0; i < number; ++i) open[i] = MPI_REQUEST_NULL, values[i] = 1;  // the arrays themselves do not count
  const double before = resident();
  for (int i = 0; i < number; ++i) MPI_Irecv(&values[i], 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &open[i]);
  report("requests", number, before);
  const double one = 1;
  for (int i = 0; i < number; ++i) MPI_Send(&one, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF);
  MPI_Waitall(number, open, MPI_STATUSES_IGNORE);
  free(open);
  free(values);
}

// As many as this MPI has: MPICH has some 2,000.
static void communicators(int number) {
  MPI_Comm* open = calloc((size_t)number, sizeof *open);
  if (!open) exit(2);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const double before = resident();
  int made = 0;
  while (made < number && MPI_Comm_dup(MPI_COMM_SELF, &open[made]) == MPI_SUCCESS) ++made;
  report("communicators", made, before);
  for (int i = 0; i < made; ++i) MPI_Comm_free(&open[i]);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  free(open);
}

static void datatypes(int number) {
  MPI_Datatype* open = calloc((size_t)number, sizeof *open);
  if (!open) exit(2);
  const double before = resident();
  for (int i = 0; i < number; ++i) {
    MPI_Type_contiguous(i % 100 + 1, MPI_INT, &open[i]);
    MPI_Type_commit(&open[i]);
  }
  report("datatypes", number, before);
  for (int i = 0; i < number; ++i) MPI_Type_free(&open[i]);
  free(open);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  requests(argc > 1 ? atoi(argv[1]) : 1000000);
  communicators(argc > 2 ? atoi(argv[2]) : 10000);
  datatypes(argc > 3 ? atoi(argv[3]) : 100000);
  MPI_Finalize();
  return 0;
}
