// Calls on a file that all of its ranks have to make together.
#include <unistd.h>
#include "common.h"

static MPI_File file;
static int words[4];

static void make(int opens) {
  static char path[] = "/tmp/ncclwatch-file-XXXXXX";
  if (rank == 0) close(mkstemp(path));
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, ring);
  if (opens)
    MPI_File_open(ring, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
}
static void write_all(void) {
  MPI_File_write_at_all(file, rank * (int)sizeof words, words, 4, MPI_INT, MPI_STATUS_IGNORE);
}

static void one_write_less(void) {
  make(1);
  for (int i = 0; i < 5; ++i) {
    if (rank == odd && i == 3) {
      planted();
      continue;
    }
    write_all();
  }
  MPI_File_close(&file);
}

static void other_call(void) {
  make(1);
  write_all();
  if (rank == odd) {
    planted();
    MPI_File_read_at_all(file, 0, words, 4, MPI_INT, MPI_STATUS_IGNORE);
  } else {
    write_all();
  }
  MPI_File_close(&file);
}

static void not_opened(void) {
  if (rank == odd) planted();
  make(rank != odd);
  MPI_Barrier(ring);
  if (rank != odd) MPI_File_close(&file);
}

static void asleep_before_sync(void) {
  make(1);
  write_all();
  if (rank == odd) {
    planted();
    asleep();
  }
  MPI_File_sync(file);
  MPI_File_close(&file);
}

static void left_open(void) {
  MPI_File other;
  make(1);
  if (rank == odd) {
    MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &other);
    planted();
  }
  MPI_File_close(&file);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"one_write_less", one_write_less},         {"other_call", other_call}, {"not_opened", not_opened},
      {"asleep_before_sync", asleep_before_sync}, {"left_open", left_open},
  };
  return RUN_FAULTY(argc, argv, cases);
}
