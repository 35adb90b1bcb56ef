// Files as they should be used: opened, read, written and closed by all of their ranks, and by each one as it likes.
#include <unistd.h>
#include "common.h"

enum { kWords = 16 };
static MPI_File file;
static char path[] = "/tmp/ncclwatch-file-XXXXXX";

static void open_one(MPI_Comm comm) {
  int own;
  MPI_Comm_rank(comm, &own);
  strcpy(path, "/tmp/ncclwatch-file-XXXXXX");
  if (own == 0) {
    int made = mkstemp(path);
    require(made >= 0, "a name");
    close(made);
  }
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, comm);
  MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
}

static void blocks(void) {  // each its own amount, one of them nothing at all
  int words[kWords], read[kWords], count = rank % 3 ? kWords - rank % 3 : 0;
  open_one(ring);
  for (int round = 0; round < 3; ++round) {
    MPI_Offset at = (MPI_Offset)(rank * kWords * (int)sizeof words[0]);
    for (int i = 0; i < kWords; ++i) words[i] = 1000 * round + 10 * rank + i, read[i] = -1;
    MPI_File_write_at_all(file, at, words, count, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_File_read_at_all(file, at, read, count, MPI_INT, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; ++i) require(read[i] == words[i], "what was written");
    fold(read[0]);
  }
  MPI_File_close(&file);
}

static void views(void) {  // words of all ranks in turn
  MPI_Datatype column;
  int words[kWords], read[kWords];
  open_one(ring);
  MPI_File_set_size(file, (MPI_Offset)(size * kWords * (int)sizeof words[0]));
  MPI_Type_vector(kWords, 1, size, MPI_INT, &column);
  MPI_Type_commit(&column);
  MPI_File_set_view(file, (MPI_Offset)(rank * (int)sizeof words[0]), MPI_INT, column, "native", MPI_INFO_NULL);
  for (int i = 0; i < kWords; ++i) words[i] = 100 * rank + i;
  MPI_File_write_all(file, words, kWords, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  MPI_File_read_all(file, read, kWords, MPI_INT, MPI_STATUS_IGNORE);
  for (int i = 0; i < kWords; ++i) require(read[i] == words[i], "the own words");
  fold(read[kWords - 1]);
  MPI_Type_free(&column);
  MPI_File_close(&file);
}

static void alone(void) {  // as often as each one likes
  int word = rank, read = -1;
  open_one(ring);
  for (int i = 0; i <= rank; ++i)
    MPI_File_write_at(file, rank * (int)sizeof word, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(ring);
  MPI_File_sync(file);
  if (rank % 2) MPI_File_read_at(file, rank * (int)sizeof word, &read, 1, MPI_INT, MPI_STATUS_IGNORE);
  require(rank % 2 == 0 || read == rank, "the own word");
  MPI_File_close(&file);
  open_one(MPI_COMM_SELF);
  for (int i = 0; i < rank; ++i) MPI_File_write_all(file, &word, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  open_one(half);
  MPI_File_write_at_all(file, 0, &word, 0, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}

static void not_blocking(void) {
  int words[kWords], read[kWords];
  MPI_Request request;
  open_one(ring);
  for (int i = 0; i < kWords; ++i) words[i] = 100 * rank + i, read[i] = -1;
  MPI_Offset at = (MPI_Offset)(rank * kWords * (int)sizeof words[0]);
  MPI_File_iwrite_at(file, at, words, kWords, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_File_iread_at_all(file, at, read, kWords, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < kWords; ++i) require(read[i] == words[i], "what was read meanwhile");
  MPI_File_seek(file, at, MPI_SEEK_SET);
  MPI_File_read_all_begin(file, read, kWords, MPI_INT);
  fold(rank);
  MPI_File_read_all_end(file, read, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
}

static void not_there(void) {  // an error that the program expects
  int error = MPI_File_open(ring, "/tmp/ncclwatch-no-such-folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  require(error != MPI_SUCCESS, "a file that is not there");
  MPI_Barrier(ring);
}

static void deleted(void) {  // the first that is done with files: MPI makes things of its own for it
  require(MPI_File_delete("/tmp/ncclwatch-no-such-folder/file", MPI_INFO_NULL) != MPI_SUCCESS,
          "a file that is not there");
  MPI_Offset at = -1;
  open_one(ring);
  MPI_File_get_position_shared(file, &at);
  fold(at);
  MPI_File_close(&file);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"blocks", blocks},       {"views", views},     {"alone", alone}, {"not_blocking", not_blocking},
      {"not_there", not_there}, {"deleted", deleted},
  };
  return RUN_CLEAN(argc, argv, cases, MPI_THREAD_SINGLE);
}
