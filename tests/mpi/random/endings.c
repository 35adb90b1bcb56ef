// What is not communication: computing, sleeping, ways to end.
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "player.h"

static void compute(Call* call) {
  struct timespec begun, now;
  long passed;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
    passed = (now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000;
  } while (passed < number(call->op, "us", 0));
}

static void rest(Call* call) {
  const int us = number(call->op, "us", 0);
  const struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static void note_fault(Call* call) {
  (void)call;
  planted();
}

static void exit_now(Call* call) {
  if (has(call->op, "handlers")) exit(number(call->op, "status", 0));
  _exit(number(call->op, "status", 0));
}

static void abort_job(Call* call) { AT(call->op, MPI_Abort(MPI_COMM_WORLD, number(call->op, "status", 1))); }
static void signal_self(Call* call) { raise(number(call->op, "number", SIGKILL)); }

static void null_pointer(Call* call) {
  volatile int* nowhere = NULL;
  (void)call;
  *nowhere = 1;
}

static void spin(Call* call) {
  volatile int forever = 1;
  (void)call;
  while (forever) {
  }
}

static void sleep_for_ever(Call* call) {
  (void)call;
  for (;;) pause();
}

static void finalize(Call* call) {
  (void)call;
  finish();
}

const Verb kOtherVerbs[] = {
    {"compute", compute, NULL},
    {"rest", rest, NULL},
    {"planted", note_fault, NULL},
    {"exit", exit_now, NULL},
    {"mpi_abort", abort_job, NULL},
    {"raise", signal_self, NULL},
    {"null_pointer", null_pointer, NULL},
    {"spin", spin, NULL},
    {"sleep", sleep_for_ever, NULL},
    {"finalize", finalize, NULL},
    {NULL, NULL, NULL},
};
