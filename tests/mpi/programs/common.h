// What the programs here share: correct iterations around the one fault, and who has it.
#ifndef NCCLWATCH_TESTS_MPI_COMMON_H
#define NCCLWATCH_TESTS_MPI_COMMON_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char* name;
  void (*run)(void);
} Case;

enum { kThreads = 4 };  // of the programs that ask for MPI_THREAD_MULTIPLE

extern int rank, size;
extern int odd;              // the rank with the fault: size / 2, never 0
extern int partner;          // odd - 1: who it talks to, where the fault needs two
extern MPI_Comm ring, half;  // a duplicate of the world; the even and the odd ranks

void steps(int count);  // correct iterations: messages around the ring, collectives on three communicators
void planted(void);  // called by the rank at fault just before it: notes the time once, where the harness asks for it
void asleep(void);   // for ever outside of MPI
void finish(void);   // MPI_Finalize, and the end of this process
MPI_Group group_of(int count, const int* ranks);  // of `ring`
void fold(int64_t value);                         // into this rank's checksum
void require(int condition, const char* what);    // a wrong result ends the job: a clean program has to be right

// MPI_Init_thread(level), steps, the case named by argv[1], steps, MPI_Finalize. With `checksum`, a line a rank.
int run_case(int argc, char** argv, const Case* cases, int count, int level, int checksum);

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define RUN_FAULTY(argc, argv, cases) run_case(argc, argv, cases, COUNT_OF(cases), MPI_THREAD_SINGLE, 0)
#define RUN_CLEAN(argc, argv, cases, level) run_case(argc, argv, cases, COUNT_OF(cases), level, 1)

#endif
