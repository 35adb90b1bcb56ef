// Correct: every collective, blocking and not, v- and w-variants, in place, neighbourhoods, with zero counts between.
#include "common.h"

enum { kMost = 16, kEach = 3 };

static int in[kMost * kMost * kEach], out[kMost * kMost * kEach];
static int counts[kMost], places[kMost], bytes[kMost];
static MPI_Datatype types[kMost];

static void fill(int round) {
  for (int i = 0; i < COUNT_OF(in); ++i) {
    in[i] = round * 1000 + rank * 100 + i;
    out[i] = -1;
  }
}

static void take(int count) {
  for (int i = 0; i < count; ++i) fold(out[i]);
}

// Everybody gets `rank + extra` elements from or gives them to everybody: different counts on purpose.
static int uneven(int extra) {
  int at = 0;
  for (int i = 0; i < size; ++i) {
    counts[i] = (i + extra) % (kEach + 1);  // zero among them
    places[i] = at;
    at += counts[i];
  }
  return at;
}

static void rooted(void) {
  for (int root = 0; root < size; ++root) {
    fill(root);
    MPI_Bcast(rank == root ? in : out, 5, MPI_INT, root, MPI_COMM_WORLD);
    take(rank == root ? 0 : 5);
    MPI_Reduce(in, out, 5, MPI_INT, MPI_MAX, root, ring);
    take(rank == root ? 5 : 0);
    MPI_Gather(in, kEach, MPI_INT, out, kEach, MPI_INT, root, MPI_COMM_WORLD);
    MPI_Scatter(in, kEach, MPI_INT, out, kEach, MPI_INT, root, MPI_COMM_WORLD);
    take(kEach);
    int all = uneven(root);
    MPI_Gatherv(in, counts[rank], MPI_INT, out, counts, places, MPI_INT, root, ring);
    take(rank == root ? all : 0);
    MPI_Scatterv(in, counts, places, MPI_INT, out, counts[rank], MPI_INT, root, ring);
    take(counts[rank]);
  }
}

static void into_one_place(void) {  // into the root's own part, of which MPI_IN_PLACE says that nothing is received
  const int each[3] = {3, 3, 3}, first[3] = {0, 0, 3};
  fill(0);
  for (int i = 0; i < size; ++i) {
    counts[i] = i < 3 ? each[i] : 0;
    places[i] = i < 3 ? first[i] : 0;
  }
  MPI_Gatherv(rank == 0 ? MPI_IN_PLACE : in, counts[rank], MPI_INT, out, counts, places, MPI_INT, 0, ring);
  take(rank == 0 && size > 1 ? 3 : 0);
}

static void everybody(void) {
  for (int round = 0; round < 3; ++round) {
    fill(round);
    MPI_Allreduce(in, out, 7, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(in, kEach, MPI_INT, out, kEach, MPI_INT, half);
    MPI_Alltoall(in, kEach, MPI_INT, out, kEach, MPI_INT, MPI_COMM_WORLD);
    take(size * kEach);
    MPI_Reduce_scatter_block(in, out, kEach, MPI_INT, MPI_SUM, ring);
    take(kEach);
    MPI_Scan(in, out, 4, MPI_INT, MPI_SUM, ring);
    take(4);
    MPI_Exscan(in, out, 4, MPI_INT, MPI_SUM, ring);
    take(rank ? 4 : 0);
    int all = uneven(round);
    MPI_Allgatherv(in, counts[rank], MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    take(all);
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    take(counts[rank]);
    MPI_Barrier(half);
  }
}

static void pairs(void) {  // i sends (i + j) % 4 elements to j: the count of a pair is the same on both sides
  fill(1);
  int all = uneven(rank);
  MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  take(all);
  for (int i = 0; i < size; ++i) {
    bytes[i] = places[i] * (int)sizeof(int);
    types[i] = MPI_INT;
  }
  MPI_Alltoallw(in, counts, bytes, types, out, counts, bytes, types, ring);
  take(all);
}

static void in_place(void) {
  for (int round = 0; round < 2; ++round) {
    int root = size - 1 - round;
    fill(round);
    MPI_Allreduce(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(rank == root ? MPI_IN_PLACE : in, in, 4, MPI_INT, MPI_MAX, root, ring);
    MPI_Gather(rank == root ? MPI_IN_PLACE : in, 2, MPI_INT, in, 2, MPI_INT, root, ring);
    MPI_Scatter(in, 2, MPI_INT, rank == root ? MPI_IN_PLACE : in, 2, MPI_INT, root, ring);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, kEach, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, kEach, MPI_INT, MPI_COMM_WORLD);
    MPI_Scan(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, half);
    memcpy(out, in, sizeof out);
    take(size * kEach);
  }
}

// What the root would send is not looked at.
static void in_place_uneven(void) {
  for (int root = 0; root < size; ++root) {
    const int at_root = rank == root, none = -1;
    MPI_Request requests[2];
    uneven(root);
    fill(root);
    const void* mine = at_root ? MPI_IN_PLACE : (const void*)in;
    const int number = at_root ? none : counts[rank];
    const MPI_Datatype type = at_root ? MPI_DATATYPE_NULL : MPI_INT;
    MPI_Gatherv(mine, number, type, out, counts, places, MPI_INT, root, ring);
    MPI_Scatterv(out, counts, places, MPI_INT, at_root ? MPI_IN_PLACE : (void*)in, number, type, root, ring);
    take(at_root ? kEach : 0);
    MPI_Igatherv(mine, number, type, out, counts, places, MPI_INT, root, ring, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Iscatterv(out, counts, places, MPI_INT, at_root ? MPI_IN_PLACE : (void*)in, number, type, root, ring,
                  &requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    for (int i = 0; i < (at_root ? 0 : counts[rank]); ++i) fold(in[i]);
  }
}

// Made in one order by all, started in another one by each.
static void started(void) {
#if MPI_VERSION >= 4
  int sum = 0, word = rank;
  MPI_Request requests[3];
  MPI_Bcast_init(&word, 1, MPI_INT, 0, ring, MPI_INFO_NULL, &requests[0]);
  MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, ring, MPI_INFO_NULL, &requests[1]);
  MPI_Barrier_init(ring, MPI_INFO_NULL, &requests[2]);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3; ++i) MPI_Start(&requests[(i + rank + round) % 3]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    fold(word + sum);
  }
  for (int i = 0; i < 3; ++i) MPI_Request_free(&requests[i]);
#endif
}

static void started_uneven(void) {
#if MPI_VERSION >= 4
  int ones[kMost], steps[kMost];
  MPI_Request requests[2];
  fill(2);
  const int all = uneven(rank);
  for (int i = 0; i < size; ++i) ones[i] = 1, steps[i] = all + i;
  MPI_Alltoallv_init(in, counts, places, MPI_INT, out, counts, places, MPI_INT, ring, MPI_INFO_NULL, &requests[0]);
  MPI_Alltoallv_init(in, ones, ones, MPI_INT, out, ones, steps, MPI_INT, ring, MPI_INFO_NULL, &requests[1]);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 2; ++i) MPI_Start(&requests[(i + rank + round) % 2]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    take(all + size);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
#endif
}

static void nonblocking(void) {
  static int lanes[8][kMost * kEach];
  for (int round = 0; round < 4; ++round) {
    MPI_Request requests[9];
    fill(round);
    memset(lanes, 0, sizeof lanes);
    int root = round % size;
    if (rank == root) memcpy(lanes[0], in, sizeof lanes[0]);
    MPI_Ibcast(lanes[0], 4, MPI_INT, root, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(in, lanes[1], 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Ireduce(in, lanes[2], 4, MPI_INT, MPI_MAX, root, ring, &requests[2]);
    MPI_Iallgather(in, kEach, MPI_INT, lanes[3], kEach, MPI_INT, ring, &requests[3]);
    MPI_Ialltoall(in, kEach, MPI_INT, lanes[4], kEach, MPI_INT, MPI_COMM_WORLD, &requests[4]);
    MPI_Iscan(in, lanes[5], 4, MPI_INT, MPI_SUM, half, &requests[5]);
    MPI_Igather(in, 1, MPI_INT, lanes[6], 1, MPI_INT, root, ring, &requests[6]);
    MPI_Iscatter(in, 2, MPI_INT, lanes[7], 2, MPI_INT, root, ring, &requests[7]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[8]);
    if (round % 2) {  // the order of completion is each rank's own
      for (int i = 0; i < 9; ++i) MPI_Wait(&requests[(i + rank) % 9], MPI_STATUS_IGNORE);
    } else {
      MPI_Waitall(9, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 8; ++i) {
      int rooted_only = i == 2 || i == 6;
      for (int j = 0; j < (rooted_only && rank != root ? 0 : kEach); ++j) fold(lanes[i][j]);
    }
  }
}

static void zero_counts(void) {
  MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Gather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, 0, ring);
  memset(counts, 0, sizeof counts);
  memset(places, 0, sizeof places);
  MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, ring);
  MPI_Allgatherv(in, 0, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
  // What only the root's arguments say is nobody else's business: other ranks may pass anything there.
  fill(0);
  MPI_Gather(in, 2, MPI_INT, rank ? NULL : out, rank ? -7 : 2, rank ? MPI_DATATYPE_NULL : MPI_INT, 0, ring);
  take(rank ? 0 : 2 * size);
}

static void keep_larger(void* a, void* b, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) {
    if (((int*)a)[i] > ((int*)b)[i]) ((int*)b)[i] = ((int*)a)[i];
  }
}

static void operators(void) {
  struct {
    double value;
    int index;
  } mine = {rank % 3, rank}, best = {-1, -1};
  MPI_Op larger;
  MPI_Op_create(keep_larger, 1, &larger);
  fill(2);
  MPI_Allreduce(in, out, 6, MPI_INT, larger, MPI_COMM_WORLD);
  take(6);
  MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, ring);
  fold(best.index);
  MPI_Reduce_local(in, out, 6, MPI_INT, larger);
  take(6);
  MPI_Op_free(&larger);
}

static void neighbours(void) {
  int periods[1] = {1}, dims[1] = {size}, left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Comm line, graph;
  MPI_Request request;
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &line);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &graph);
  fill(3);
  MPI_Neighbor_allgather(in, 2, MPI_INT, out, 2, MPI_INT, line);
  take(4);
  if (size > 2) {  // with two the left and the right neighbour are one: which block is whose is not the same everywhere
    MPI_Neighbor_alltoall(in, 2, MPI_INT, out, 2, MPI_INT, line);
    take(4);
  }
  // Each sends as many as its own rank says: the counts of a graph agree along its edges alone.
  int sent = rank % kEach + 1, received = left % kEach + 1, zero = 0;
  MPI_Neighbor_alltoallv(in, &sent, &zero, MPI_INT, out, &received, &zero, MPI_INT, graph);
  take(received);
  MPI_Neighbor_allgatherv(in, sent, MPI_INT, out, &received, &zero, MPI_INT, graph);
  take(received);
  MPI_Ineighbor_allgather(in, 2, MPI_INT, out, 2, MPI_INT, graph, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  take(2);
  if (size > 2) {  // to the left two, to the right as many as the sender's rank says; of types made in other ways
    int counts[2] = {2, sent}, room[2] = {received, 1}, displacements[2] = {0, 4};
    MPI_Aint bytes[2] = {0, 4 * (MPI_Aint)sizeof(int)};
    MPI_Datatype two, sent_types[2] = {MPI_INT, MPI_INT}, received_types[2] = {MPI_INT, MPI_INT};
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    received_types[1] = two;
    MPI_Neighbor_alltoallw(in, counts, bytes, sent_types, out, room, bytes, received_types, line);
    take(received);
    room[1] = 2;
    MPI_Ineighbor_alltoallv(in, counts, displacements, MPI_INT, out, room, displacements, MPI_INT, line, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    take(received);
    MPI_Type_free(&two);
  }
  MPI_Comm_free(&graph);
  MPI_Comm_free(&line);
  periods[0] = 0;  // the ends have one neighbour
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &line);
  MPI_Neighbor_allgather(in, 1, MPI_INT, out, 1, MPI_INT, line);
  take(rank == 0 ? 0 : 1);
  MPI_Comm_free(&line);
}

// What MPI refuses for its arguments, and says so, has not taken place: it is made once more, rightly.
static void refused(void) {
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  for (int round = 0; round < 6; ++round) {
    const int root = round % size;
    fill(round);
    if (rank == root) require(MPI_Bcast(in, -1, MPI_INT, root, ring) != MPI_SUCCESS, "a count of -1 is taken");
    MPI_Bcast(in, 2, MPI_INT, root, ring);
    if (round % 3 == 0) require(MPI_Bcast(in, 2, MPI_INT, size, ring) != MPI_SUCCESS, "a root is taken that is none");
    MPI_Allreduce(in, out, 2, MPI_INT, MPI_SUM, ring);
    take(2);
  }
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"into_one_place", into_one_place},
      {"rooted", rooted},
      {"everybody", everybody},
      {"pairs", pairs},
      {"in_place", in_place},
      {"in_place_uneven", in_place_uneven},
      {"started", started},
      {"started_uneven", started_uneven},
      {"refused", refused},
      {"nonblocking", nonblocking},
      {"zero_counts", zero_counts},
      {"operators", operators},
      {"neighbours", neighbours},
  };
  return RUN_CLEAN(argc, argv, cases, MPI_THREAD_SINGLE);
}
