// One rank ends, stops or never comes back while the others go on to a collective.
#include <signal.h>
#include <unistd.h>

#include "common.h"

static volatile int zero;

static void others_wait(void) {
  int sum;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, ring);
}

static int at_fault(void) {
  if (rank != odd) return 0;
  planted();
  return 1;
}

static void exit_0(void) {
  if (at_fault()) _exit(0);
  others_wait();
}

static void exit_3(void) {
  if (at_fault()) _exit(3);
  others_wait();
}

static void exit_handlers(void) {  // exit() of a rank in the middle: destructors and all
  if (at_fault()) exit(3);
  others_wait();
}

static void leaves_main(void) {  // as a return from main: destructors and all, and no MPI_Finalize
  if (at_fault()) exit(0);
  others_wait();
}

static void abort_call(void) {
  if (at_fault()) abort();
  others_wait();
}

static void kill_9(void) {
  if (at_fault()) raise(SIGKILL);
  others_wait();
}

static void null_pointer(void) {
  if (at_fault()) *(volatile int*)(intptr_t)zero = 1;
  others_wait();
}

static void mpi_abort(void) {
  if (at_fault()) MPI_Abort(MPI_COMM_WORLD, 5);
  others_wait();
}

static void errors_are_fatal(void) {  // MPI ends it, in a call that asks nothing of anybody
  if (at_fault()) MPI_Comm_call_errhandler(ring, MPI_ERR_OTHER);
  others_wait();
}

static void stopped(void) {
  if (at_fault()) raise(SIGSTOP);
  others_wait();
}

static void endless_loop(void) {
  if (at_fault()) {
    while (!zero) {
    }
  }
  others_wait();
}

static void killed_in_a_message(void) {  // its partner alone waits for it
  if (at_fault()) raise(SIGKILL);
  int word;
  if (rank == partner) MPI_Recv(&word, 1, MPI_INT, odd, 90, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void one_without_finalize(void) {
  steps(2);
  MPI_Barrier(MPI_COMM_WORLD);
  if (at_fault()) exit(0);
  finish();
}

static void all_without_finalize(void) {
  steps(2);
  MPI_Barrier(MPI_COMM_WORLD);
  at_fault();
  exit(0);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"exit_0", exit_0},
      {"exit_3", exit_3},
      {"exit_handlers", exit_handlers},
      {"leaves_main", leaves_main},
      {"abort", abort_call},
      {"kill_9", kill_9},
      {"null_pointer", null_pointer},
      {"mpi_abort", mpi_abort},
      {"errors_are_fatal", errors_are_fatal},
      {"stopped", stopped},
      {"endless_loop", endless_loop},
      {"killed_in_a_message", killed_in_a_message},
      {"one_without_finalize", one_without_finalize},
      {"all_without_finalize", all_without_finalize},
  };
  return RUN_FAULTY(argc, argv, cases);
}
