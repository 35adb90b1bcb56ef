#include "common.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

int rank, size, odd, partner;
MPI_Comm ring, half;
static uint64_t checksum = 1469598103934665603u;
static int next_step;

static void step(int number) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int mine = number * size + rank, theirs = -1, sum = 0, word = rank;
  MPI_Sendrecv(&mine, 1, MPI_INT, right, number, &theirs, 1, MPI_INT, left, number, ring, MPI_STATUS_IGNORE);
  require(theirs == number * size + left, "the neighbour's number");
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  require(sum == number * size * size + size * (size - 1) / 2, "the sum");
  MPI_Bcast(&word, 1, MPI_INT, 0, half);
  require(word == rank % 2, "the root's word");
  int halo[2] = {-1, -1};
  MPI_Request requests[4];
  MPI_Irecv(&halo[0], 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&halo[1], 1, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(&mine, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&mine, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  require(halo[0] == number * size + left && halo[1] == number * size + right, "the halo");
  fold(sum + word + halo[0] + halo[1]);
}

void steps(int count) {
  for (int i = 0; i < count; ++i) step(next_step++);
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

void asleep(void) {
  for (;;) pause();
}

void finish(void) {
  MPI_Comm_free(&half);
  MPI_Comm_free(&ring);
  MPI_Finalize();
  exit(0);
}

MPI_Group group_of(int count, const int* ranks) {
  MPI_Group all, some;
  MPI_Comm_group(ring, &all);
  MPI_Group_incl(all, count, ranks, &some);
  MPI_Group_free(&all);
  return some;
}

void fold(int64_t value) {
  for (int i = 0; i < 8; ++i) checksum = (checksum ^ ((uint64_t)value >> (8 * i) & 0xff)) * 1099511628211u;
}

void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 9);
}

int run_case(int argc, char** argv, const Case* cases, int count, int level, int say_checksum) {
  const Case* chosen = NULL;
  for (int i = 0; i < count && argc > 1; ++i) {
    if (!strcmp(cases[i].name, argv[1])) chosen = &cases[i];
  }
  if (!chosen) {
    for (int i = 0; i < count; ++i) puts(cases[i].name);
    return 2;
  }
  int provided;
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  odd = size / 2;
  partner = odd - 1;
  require(size >= 2 && provided >= level, "at least two ranks, and threads where asked for");
  MPI_Comm_dup(MPI_COMM_WORLD, &ring);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  steps(4);
  chosen->run();
  steps(2);
  if (say_checksum) {
    printf("rank %d of %d, %s: %016llx\n", rank, size, chosen->name, (unsigned long long)checksum);
    fflush(stdout);
  }
  finish();
  return 0;
}
