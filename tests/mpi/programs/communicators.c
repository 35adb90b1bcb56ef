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

static void split_into_none_missing(void) {
  if (at_fault()) asleep();
  MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &made);
}

static void split_into_none_cycle(void) {  // who gets no communicator waits for all others like them
  int token = 0;
  if (at_fault()) MPI_Recv(&token, 1, MPI_INT, partner, 61, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Comm_split(MPI_COMM_WORLD, rank == partner ? MPI_UNDEFINED : 0, 0, &made);
  if (rank == partner) MPI_Send(&token, 1, MPI_INT, odd, 61, MPI_COMM_WORLD);
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

static void window_before_dup(void) {
  static int memory[4];
  MPI_Win window;
  if (at_fault()) MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, ring, &window);
  MPI_Comm_dup(ring, &made);
  if (rank != odd) MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, ring, &window);
  MPI_Win_free(&window);
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

// ---- arguments in which all have to agree

static void grid(int dimensions, int first, int second, int round, int reorder) {
  int dims[2] = {first, second}, periods[2] = {round, 0};
  MPI_Cart_create(MPI_COMM_WORLD, dimensions, dims, periods, reorder, &made);
  use_and_free();
}

static void cart_dims(void) {
  if (at_fault())
    grid(2, 1, size, 0, 0);
  else
    grid(2, size, 1, 0, 0);
}

static void cart_periods(void) { grid(2, size, 1, at_fault(), 0); }
static void cart_ndims(void) { grid(at_fault() ? 1 : 2, size, 1, 1, 0); }
static void cart_reorder(void) { grid(2, size, 1, 1, at_fault()); }

static void cart_sub(void) {
  int dims[2] = {1, 1}, periods[2] = {0, 0}, keep[2] = {1, 0};
  dims[0] = size;
  MPI_Comm whole;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &whole);
  if (at_fault()) keep[1] = 1;
  MPI_Cart_sub(whole, keep, &made);
  MPI_Comm_free(&whole);
  use_and_free();
}

static void graph_edges(void) {  // a ring
  int index[16], edges[16];
  for (int i = 0; i < size; ++i) {
    index[i] = i + 1;
    edges[i] = (i + 1) % size;
  }
  if (at_fault()) edges[0] = 0;
  MPI_Graph_create(ring, size, index, edges, 0, &made);
  use_and_free();
}

static void dist_graph_reorder(void) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Dist_graph_create_adjacent(ring, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, at_fault(),
                                 &made);
  use_and_free();
}

#ifdef OPEN_MPI
enum { kOtherType = OMPI_COMM_TYPE_NUMA };
#else
enum { kOtherType = MPIX_COMM_TYPE_NEIGHBORHOOD };
#endif

static void split_type(void) {
  MPI_Comm_split_type(MPI_COMM_WORLD, at_fault() ? kOtherType : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
  use_and_free();
}

static void create_other(void) {  // a group without rank 0
  MPI_Group group = without(at_fault() ? 0 : -1);
  MPI_Comm_create(MPI_COMM_WORLD, group, &made);
  MPI_Group_free(&group);
  use_and_free();
}

static void create_group_other(void) {
  MPI_Group group = without(at_fault() ? 0 : -1);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 63, &made);
  MPI_Group_free(&group);
  use_and_free();
}

static void create_group_tag(void) {
  MPI_Group group = without(-1);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, at_fault() ? 65 : 64, &made);
  MPI_Group_free(&group);
  use_and_free();
}

// Two groups: the ranks before `first` and those from it on, each led by its first one.
static void between(int first, int leader, int tag) {
  MPI_Comm mine;
  MPI_Comm_split(MPI_COMM_WORLD, rank < first, 0, &mine);
  MPI_Intercomm_create(mine, leader, MPI_COMM_WORLD, rank < first ? first : 0, tag, &made);
  MPI_Comm_free(&mine);
  MPI_Barrier(made);
  MPI_Comm_free(&made);
}

static void intercomm_tag(void) { between(odd, 0, at_fault() ? 67 : 66); }
static void intercomm_leader(void) { between(size - 1, at_fault() ? 1 : 0, 68); }

static void merge_missing(void) {
  MPI_Comm inter, all;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 40, &inter);
  if (rank == odd) {
    planted();
    asleep();
  }
  MPI_Intercomm_merge(inter, rank % 2, &all);
  MPI_Comm_free(&all);
  MPI_Comm_free(&inter);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"split_missing", split_missing},
      {"split_into_none_missing", split_into_none_missing},
      {"split_into_none_cycle", split_into_none_cycle},
      {"dup_missing", dup_missing},
      {"idup_missing", idup_missing},
      {"create_group_missing", create_group_missing},
      {"merge_missing", merge_missing},
      {"split_barrier", split_barrier},
      {"dup_other_parent", dup_other_parent},
      {"other_order", other_order},
      {"group_order", group_order},
      {"dup_before_barrier", dup_before_barrier},
      {"dup_cart", dup_cart},
      {"window_before_dup", window_before_dup},
      {"sub_communicator", sub_communicator},
      {"free_missing", free_missing},
      {"cart_dims", cart_dims},
      {"cart_periods", cart_periods},
      {"cart_ndims", cart_ndims},
      {"cart_reorder", cart_reorder},
      {"cart_sub", cart_sub},
      {"graph_edges", graph_edges},
      {"dist_graph_reorder", dist_graph_reorder},
      {"split_type", split_type},
      {"create_other", create_other},
      {"create_group_other", create_group_other},
      {"create_group_tag", create_group_tag},
      {"intercomm_tag", intercomm_tag},
      {"intercomm_leader", intercomm_leader},
  };
  return RUN_FAULTY(argc, argv, cases);
}
