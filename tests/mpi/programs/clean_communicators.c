// Correct: communicators made and freed in every way, groups, topologies, inter-communicators, different ones at a
// time.
#include "common.h"

#include <unistd.h>

static int sum_over(MPI_Comm communicator) {
  int sum = -1;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, communicator);
  return sum;
}

static void constructors(void) {
  MPI_Comm made[5];
  MPI_Group world, few;
  MPI_Request request;
  int range[1][3] = {{0, size - 1, 2}};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, range, &few);
  MPI_Comm_dup(ring, &made[0]);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 7, -rank, &made[1]);
  MPI_Comm_create(MPI_COMM_WORLD, few, &made[2]);
  MPI_Comm_split_type(ring, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made[3]);
  MPI_Comm_idup(MPI_COMM_WORLD, &made[4], &request);
  MPI_Barrier(ring);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < 5; ++i) {
    if (made[i] == MPI_COMM_NULL) continue;
    fold(sum_over(made[i]));
    MPI_Comm_free(&made[i]);
  }
  MPI_Group_free(&few);
  MPI_Group_free(&world);
}

static void create_group(void) {  // overlapping pairs of neighbours, by their members alone
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  for (int first = 0; first + 1 < size; ++first) {
    int members[2] = {first + 1, first};  // rank 0 of the new one is the higher
    MPI_Group pair;
    MPI_Comm made;
    if (rank != first && rank != first + 1) continue;
    MPI_Group_incl(world, 2, members, &pair);
    MPI_Comm_create_group(MPI_COMM_WORLD, pair, first, &made);
    fold(sum_over(made));
    MPI_Comm_free(&made);
    MPI_Group_free(&pair);
  }
  MPI_Group_free(&world);
}

static void groups(void) {  // made in all ways, given out twice, freed before and after
  MPI_Group world, again, own, low, high, all, of_half, none = MPI_GROUP_EMPTY;
  MPI_Comm made;
  int range[1][3] = {{0, size / 2, 1}}, every_second[1][3] = {{rank % 2, size - 1, 2}};
  MPI_Comm_group(ring, &world);
  MPI_Comm_group(ring, &again);
  MPI_Group_free(&again);
  MPI_Comm_group(half, &of_half);
  MPI_Group_range_incl(world, 1, every_second, &own);
  MPI_Group_range_incl(world, 1, range, &low);
  MPI_Group_difference(world, low, &high);
  MPI_Group_union(high, low, &all);  // in another order
  MPI_Comm_create_group(ring, own, 5 + rank % 2, &made);
  fold(sum_over(made));
  MPI_Comm_free(&made);
  MPI_Comm_create_group(half, of_half, 0, &made);
  MPI_Comm_free(&made);
  for (int i = 0; i < 3; ++i) {  // the same call more than once
    MPI_Comm_create_group(ring, all, 9, &made);
    fold(sum_over(made));
    MPI_Comm_free(&made);
  }
  if (rank <= size / 2) {
    MPI_Comm_create_group(ring, low, 3, &made);
    fold(sum_over(made));
    MPI_Comm_free(&made);
  }
  MPI_Comm_create(ring, rank <= size / 2 ? low : none, &made);
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
  MPI_Group_free(&all);
  if (high != MPI_GROUP_EMPTY) MPI_Group_free(&high);
  MPI_Group_free(&low);
  MPI_Group_free(&own);
  MPI_Group_free(&of_half);
  MPI_Group_free(&world);
}

static void many(void) {  // handles are used again; some stay open for a while
  MPI_Comm open[5];
  for (int i = 0; i < 5; ++i) open[i] = MPI_COMM_NULL;
  for (int round = 0; round < 60; ++round) {
    MPI_Comm* slot = &open[round * 3 % 5];
    if (*slot != MPI_COMM_NULL) MPI_Comm_free(slot);
    if (round % 3 == 0) {
      MPI_Comm_dup(half, slot);
    } else {
      MPI_Comm_split(round % 3 == 1 ? ring : MPI_COMM_WORLD, (rank + round) % 2, rank, slot);
    }
    if (round % 4 == 0) fold(sum_over(*slot));
  }
  for (int i = 0; i < 5; ++i) {
    if (open[i] != MPI_COMM_NULL) MPI_Comm_free(&open[i]);
  }
}

static void at_a_time(void) {  // the halves do different things, unequally often
  for (int round = 0; round < 10 + 15 * (rank % 2); ++round) {
    int word = round;
    if (rank % 2) {
      MPI_Bcast(&word, 1, MPI_INT, 0, half);
    } else {
      fold(sum_over(half));
    }
  }
  for (int i = 0; i < rank; ++i) MPI_Barrier(MPI_COMM_SELF);
}

static void topologies(void) {
  int dims[2] = {0, 0}, periods[2] = {1, 0}, keep[2] = {1, 0}, from, to, coordinates[2], got = -1;
  int neighbours = size > 1 ? (rank == 0 || rank == size - 1 ? 1 : 2) : 0;
  int index[16], edges[32], at = 0;
  MPI_Comm grid, column, graph;
  MPI_Dims_create(size, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  MPI_Cart_coords(grid, rank, 2, coordinates);
  MPI_Cart_sub(grid, keep, &column);
  fold(sum_over(column) + coordinates[1]);
  for (int dimension = 0; dimension < 2; ++dimension) {
    MPI_Cart_shift(grid, dimension, 1, &from, &to);
    MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, grid, MPI_STATUS_IGNORE);
    fold(got);
  }
  for (int i = 0; i < size; ++i) {  // a line
    if (i) edges[at++] = i - 1;
    if (i + 1 < size) edges[at++] = i + 1;
    index[i] = at;
  }
  MPI_Graph_create(ring, size, index, edges, 0, &graph);
  int gathered[2] = {-1, -1};
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, gathered, 1, MPI_INT, graph);
  for (int i = 0; i < neighbours; ++i) fold(gathered[i]);
  MPI_Comm_free(&graph);
  MPI_Comm_free(&column);
  MPI_Comm_free(&grid);
}

static void between(void) {  // an inter-communicator of the halves
  MPI_Comm inter, merged, copy;
  int mine, theirs = -1, sum = -1, all[16];
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 40, &inter);
  MPI_Comm_rank(half, &mine);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);  // the other side's sum
  fold(sum);
  MPI_Barrier(inter);
  int word = rank % 2 ? -1 : 77, root = rank % 2 ? 0 : mine == 0 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Bcast(&word, 1, MPI_INT, root, inter);
  fold(word);
  MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, inter);
  fold(all[0]);
  if (mine == 0) {  // ranks of an inter-communicator are those of the other side
    MPI_Sendrecv(&rank, 1, MPI_INT, 0, 41, &theirs, 1, MPI_INT, 0, 41, inter, MPI_STATUS_IGNORE);
    fold(theirs);
  }
  MPI_Comm_dup(inter, &copy);
  MPI_Intercomm_merge(copy, rank % 2, &merged);
  fold(sum_over(merged));
  MPI_Comm_free(&merged);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&inter);
}

static void attributes(void) {  // names, infos, keys: of no concern to anybody else
  int key, flag;
  void* value;
  MPI_Info info;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm copy;
  MPI_Info_create(&info);
  MPI_Info_set(info, "test", "value");
  MPI_Comm_dup_with_info(ring, info, &copy);
  MPI_Comm_set_name(copy, rank % 2 ? "odd ones" : "even ones");
  MPI_Comm_get_name(copy, name, &flag);
  fold((int64_t)strlen(name));
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_set_attr(copy, key, &rank);
  MPI_Comm_get_attr(copy, key, &value, &flag);
  fold(*(int*)value + flag + sum_over(copy));
  MPI_Comm_free_keyval(&key);
  MPI_Comm_free(&copy);
  MPI_Info_free(&info);
}

static void own_arguments(void) {  // what each rank may say for itself
  int dims[2] = {1, 1}, periods[2], weights[2] = {1 + rank, 2}, right = (rank + 1) % size,
      left = (rank + size - 1) % size;
  MPI_Comm made, sides, inter;
  MPI_Group world, own, pair;
  dims[0] = size;
  periods[0] = 1 + rank;  // all of them true
  periods[1] = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &made);
  MPI_Comm_free(&made);
  MPI_Dist_graph_create_adjacent(ring, 1, &left, weights, rank % 2, &right, &weights[1], MPI_INFO_NULL, 0, &made);
  MPI_Comm_free(&made);
  MPI_Comm_split_type(ring, rank == size - 1 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &made);
  if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int first[1][3] = {{0, size - 2, 1}}, last[1] = {0};
  last[0] = size - 1;
  if (rank == size - 1)
    MPI_Group_incl(world, 1, last, &own);
  else
    MPI_Group_range_incl(world, 1, first, &own);
  MPI_Comm_create(MPI_COMM_WORLD, own, &made);  // two groups
  fold(sum_over(made));
  MPI_Comm_free(&made);
  for (int i = 0; i < 3; ++i) {  // one group, other tags
    MPI_Comm_create_group(MPI_COMM_WORLD, own, 10 + i + rank / (size - 1), &made);
    MPI_Comm_free(&made);
  }
  MPI_Comm_create(MPI_COMM_WORLD, world, &made);
  MPI_Comm_free(&made);
  for (int i = 0; i + 1 < size; ++i) {  // from one pair to the next, those that have no part in it with no group
    int members[2] = {i, i + 1};
    MPI_Group_incl(world, 2, members, &pair);
    MPI_Comm_create(MPI_COMM_WORLD, rank < i ? MPI_GROUP_EMPTY : pair, &made);
    if (made != MPI_COMM_NULL) MPI_Comm_free(&made);
    MPI_Group_free(&pair);
  }
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &sides);
  for (int i = 0; i < 3; ++i) {
    MPI_Intercomm_create(sides, rank == 0 ? 0 : size - 2, MPI_COMM_WORLD, rank == 0 ? size - 1 : 0, 20 - i, &inter);
    MPI_Comm_free(&inter);
  }
  MPI_Comm_free(&sides);
  MPI_Group_free(&own);
  MPI_Group_free(&world);
}

// Two more processes of this program: what is called on communicators of both worlds is compared with nothing.
static void together(MPI_Comm inter, int late) {
  MPI_Comm all;
  int mine = 1, sum = 0, number = 0;
  MPI_Intercomm_merge(inter, late, &all);
  MPI_Comm_size(all, &number);
  for (int i = 0; i < 3; ++i) MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
  require(sum == number, "all of both worlds");
  fold(sum);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&inter);
}

static void spawned(void) {
  char self[4096];
  char* words[] = {"spawned_child", NULL};
  MPI_Comm inter;
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  require(length > 0, "the name of the program");
  self[length] = 0;
  MPI_Comm_spawn(self, words, 2, MPI_INFO_NULL, 0, ring, &inter, MPI_ERRCODES_IGNORE);
  together(inter, 0);
}

static void spawned_child(void) {
  MPI_Comm parent;
  MPI_Comm_get_parent(&parent);
  together(parent, 1);
  finish();
}

// No place for what is asked for: MPI refuses that, and so the process is to live on.
static void null_places(void) {
  int word = 0, flag = 0, one[1] = {0}, range[1][3] = {{0, 0, 1}};
  MPI_Group group;
  MPI_Request request;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  MPI_Irecv(&word, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#define REFUSED(call) require((call) != MPI_SUCCESS, #call)
  REFUSED(MPI_Comm_group(MPI_COMM_WORLD, NULL));
  REFUSED(MPI_Group_union(group, group, NULL));
  REFUSED(MPI_Group_incl(group, 1, one, NULL));
  REFUSED(MPI_Group_range_incl(group, 1, range, NULL));
  REFUSED(MPI_Group_free(NULL));
  REFUSED(MPI_Op_free(NULL));
  REFUSED(MPI_Op_create(NULL, 1, NULL));
  REFUSED(MPI_Type_contiguous(2, MPI_INT, NULL));
  REFUSED(MPI_Type_create_struct(1, NULL, NULL, NULL, NULL));
  REFUSED(MPI_Comm_dup(MPI_COMM_WORLD, NULL));
  REFUSED(MPI_Comm_idup(MPI_COMM_WORLD, NULL, NULL));
  REFUSED(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, NULL));
  REFUSED(MPI_Cart_create(MPI_COMM_WORLD, 1, NULL, NULL, 0, NULL));
  REFUSED(MPI_Graph_create(MPI_COMM_WORLD, 1, NULL, NULL, 0, NULL));
  REFUSED(MPI_Test(&request, NULL, MPI_STATUS_IGNORE));
  REFUSED(MPI_Testall(1, &request, NULL, MPI_STATUSES_IGNORE));
  REFUSED(MPI_Testany(1, &request, NULL, &flag, MPI_STATUS_IGNORE));
  REFUSED(MPI_Testsome(1, &request, NULL, one, MPI_STATUSES_IGNORE));
  REFUSED(MPI_Request_get_status(request, NULL, MPI_STATUS_IGNORE));
  REFUSED(MPI_Wait(NULL, MPI_STATUS_IGNORE));
  REFUSED(MPI_Waitall(1, NULL, MPI_STATUSES_IGNORE));
  REFUSED(MPI_Request_free(NULL));
  REFUSED(MPI_Start(NULL));
  REFUSED(MPI_Startall(1, NULL));
  REFUSED(MPI_Cancel(NULL));
  REFUSED(MPI_Isend(&word, 1, MPI_INT, 0, 2, MPI_COMM_SELF, NULL));
  REFUSED(MPI_Irecv(&word, 1, MPI_INT, 0, 2, MPI_COMM_SELF, NULL));
  REFUSED(MPI_Recv_init(&word, 1, MPI_INT, 0, 2, MPI_COMM_SELF, NULL));
  REFUSED(MPI_Improbe(0, 0, MPI_COMM_SELF, NULL, NULL, MPI_STATUS_IGNORE));
  REFUSED(MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_SELF, NULL));
#undef REFUSED
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  fold(word);
  MPI_Group_free(&group);
}

// Whoever is looked at meanwhile must not be accused: long enough for the watchdog to look twice.
static void busy(void) { usleep(700000); }

static void left_out(void) {  // the last rank is not part of it, and waits for one that is
  int word = 0, last = size - 1;
  int* members = malloc((size_t)size * sizeof *members);
  for (int i = 0; i < size; ++i) members[i] = i;
  MPI_Comm some;
  MPI_Group group = group_of(last, members);
  MPI_Comm_create(ring, group, &some);
  if (rank == last) {
    MPI_Recv(&word, 1, MPI_INT, 0, 3, ring, MPI_STATUS_IGNORE);
  } else {
    if (rank == last - 1) busy();
    MPI_Barrier(some);
    if (rank == 0) MPI_Send(&size, 1, MPI_INT, last, 3, ring);
    MPI_Comm_free(&some);
  }
  fold(word);
  MPI_Group_free(&group);
  free(members);
}

static void made_meanwhile(void) {  // one of several requests is enough, and the other one is a communicator's
  int word = 0, which = -1, last = size - 1;
  MPI_Comm copy;
  MPI_Request requests[2];
  if (rank == 0) {
    MPI_Comm_idup(ring, &copy, &requests[0]);
    MPI_Irecv(&word, 1, MPI_INT, 1, 4, ring, &requests[1]);
    MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
    require(which == 1, "the last rank has not come yet");
    MPI_Send(&word, 1, MPI_INT, last, 5, ring);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  } else {
    if (rank == 1) busy();
    if (rank == 1) MPI_Send(&rank, 1, MPI_INT, 0, 4, ring);
    if (rank == last) MPI_Recv(&word, 1, MPI_INT, 0, 5, ring, MPI_STATUS_IGNORE);
    MPI_Comm_idup(ring, &copy, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  }
  fold(word);
  fold(sum_over(copy));
  MPI_Comm_free(&copy);
}

static void refused_alone(void) {  // one rank's error, which it has asked for, is nothing to the others
  int dims[1] = {2 * size}, no = 0, word = rank;
  MPI_Comm grid, one, two;
  MPI_Win window;
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (rank == 0) {
    require(MPI_Cart_create(ring, 1, dims, &no, 0, &grid) != MPI_SUCCESS, "more places than ranks");
    require(MPI_Win_create(&word, -4, 1, MPI_INFO_NULL, ring, &window) != MPI_SUCCESS, "a negative size");
    require(MPI_Win_create(&word, 4, -1, MPI_INFO_NULL, ring, &window) != MPI_SUCCESS, "a negative unit");
#ifdef MPICH
    require(MPI_Intercomm_create(MPI_COMM_SELF, 0, ring, 1, -7, &grid) != MPI_SUCCESS, "a negative tag");
#endif
  }
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_dup(ring, &one);
  MPI_Comm_dup(ring, &two);
  fold(sum_over(one));
  MPI_Bcast(&word, 1, MPI_INT, 0, two);
  fold(word);
  MPI_Comm_free(&one);
  MPI_Comm_free(&two);
}

static int free_inner(MPI_Comm comm, int key, void* inner, void* extra) {
  (void)comm, (void)key, (void)extra;
  const int result = MPI_Comm_free(inner);
  free(inner);
  return result;
}

static void freed_in_callbacks(void) {  // more than the library has room for, though never at once
  int key, from = rank, all[64];
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_inner, &key, NULL);
  for (int round = 0; round < 1100; ++round) {
    MPI_Comm outer, *inner = malloc(sizeof *inner);
    MPI_Comm_dup(MPI_COMM_SELF, &outer);
    MPI_Comm_dup(MPI_COMM_SELF, inner);
    MPI_Comm_set_attr(outer, key, inner);
    MPI_Comm_free(&outer);
  }
  MPI_Comm_free_keyval(&key);
  MPI_Gather(&from, 1, MPI_INT, all, 1, MPI_INT, 0, ring);
  if (rank == 0) fold(all[size - 1]);
}

static int free_slowly(MPI_Comm comm, int key, void* inner, void* extra) {
  usleep(rank % 2 * 500000);  // long enough for the watchdog to look while one has freed it and another has not
  return free_inner(comm, key, inner, extra);
}

static void freed_at_the_end(void) {  // by MPI_Finalize, which begins with the attributes of MPI_COMM_SELF
  int key;
  MPI_Comm* inner = malloc(sizeof *inner);
  MPI_Comm_dup(ring, inner);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_slowly, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, inner);
  MPI_Comm_free_keyval(&key);
}

static int refusals = 0;
static int refuse_once(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  return refusals++ == 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}
static int free_refused(MPI_Comm comm, int key, void* inner, void* extra) {
  (void)comm, (void)key, (void)extra;
  require(MPI_Comm_free(inner) != MPI_SUCCESS, "the callback's error");
  return MPI_SUCCESS;
}

static void refused_in_callbacks(void) {  // it lives on
  int refusing, freeing;
  MPI_Comm inner, outer;
  MPI_Comm_dup(ring, &inner);
  MPI_Comm_set_errhandler(inner, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_once, &refusing, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_refused, &freeing, NULL);
  if (rank == 0) {
    MPI_Comm again = inner;
    MPI_Comm_dup(MPI_COMM_SELF, &outer);
    MPI_Comm_set_attr(inner, refusing, NULL);
    MPI_Comm_set_attr(outer, freeing, &again);
    MPI_Comm_free(&outer);
  }
  fold(sum_over(inner));
  MPI_Comm_free(&inner);
  MPI_Comm_free_keyval(&refusing);
  MPI_Comm_free_keyval(&freeing);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"refused_in_callbacks", refused_in_callbacks},
      {"freed_at_the_end", freed_at_the_end},
      {"left_out", left_out},
      {"made_meanwhile", made_meanwhile},
      {"refused_alone", refused_alone},
      {"freed_in_callbacks", freed_in_callbacks},
      {"constructors", constructors},
      {"create_group", create_group},
      {"groups", groups},
      {"many", many},
      {"at_a_time", at_a_time},
      {"topologies", topologies},
      {"between", between},
      {"attributes", attributes},
      {"own_arguments", own_arguments},
      {"null_places", null_places},
      {"spawned", spawned},
      {"spawned_child", spawned_child},
  };
  return RUN_CLEAN(argc, argv, cases, MPI_THREAD_SINGLE);
}
