// Reads the script, and plays this rank's part of it.
#include "player.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kMostOps = 4096 };

int world_rank, world_size, checks;
static Op ops[kMostOps];
static int op_count;

const char* word(const Op* op, const char* key, const char* otherwise) {
  for (int i = 0; i < op->fields; ++i) {
    if (!strcmp(op->field[i].key, key)) return op->field[i].value;
  }
  return otherwise;
}

int has(const Op* op, const char* key) { return word(op, key, NULL) != NULL; }

int number(const Op* op, const char* key, int otherwise) {
  const char* text = word(op, key, NULL);
  return text ? atoi(text) : otherwise;
}

void fail(const Op* op, const char* what) {
  fprintf(stderr, "rank %d: wrong: %s, line %d of its part: %s", world_rank, what, (int)(op - ops) + 1, op->name);
  for (int i = 0; i < op->fields; ++i) fprintf(stderr, " %s=%s", op->field[i].key, op->field[i].value);
  fputc('\n', stderr);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

void planted(void) {
  const char* path = getenv("EXAMPLES_FAULT_FILE");
  struct timespec now;
  char line[32];
  clock_gettime(CLOCK_REALTIME, &now);
  int length = snprintf(line, sizeof line, "%lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
  int file = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  if (file < 0) return;
  if (write(file, line, (size_t)length) != length) abort();
  close(file);
}

const Verb* verb(const char* name) {
  const Verb* const tables[] = {kMessageVerbs, kRequestVerbs, kCollectiveVerbs, kCommunicatorVerbs,
                                kWindowVerbs,  kMistakeVerbs, kOtherVerbs};
  for (int i = 0; i < (int)(sizeof tables / sizeof tables[0]); ++i) {
    for (const Verb* one = tables[i]; one->name; ++one) {
      if (!strcmp(one->name, name)) return one;
    }
  }
  return NULL;
}

static void parse(char* line) {
  Op* op = &ops[op_count];
  char *rest = NULL, *part = strtok_r(line, " \n", &rest);
  char* copy = strchr(part, '@');
  if (op_count == kMostOps) abort();
  if (copy) *copy = 0;
  op->name = part;
  op->copy = copy ? atoi(copy + 1) : 0;
  while ((part = strtok_r(NULL, " \n", &rest)) != NULL && op->fields < kMostFields) {
    char* equal = strchr(part, '=');
    if (equal) *equal = 0;
    op->field[op->fields].key = part;
    op->field[op->fields++].value = equal ? equal + 1 : "1";
  }
  if (!verb(op->name)) fail(op, "no such verb");
  ++op_count;
}

// `checks 0|1`, then for each rank a line `rank R` and its part.
static void read_part(const char* path) {
  FILE* file = fopen(path, "r");
  char* line = NULL;
  size_t room = 0;
  int mine = 0, of;
  if (!file) exit(2);
  while (getline(&line, &room, file) > 0) {
    if (sscanf(line, "checks %d", &checks) == 1) continue;
    if (sscanf(line, "rank %d", &of) == 1) {
      mine = of == world_rank;
    } else if (mine && line[0] != '\n' && line[0] != '#') {
      parse(strdup(line));
    }
  }
  free(line);
  fclose(file);
}

void finish(void) {
  free_types();
  printf("rank %d of %d: %016llx\n", world_rank, world_size, (unsigned long long)checksum());
  fflush(stdout);
  MPI_Finalize();
  exit(0);
}

// `as`: the slot that keeps what has begun; else the call is done when it comes back.
static void play(const Op* op) {
  static Call blocking;
  const Verb* what = verb(op->name);
  Call* call = has(op, "as") ? slot(op, "as") : &blocking;
  *call = (Call){.op = op, .request = MPI_REQUEST_NULL};
  what->start(call);
  if (!has(op, "as") && what->check) what->check(call, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (argc < 2 || world_size > kMostRanks) return 2;
  read_part(argv[1]);
  make_types();
  for (int i = 0; i < op_count; ++i) play(&ops[i]);
  finish();
}
