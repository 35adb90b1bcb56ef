// Correct: derived datatypes that differ in how they were built and in their layout, and are equal in their signature.
#include <stddef.h>

#include "common.h"

enum { kRows = 6, kColumns = 5 };

typedef struct {
  int number;
  double values[3];
  char letter;
} Record;

static int right(void) { return (rank + 1) % size; }
static int left(void) { return (rank + size - 1) % size; }

static void exchange(const void* out, int sent, MPI_Datatype of, void* in, int received, MPI_Datatype as) {
  MPI_Sendrecv(out, sent, of, right(), 1, in, received, as, left(), 1, ring, MPI_STATUS_IGNORE);
}

static void column_as_row(void) {
  int matrix[kRows][kColumns], row[kRows], places[kRows];
  MPI_Datatype column, indexed, again;
  for (int i = 0; i < kRows; ++i) {
    places[i] = i * kColumns;
    for (int j = 0; j < kColumns; ++j) matrix[i][j] = rank * 100 + i * 10 + j;
  }
  MPI_Type_vector(kRows, 1, kColumns, MPI_INT, &column);
  MPI_Type_create_indexed_block(kRows, 1, places, MPI_INT, &indexed);
  MPI_Type_commit(&column);
  MPI_Type_commit(&indexed);
  MPI_Type_dup(column, &again);
  exchange(&matrix[0][1], 1, column, row, kRows, MPI_INT);
  for (int i = 0; i < kRows; ++i) fold(row[i]);
  exchange(row, kRows, MPI_INT, &matrix[0][2], 1, indexed);
  exchange(&matrix[0][2], 1, again, &matrix[0][3], 1, indexed);
  for (int i = 0; i < kRows; ++i) fold(matrix[i][3]);
  // Collectives: what a rank calls a column is a row, or two halves of one, to another.
  MPI_Datatype three;
  MPI_Type_contiguous(3, MPI_INT, &three);
  MPI_Type_commit(&three);
  if (rank == 0) {
    MPI_Bcast(&matrix[0][0], 1, column, 0, MPI_COMM_WORLD);
  } else if (rank % 2) {
    MPI_Bcast(row, 2, three, 0, MPI_COMM_WORLD);
  } else {
    MPI_Bcast(row, kRows, MPI_INT, 0, MPI_COMM_WORLD);
  }
  fold(rank ? row[3] : matrix[3][0]);
  int all[16 * kRows];
  MPI_Gather(row, rank % 2 ? 2 : kRows, rank % 2 ? three : MPI_INT, all, kRows, MPI_INT, size - 1, ring);
  MPI_Type_free(&three);
  MPI_Type_free(&again);
  MPI_Type_free(&indexed);
  MPI_Type_free(&column);
}

static MPI_Datatype record(int nested) {
  int lengths[4] = {1, nested ? 1 : 3, 1, 0};
  MPI_Aint places[3] = {offsetof(Record, number), offsetof(Record, values), offsetof(Record, letter)};
  MPI_Datatype three, types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, whole, resized;
  if (nested) {
    MPI_Type_contiguous(3, MPI_DOUBLE, &three);
    types[1] = three;
  }
  MPI_Type_create_struct(3, lengths, places, types, &whole);
  MPI_Type_create_resized(whole, 0, sizeof(Record), &resized);
  MPI_Type_commit(&resized);
  MPI_Type_free(&whole);
  if (nested) MPI_Type_free(&three);  // the types made of it live on
  return resized;
}

static void structs(void) {
  Record out[4], in[4];
  memset(out, 0, sizeof out);
  memset(in, 0, sizeof in);
  MPI_Datatype flat = record(0), nested = record(1), four;
  MPI_Type_contiguous(4, nested, &four);
  MPI_Type_commit(&four);
  for (int i = 0; i < 4; ++i) out[i] = (Record){.number = rank + i, .values = {i, 2, 3}, .letter = (char)('a' + i)};
  exchange(out, 4, flat, in, 1, four);
  for (int i = 0; i < 4; ++i) fold(in[i].number + in[i].letter + (int64_t)in[i].values[0]);
  MPI_Bcast(in, rank ? 4 : 1, rank ? flat : four, 0, MPI_COMM_WORLD);
  fold(in[2].number);
  MPI_Type_free(&four);
  MPI_Type_free(&nested);
  MPI_Type_free(&flat);
}

typedef struct {
  double value;
  int at;
} Place;

static void pairs(void) {  // MPI's own types of two elements are as good as structs of the two
  int lengths[2] = {1, 1}, two[2] = {0, 0}, window_of[2] = {0, 0};
  MPI_Aint places[2] = {offsetof(Place, value), offsetof(Place, at)};
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, raw, made, several;
  MPI_Type_create_struct(2, lengths, places, types, &raw);
  MPI_Type_create_resized(raw, 0, sizeof(Place), &made);
  MPI_Type_contiguous(2, MPI_DOUBLE_INT, &several);
  MPI_Type_commit(&made);
  MPI_Type_commit(&several);
  Place out[4], in[4];
  for (int i = 0; i < 4; ++i) out[i] = (Place){rank + 0.5 * i, i};
  exchange(out, 4, MPI_DOUBLE_INT, in, 4, made);
  exchange(in, 4, made, out, 2, several);
  exchange(out, 2, several, in, 4, MPI_DOUBLE_INT);
  for (int i = 0; i < 4; ++i) fold((int64_t)(4 * in[i].value) + in[i].at);
  exchange(lengths, 2, MPI_INT, two, 1, MPI_2INT);
  exchange(two, 1, MPI_2INT, lengths, 2, MPI_INT);
  fold(lengths[0] + two[1]);
  MPI_Bcast(out, 4, rank % 2 ? MPI_DOUBLE_INT : made, 0, ring);
  Place all[16];
  MPI_Gather(out, 1, rank % 2 ? MPI_DOUBLE_INT : made, all, 1, made, 0, ring);
  MPI_Allreduce(out, in, 4, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  fold((int64_t)(4 * in[3].value) + in[3].at);
  MPI_Win window;
  MPI_Win_create(window_of, sizeof window_of, sizeof(int), MPI_INFO_NULL, ring, &window);
  MPI_Win_fence(0, window);
  if (rank == 0) MPI_Put(lengths, 2, MPI_INT, size - 1, 0, 1, MPI_2INT, window);
  MPI_Put(out, 0, MPI_DOUBLE, 0, 0, 0, MPI_INT, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  fold(window_of[0] + window_of[1]);
  MPI_Type_free(&raw);
  MPI_Type_free(&made);
  MPI_Type_free(&several);
}

static void names(void) {  // of one type, which no MPI tells apart: inside other types nothing is said of them
  struct {
    int first;
    int rest[3];
    double last;
  } out = {rank, {1, 2, 3}, 0.5}, in = out;
  int lengths[3] = {1, 3, 1};
  MPI_Aint places[3] = {0, sizeof(int), (char*)&out.last - (char*)&out};
  MPI_Datatype sent[3] = {MPI_INT, MPI_INT32_T, MPI_DOUBLE}, got[3] = {MPI_INT32_T, MPI_INT, MPI_DOUBLE}, to, from,
               four;
  MPI_Type_create_struct(3, lengths, places, sent, &to);
  MPI_Type_create_struct(3, lengths, places, got, &from);
  MPI_Type_create_struct(2, lengths, places, sent, &four);
  MPI_Type_commit(&to);
  MPI_Type_commit(&from);
  MPI_Type_commit(&four);
  exchange(&out, 1, to, &in, 1, from);
  exchange(&in, 1, four, &out, 4, MPI_INT);
  fold(in.first + out.rest[2] + (int)(2 * in.last));
  MPI_Type_free(&to);
  MPI_Type_free(&from);
  MPI_Type_free(&four);
}

static void blocks(void) {
  int sizes[2] = {kRows, kColumns}, part[2] = {3, 2}, start[2] = {1, 1};
  int matrix[kRows][kColumns], flat[6], lengths[3] = {1, 2, 3}, places[3] = {0, 2, 5}, spread[8];
  MPI_Datatype block, steps_of, ints;
  memset(spread, 0, sizeof spread);
  for (int i = 0; i < kRows * kColumns; ++i) matrix[i / kColumns][i % kColumns] = rank * 50 + i;
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &block);
  MPI_Type_indexed(3, lengths, places, MPI_INT, &steps_of);
  MPI_Type_create_hvector(3, 2, 2 * sizeof(int), MPI_INT, &ints);
  MPI_Type_commit(&block);
  MPI_Type_commit(&steps_of);
  MPI_Type_commit(&ints);
  exchange(matrix, 1, block, flat, 6, MPI_INT);
  exchange(flat, 1, ints, spread, 1, steps_of);
  for (int i = 0; i < 6; ++i) fold(flat[i] + spread[i]);
  MPI_Type_free(&ints);
  MPI_Type_free(&steps_of);
  MPI_Type_free(&block);
}

// A level is two of the one below.
static MPI_Datatype next_level(MPI_Datatype below, int by_struct) {
  MPI_Aint lower, extent;
  MPI_Type_get_extent(below, &lower, &extent);
  int lengths[2] = {1, 1};
  MPI_Aint places[2] = {0, extent};
  MPI_Datatype types[2] = {below, below}, made;
  if (by_struct)
    MPI_Type_create_struct(2, lengths, places, types, &made);
  else
    MPI_Type_create_hindexed(2, lengths, places, below, &made);
  MPI_Type_commit(&made);
  return made;
}

static void nested(void) {  // a type has 2^40 of its innermost ones: nobody may visit them all
  enum { kLevels = 40, kSent = 4, kWords = 3 << kSent };
  MPI_Datatype all[kLevels + 1], again;
  double out[kWords], in[kWords];
  MPI_Type_contiguous(3, MPI_DOUBLE, &all[0]);
  for (int i = 1; i <= kLevels; ++i) all[i] = next_level(all[i - 1], i % 4 != 0);
  MPI_Type_dup(all[kSent], &again);
  for (int i = 0; i < kWords; ++i) out[i] = rank * 100 + i;
  exchange(out, 1, all[kSent], in, kWords, MPI_DOUBLE);
  exchange(in, kWords, MPI_DOUBLE, out, 2, all[kSent - 1]);
  exchange(out, 1, again, in, 4, all[kSent - 2]);
  for (int i = 0; i < kWords; ++i) fold((int64_t)in[i]);
  MPI_Type_free(&again);
  for (int i = 0; i <= kLevels; ++i) MPI_Type_free(&all[i]);
}

// What MPI_Type_get_contents gives out may be a copy that nobody has made.
static void made_of_unseen(void) {
  enum { kLevels = 30, kWords = 2 * 8 };
  MPI_Datatype all[kLevels], inner[2], whole;
  int numbers[3];
  MPI_Aint places[2];
  double out[kWords], in[kWords];
  MPI_Type_contiguous(1, MPI_DOUBLE, &all[0]);
  for (int i = 1; i < kLevels; ++i) all[i] = next_level(all[i - 1], 1);
  MPI_Type_get_contents(all[4], 3, 2, 2, numbers, places, inner);  // eight of them
  MPI_Type_contiguous(2, inner[0], &whole);
  MPI_Type_commit(&whole);
  for (int i = 0; i < kWords; ++i) out[i] = rank * 100 + i;
  exchange(out, 1, whole, in, kWords, MPI_DOUBLE);
  for (int i = 0; i < kWords; ++i) fold((int64_t)in[i]);
  MPI_Type_free(&whole);
  for (int i = 0; i < 2; ++i) MPI_Type_free(&inner[i]);
  MPI_Type_get_contents(all[kLevels - 1], 3, 2, 2, numbers, places, inner);
  MPI_Type_dup(inner[0], &whole);
  MPI_Type_free(&whole);
  for (int i = 0; i < 2; ++i) MPI_Type_free(&inner[i]);
  for (int i = 0; i < kLevels; ++i) MPI_Type_free(&all[i]);
}

static void bytes(void) {  // packed data and bytes; a receive with room for more than comes
  char packed[64], got[64];
  int at = 0, numbers[2] = {rank, rank * rank}, back[2], count;
  double half_of = rank / 2.0, half_back;
  MPI_Status status;
  MPI_Pack(numbers, 2, MPI_INT, packed, sizeof packed, &at, ring);
  MPI_Pack(&half_of, 1, MPI_DOUBLE, packed, sizeof packed, &at, ring);
  MPI_Sendrecv(packed, at, MPI_PACKED, right(), 0, got, sizeof got, MPI_PACKED, left(), 0, ring, &status);
  MPI_Get_count(&status, MPI_PACKED, &count);
  at = 0;
  MPI_Unpack(got, count, &at, back, 2, MPI_INT, ring);
  MPI_Unpack(got, count, &at, &half_back, 1, MPI_DOUBLE, ring);
  fold(back[0] + back[1] + (int64_t)(2 * half_back));
  // Packed data may be received as what was packed (MPI-3.1, 4.2).
  at = 0;
  MPI_Pack(numbers, 2, MPI_INT, packed, sizeof packed, &at, ring);
  exchange(packed, at, MPI_PACKED, back, 2, MPI_INT);
  fold(back[1]);
  exchange(numbers, sizeof numbers, MPI_BYTE, back, sizeof back, MPI_BYTE);
  fold(back[0]);
}

static void empty(void) {
  MPI_Datatype nothing, pair;
  int word = rank, got = -1, lengths[2] = {0, 1};
  MPI_Aint places[2] = {0, 0};
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT};
  MPI_Type_contiguous(0, MPI_DOUBLE, &nothing);
  MPI_Type_create_struct(2, lengths, places, types, &pair);  // no double in it
  MPI_Type_commit(&nothing);
  MPI_Type_commit(&pair);
  exchange(&word, 5, nothing, &got, 0, MPI_INT);
  exchange(&word, 1, pair, &got, 1, MPI_INT);
  MPI_Bcast(&word, rank ? 3 : 1, nothing, 0, MPI_COMM_WORLD);  // Open MPI 4.1 hangs if one count is 0
  fold(got);
  MPI_Type_free(&pair);
  MPI_Type_free(&nothing);
}

// ---- collectives with an amount for each rank
// ------------------------------------------------------------------------

enum { kUnit = 6, kRanks = 16 };

static int sent[kRanks * kUnit * 2], got[kRanks * kUnit * 2];
static int counts[kRanks], places[kRanks];

static MPI_Datatype of(int length) {
  MPI_Datatype type;
  MPI_Type_contiguous(length, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

static void fill(void) {
  for (int i = 0; i < COUNT_OF(sent); ++i) sent[i] = rank * 1000 + i, got[i] = -1;
}

static void fold_all(void) {
  for (int i = 0; i < COUNT_OF(got); ++i) fold(got[i]);
}

// Rank i has kUnit numbers, or none if i is a multiple of 3 and not 0; in units of `unit`.
static void amounts(int unit) {
  for (int i = 0; i < size; ++i) {
    counts[i] = i && i % 3 == 0 ? 0 : kUnit / unit;
    places[i] = i * kUnit / unit;
  }
}

static void rooted(void) {  // in threes, in twos, one by one; in place; with a request
  MPI_Datatype two = of(2), three = of(3), all = of(kUnit);
  MPI_Datatype types[3] = {MPI_INT, three, all};
  int units[3] = {1, 3, kUnit}, own = rank && rank % 3 == 0 ? 0 : kUnit, way = rank % 3;
  MPI_Request request;
  fill();
  amounts(2);
  MPI_Gatherv(sent, own / units[way], types[way], got, counts, places, two, 0, MPI_COMM_WORLD);
  fold_all();
  amounts(3);
  MPI_Scatterv(sent, counts, places, three, got, own / units[way], types[way], size - 1, ring);
  fold_all();
  amounts(1);
  MPI_Gatherv(rank ? sent : MPI_IN_PLACE, own, MPI_INT, got, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
  fold_all();
  MPI_Igatherv(sent, own / units[way], types[way], got, counts, places, MPI_INT, size - 1, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  fold_all();
  MPI_Iscatterv(sent, counts, places, MPI_INT, rank ? (void*)got : MPI_IN_PLACE, own, MPI_INT, 0, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  fold_all();
#if MPI_VERSION >= 4
  MPI_Gatherv_init(sent, own / units[way], types[way], got, counts, places, MPI_INT, 0, ring, MPI_INFO_NULL, &request);
  for (int i = 0; i < 3; ++i) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  fold_all();
#endif
  MPI_Type_free(&all);
  MPI_Type_free(&three);
  MPI_Type_free(&two);
}

static void gathered_by_all(void) {  // the counts differ from rank to rank, what they amount to does not
  MPI_Datatype two = of(2), three = of(3);
  int own = rank && rank % 3 == 0 ? 0 : kUnit;
  fill();
  amounts(rank % 2 ? 2 : 3);
  MPI_Allgatherv(sent, own, MPI_INT, got, counts, places, rank % 2 ? two : three, MPI_COMM_WORLD);
  fold_all();
  amounts(1);
  MPI_Allgatherv(sent, own / (rank % 2 ? 3 : 2), rank % 2 ? three : two, got, counts, places, MPI_INT, ring);
  fold_all();
  MPI_Reduce_scatter(sent, got, counts, MPI_INT, MPI_SUM, ring);
  fold_all();
  MPI_Type_free(&three);
  MPI_Type_free(&two);
}

static void exchanged(void) {  // i sends j as much as i + j says, in units of its own
  MPI_Datatype two = of(2), three = of(3), types[kRanks], as[kRanks];
  int received[kRanks], from[kRanks], offsets[kRanks];
  MPI_Request request;
  fill();
  for (int i = 0; i < size; ++i) {
    int amount = (rank + i) % 4 == 3 ? 0 : kUnit;
    counts[i] = amount / (rank % 2 ? 2 : 3);
    places[i] = i * kUnit / (rank % 2 ? 2 : 3);
    received[i] = amount;
    from[i] = i * kUnit;
    offsets[i] = (int)sizeof(int) * i * kUnit;
    types[i] = i % 2 ? two : three;
    as[i] = rank % 2 ? two : three;
  }
  MPI_Alltoallv(sent, counts, places, rank % 2 ? two : three, got, received, from, MPI_INT, MPI_COMM_WORLD);
  fold_all();
  MPI_Ialltoallv(sent, received, from, MPI_INT, got, counts, places, rank % 2 ? two : three, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  fold_all();
  for (int i = 0; i < size; ++i) {
    counts[i] = received[i] / (i % 2 ? 2 : 3);
    received[i] /= rank % 2 ? 2 : 3;
  }
  MPI_Alltoallw(sent, counts, offsets, types, got, received, offsets, as, MPI_COMM_WORLD);
  fold_all();
  for (int i = 0; i < size; ++i) counts[i] = kUnit, places[i] = i * kUnit;
  MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, got, counts, places, MPI_INT, ring);
  fold_all();
  MPI_Type_free(&three);
  MPI_Type_free(&two);
}

static void often(void) {  // more of them than are remembered
  int received[kRanks], from[kRanks], rounds = 18000 / (2 * size + 4);
  fill();
  for (int i = 0; i < size; ++i) places[i] = from[i] = i * kUnit;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < size; ++i) {
      counts[i] = (rank + round + i) % (kUnit + 1);
      received[i] = (i + round + rank) % (kUnit + 1);
    }
    MPI_Alltoallv(sent, counts, places, MPI_INT, got, received, from, MPI_INT, MPI_COMM_WORLD);
    MPI_Gatherv(sent, counts[0], MPI_INT, got, received, from, MPI_INT, 0, ring);
  }
  fold_all();
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"column_as_row", column_as_row},
      {"structs", structs},
      {"pairs", pairs},
      {"names", names},
      {"blocks", blocks},
      {"nested", nested},
      {"made_of_unseen", made_of_unseen},
      {"bytes", bytes},
      {"empty", empty},
      {"rooted", rooted},
      {"gathered_by_all", gathered_by_all},
      {"exchanged", exchanged},
      {"often", often},
  };
  return RUN_CLEAN(argc, argv, cases, MPI_THREAD_SINGLE);
}
