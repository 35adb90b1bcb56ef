// One process that calls itself a rank of a larger job: it waits in MPI for ever, or does something else.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int nothing = 0;
  MPI_Init(&argc, &argv);
  puts("ready");
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "waits"))
    MPI_Recv(&nothing, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);  // WAITS
  sleep(1000);                                                               // ELSEWHERE
}
