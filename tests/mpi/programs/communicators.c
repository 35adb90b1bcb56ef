// Communicators that one rank does not join, or makes in another order.
#include "common.h"

static MPI_Comm made = MPI_COMM_NULL, second = MPI_COMM_NULL;

static int at_fault(void) {
  if (rank != odd) return 0;
  planted();
  return 1;
}

static void use_and_free(void) {
  int sum;
  MPI_Comm* all[2] = {&made, &second};
  for (int i = 0; i < 2; ++i) {
    if (*all[i] == MPI_COMM_NULL) continue;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, *all[i]);
    MPI_Comm_free(all[i]);
  }
}

static MPI_Group without(int left_out) {
  MPI_Group world, fewer;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (left_out < 0) return world;
  MPI_Group_excl(world, 1, &left_out, &fewer);
  MPI_Group_free(&world);
  return fewer;
}

static void split_missing(void) {
  if (at_fault()) asleep();
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &made);
  use_and_free();
}

static void dup_missing(void) {
  if (at_fault()) asleep();
  MPI_Comm_dup(ring, &made);
  use_and_free();
}

static void idup_missing(void) {
  MPI_Request request;
  if (at_fault()) asleep();
  MPI_Comm_idup(ring, &made, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  use_and_free();
}

static void create_group_missing(void) {  // rank 0 has no part in it, unless there are only two
  MPI_Group group = without(size > 2 ? 0 : -1);
  if (at_fault()) asleep();
  if (rank || size == 2) MPI_Comm_create_group(MPI_COMM_WORLD, group, 60, &made);
  MPI_Group_free(&group);
  use_and_free();
}

static void split_barrier(void) {  // it goes on to what comes behind the split
  if (!at_fault()) MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &made);
  MPI_Barrier(MPI_COMM_WORLD);
  use_and_free();
}

static void dup_other_parent(void) {  // each duplicates, of different communicators
  if (at_fault()) {
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
  } else {
    MPI_Comm_dup(ring, &made);
  }
  use_and_free();
}

static void other_order(void) {
  if (at_fault()) {
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &second);
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
  } else {
    MPI_Comm_dup(MPI_COMM_WORLD, &made);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &second);
  }
  use_and_free();
}

static void group_order(void) {  // two communicators of the same group, told apart by their tags
  MPI_Group group = without(-1);
  int faulty = at_fault();
  MPI_Comm_create_group(MPI_COMM_WORLD, group, faulty ? 62 : 61, &made);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, faulty ? 61 : 62, &second);
  MPI_Group_free(&group);
  use_and_free();
}

static void dup_before_barrier(void) {  // a duplicate has its place among the collectives
  int faulty = at_fault();
  if (faulty) MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Barrier(MPI_COMM_WORLD);
  if (!faulty) MPI_Comm_dup(MPI_COMM_WORLD, &made);
  use_and_free();
}

static void dup_cart(void) {  // as many ranks, in another call
  int dims[1], periods[1] = {1};
  dims[0] = size;
  if (at_fault()) {
    MPI_Cart_create(ring, 1, dims, periods, 0, &made);
  } else {
    MPI_Comm_dup(ring, &made);
  }
  use_and_free();
}

static void sub_communicator(void) {  // a member of the halves that does not come to its half's barrier
  if (at_fault()) asleep();
  MPI_Barrier(half);
}

static void free_missing(void) {  // MPI_Comm_free is collective: it is called by all but one
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  if (at_fault()) {
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  MPI_Comm_free(&made);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"split_missing", split_missing},
      {"dup_missing", dup_missing},
      {"idup_missing", idup_missing},
      {"create_group_missing", create_group_missing},
      {"split_barrier", split_barrier},
      {"dup_other_parent", dup_other_parent},
      {"other_order", other_order},
      {"group_order", group_order},
      {"dup_before_barrier", dup_before_barrier},
      {"dup_cart", dup_cart},
      {"sub_communicator", sub_communicator},
      {"free_missing", free_missing},
  };
  return RUN_FAULTY(argc, argv, cases);
}
