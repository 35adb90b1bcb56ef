// Datatypes, operators and the values in buffers: sequences that follow from their first one, whatever the layout.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "player.h"

enum { kInt, kDouble, kChar, kLong, kFloat, kByte, kShort };
enum { kBasicTypes = 7, kTypes = 13, kRoom = 512 };

typedef struct {
  const char* name;
  int basics;  // of one element, in the order of the signature
  struct {
    int kind;
    size_t place;
  } basic[kMostBasics];
  size_t extent;
  MPI_Datatype handle;
} Type;

typedef struct {
  int number;
  double value;
} Pair;

typedef struct {
  double value;
  int padding, number;
} OtherPair;

static Type types[kTypes] = {
    {"int", 1, {{kInt, 0}}, sizeof(int), MPI_DATATYPE_NULL},
    {"double", 1, {{kDouble, 0}}, sizeof(double), MPI_DATATYPE_NULL},
    {"char", 1, {{kChar, 0}}, 1, MPI_DATATYPE_NULL},
    {"long", 1, {{kLong, 0}}, sizeof(long), MPI_DATATYPE_NULL},
    {"float", 1, {{kFloat, 0}}, sizeof(float), MPI_DATATYPE_NULL},
    {"byte", 1, {{kByte, 0}}, 1, MPI_DATATYPE_NULL},
    {"short", 1, {{kShort, 0}}, sizeof(short), MPI_DATATYPE_NULL},
    {"int2", 2, {{kInt, 0}, {kInt, sizeof(int)}}, 2 * sizeof(int), MPI_DATATYPE_NULL},
    {"strided", 2, {{kInt, 0}, {kInt, 2 * sizeof(int)}}, 3 * sizeof(int), MPI_DATATYPE_NULL},
    {"double2", 2, {{kDouble, 0}, {kDouble, sizeof(double)}}, 2 * sizeof(double), MPI_DATATYPE_NULL},
    {"pair", 2, {{kInt, 0}, {kDouble, offsetof(Pair, value)}}, sizeof(Pair), MPI_DATATYPE_NULL},
    {"other", 2, {{kInt, offsetof(OtherPair, number)}, {kDouble, 0}}, sizeof(OtherPair), MPI_DATATYPE_NULL},
    {"wide", 1, {{kInt, 0}}, 4 * sizeof(int), MPI_DATATYPE_NULL},
};
static const size_t kSizes[kBasicTypes] = {sizeof(int), sizeof(double), 1, sizeof(long), sizeof(float),
                                           1,           sizeof(short)};
static MPI_Op user_sum = MPI_OP_NULL;
static uint64_t sum;  // of all values received, in whatever order they came

static void put(char* place, int kind, long value) {
  switch (kind) {
    case kInt: *(int*)place = (int)value; break;
    case kDouble: *(double*)place = (double)value; break;
    case kLong: *(long*)place = value; break;
    case kFloat: *(float*)place = (float)value; break;
    case kShort: *(short*)place = (short)value; break;
    default: *place = (char)value; break;
  }
}

static long get(const char* place, int kind) {
  switch (kind) {
    case kInt: return *(const int*)place;
    case kDouble: return (long)*(const double*)place;
    case kLong: return *(const long*)place;
    case kFloat: return (long)*(const float*)place;
    case kShort: return *(const short*)place;
    default: return *place;
  }
}

static long sequence(int first, int index) { return (first * 31L + index * 7L) % 97 + 1; }

static void add_up(void* in, void* inout, int* length, MPI_Datatype* type) {
  for (int t = 0; t < kBasicTypes; ++t) {
    if (types[t].handle != *type) continue;
    for (int i = 0; i < *length; ++i) {
      char* place = (char*)inout + (size_t)i * kSizes[t];
      put(place, t, get(place, t) + get((char*)in + (size_t)i * kSizes[t], t));
    }
  }
}

static void make_struct(Type* type) {
  int lengths[2] = {1, 1};
  MPI_Aint places[2] = {(MPI_Aint)type->basic[0].place, (MPI_Aint)type->basic[1].place};
  MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, narrow;
  MPI_Type_create_struct(2, lengths, places, parts, &narrow);
  MPI_Type_create_resized(narrow, 0, (MPI_Aint)type->extent, &type->handle);
  MPI_Type_free(&narrow);
}

void make_types(void) {
  const MPI_Datatype basic[kBasicTypes] = {MPI_INT, MPI_DOUBLE, MPI_CHAR, MPI_LONG, MPI_FLOAT, MPI_BYTE, MPI_SHORT};
  for (int t = 0; t < kBasicTypes; ++t) types[t].handle = basic[t];
  MPI_Type_contiguous(2, MPI_INT, &types[7].handle);
  MPI_Type_vector(2, 1, 2, MPI_INT, &types[8].handle);
  MPI_Type_contiguous(2, MPI_DOUBLE, &types[9].handle);
  make_struct(&types[10]);
  make_struct(&types[11]);
  MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)types[12].extent, &types[12].handle);
  for (int t = kBasicTypes; t < kTypes; ++t) MPI_Type_commit(&types[t].handle);
  MPI_Op_create(add_up, 1, &user_sum);
}

void free_types(void) {
  for (int t = kBasicTypes; t < kTypes; ++t) MPI_Type_free(&types[t].handle);
  MPI_Op_free(&user_sum);
}

int type_of(const Op* op, const char* key) {
  const char* name = word(op, key, "int");
  for (int t = 0; t < kTypes; ++t) {
    if (!strcmp(types[t].name, name)) return t;
  }
  fail(op, "no such datatype");
  return 0;
}

MPI_Datatype handle(int type) { return types[type].handle; }

MPI_Op operator_of(const Op* op) {
  const char* name = word(op, "op", "sum");
  if (!strcmp(name, "user")) return user_sum;
  return !strcmp(name, "max") ? MPI_MAX : !strcmp(name, "min") ? MPI_MIN : !strcmp(name, "bor") ? MPI_BOR : MPI_SUM;
}

char* at(Buffer buffer, int element) { return buffer.data + (size_t)element * types[buffer.type].extent; }

Buffer make(int type, int elements) {
  // With room beyond the end: what a wrong program writes there is not to harm its process.
  Buffer buffer = {calloc(2 * (size_t)elements + kRoom, types[type].extent), type, elements};
  return buffer;
}

void fill(Buffer buffer, int from, int elements, int first) {
  const Type* type = &types[buffer.type];
  for (int i = 0; i < elements; ++i) {
    for (int b = 0; b < type->basics; ++b)
      put(at(buffer, from + i) + type->basic[b].place, type->basic[b].kind, sequence(first, i * type->basics + b));
  }
}

Buffer filled(int type, int elements, int first) {
  Buffer buffer = make(type, elements);
  fill(buffer, 0, elements, first);
  return buffer;
}

static void take(const Op* op, long value, long wanted) {
  uint64_t mixed = (uint64_t)value * 0x9e3779b97f4a7c15u;
  sum += mixed ^ mixed >> 29;
  if (checks && value != wanted) fail(op, "other values than were sent");
}

void expect(const Op* op, Buffer buffer, int from, int elements, int first) {
  const Type* type = &types[buffer.type];
  for (int i = 0; i < elements; ++i) {
    for (int b = 0; b < type->basics; ++b) {
      take(op, get(at(buffer, from + i) + type->basic[b].place, type->basic[b].kind),
           sequence(first, i * type->basics + b));
    }
  }
}

static long combined(MPI_Op how, long left, long right) {
  if (how == MPI_MAX) return left > right ? left : right;
  if (how == MPI_MIN) return left < right ? left : right;
  return how == MPI_BOR ? left | right : left + right;
}

// The first `ranks` of the communicator have each contributed the sequence that begins with 1000 times their number.
void expect_reduced(const Op* op, Buffer buffer, int elements, int offset, int ranks) {
  const MPI_Op how = operator_of(op);
  const int first = number(op, "v", 0);
  for (int i = 0; i < elements; ++i) {
    long wanted = sequence(first, offset + i);
    for (int rank = 1; rank < ranks; ++rank) wanted = combined(how, wanted, sequence(first + 1000 * rank, offset + i));
    take(op, get(at(buffer, i), types[buffer.type].basic[0].kind), wanted);
  }
}

uint64_t checksum(void) { return sum; }
