// Communicators by number; 0 is the world, and those that a rank is no member of it never names.
#include <stdlib.h>
#include <string.h>

#include "player.h"

static MPI_Comm comms[kComms];

MPI_Comm communicator(const Op* op) {
  const int index = number(op, "c", 0);
  return index ? comms[index] : MPI_COMM_WORLD;
}

static MPI_Comm* settled(Call* call) { return &comms[number(call->op, "to", 1)]; }

static void dup(Call* call) { AT(call->op, MPI_Comm_dup(communicator(call->op), settled(call))); }

static void idup(Call* call) { AT(call->op, MPI_Comm_idup(communicator(call->op), settled(call), &call->request)); }

static void split(Call* call) {
  int color = number(call->op, "color", -1);
  color = has(call->op, "bad") ? -number(call->op, "bad", 2) : color < 0 ? MPI_UNDEFINED : color;
  AT(call->op, MPI_Comm_split(communicator(call->op), color, number(call->op, "key", 0), settled(call)));
}

static void split_type(Call* call) {
  AT(call->op, MPI_Comm_split_type(communicator(call->op), MPI_COMM_TYPE_SHARED, number(call->op, "key", 0),
                                   MPI_INFO_NULL, settled(call)));
}

// `dims` and `periods`: a digit a dimension.
static void cart(Call* call) {
  const char *dims = word(call->op, "dims", "1"), *periods = word(call->op, "periods", "0");
  int extents[kMostDimensions], round[kMostDimensions], dimensions = (int)strlen(dims);
  for (int i = 0; i < dimensions; ++i) {
    extents[i] = dims[i] - '0';
    round[i] = periods[i] - '0';
  }
  AT(call->op, MPI_Cart_create(communicator(call->op), dimensions, extents, round, 0, settled(call)));
}

MPI_Group group_of(const Call* call) {  // `members`: a digit a rank
  const char* members = word(call->op, "members", "0");
  int ranks[kMostRanks], count = (int)strlen(members);
  MPI_Group all, some;
  for (int i = 0; i < count; ++i) ranks[i] = members[i] - '0';
  MPI_Comm_group(communicator(call->op), &all);
  MPI_Group_incl(all, count, ranks, &some);
  MPI_Group_free(&all);
  return some;
}

static void create(Call* call) {
  MPI_Group group = group_of(call);
  AT(call->op, MPI_Comm_create(communicator(call->op), group, settled(call)));
  MPI_Group_free(&group);
}

static void create_group(Call* call) {
  MPI_Group group = group_of(call);
  AT(call->op, MPI_Comm_create_group(communicator(call->op), group, number(call->op, "tag", 0), settled(call)));
  MPI_Group_free(&group);
}

static void free_one(Call* call) {
  MPI_Comm* gone = &comms[number(call->op, "c", 0)];
  if (*gone != MPI_COMM_NULL) AT(call->op, MPI_Comm_free(gone));
}

const Verb kCommunicatorVerbs[] = {
    {"dup", dup, NULL},   {"idup", idup, NULL},     {"split", split, NULL},   {"split_type", split_type, NULL},
    {"cart", cart, NULL}, {"create", create, NULL}, {"free", free_one, NULL}, {"create_group", create_group, NULL},
    {NULL, NULL, NULL},
};
