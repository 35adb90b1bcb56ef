// An interpreter of small MPI programs: every rank reads its own part of one script (generate.py writes them) and makes
// the calls that stand there. What it receives it holds against what the script says was sent.
#ifndef NCCLWATCH_TESTS_MPI_RANDOM_PLAYER_H
#define NCCLWATCH_TESTS_MPI_RANDOM_PLAYER_H

#include <mpi.h>
#include <stdint.h>

enum { kMostFields = 20, kComms = 64, kSlots = 512, kMostRanks = 16, kMostDimensions = 3, kMostBasics = 4 };

// A line of the script: `name@copy key=value ...`.
typedef struct {
  const char* name;
  int copy;  // which of several call sites of the same function
  int fields;
  struct {
    const char *key, *value;
  } field[kMostFields];
} Op;

// Elements of one type, whose basic values are a sequence that follows from its first.
typedef struct {
  char* data;
  int type, elements;
} Buffer;

// A call that has begun and what it is to bring; blocking ones have no request.
typedef struct Call {
  const Op* op;
  MPI_Request request;
  Buffer out, in;
  int rounds;  // of a persistent request
} Call;

typedef struct {
  const char* name;
  void (*start)(Call* call);
  void (*check)(Call* call, const MPI_Status* status);  // where it brings anything
} Verb;

// The same call from one of three places, as a real program makes it from many.
#define AT(op, call)        \
  do {                      \
    switch ((op)->copy) {   \
      case 0: call; break;  \
      case 1: call; break;  \
      default: call; break; \
    }                       \
  } while (0)

// ---- player.c
extern int world_rank, world_size;
extern int checks;  // 0: the program is wrong, and so may its data be
int has(const Op* op, const char* key);
int number(const Op* op, const char* key, int otherwise);
const char* word(const Op* op, const char* key, const char* otherwise);
void fail(const Op* op, const char* what);
void planted(void);  // notes the time of the fault, where the harness asks for it
void finish(void);   // the checksum, MPI_Finalize
const Verb* verb(const char* name);

// ---- values.c
void make_types(void);
void free_types(void);
MPI_Datatype handle(int type);
MPI_Op operator_of(const Op* op);
int type_of(const Op* op, const char* key);
Buffer make(int type, int elements);
Buffer filled(int type, int elements, int first);
void fill(Buffer buffer, int from, int elements, int first);
char* at(Buffer buffer, int element);
void expect(const Op* op, Buffer buffer, int from, int elements, int first);  // and adds them to the checksum
void expect_reduced(const Op* op, Buffer buffer, int elements, int offset, int ranks);
uint64_t checksum(void);

// ---- communicators.c
MPI_Comm communicator(const Op* op);
MPI_Group group_of(const Call* call);
extern const Verb kCommunicatorVerbs[];

// ---- messages.c, requests.c, collectives.c, windows.c, mistakes.c, endings.c
extern Call slots[kSlots];
Call* slot(const Op* op, const char* key);
void check_received(Call* call, const MPI_Status* status);
void begin_again(Call* call);  // of persistent sends: the next values
extern const Verb kMessageVerbs[], kRequestVerbs[], kCollectiveVerbs[], kWindowVerbs[], kMistakeVerbs[], kOtherVerbs[];

#endif
