// Collectives that one rank calls otherwise than the others. The correct iterations go on behind each fault.
#include "common.h"

enum { kCount = 8, kMost = 16 * kCount };

static int in[kMost], out[kMost];
static int counts[kMost], places[kMost];

static void even_counts(int each) {
  for (int i = 0; i < size; ++i) {
    counts[i] = each;
    places[i] = i * each;
  }
}

static int at_fault(void) {
  if (rank != odd) return 0;
  planted();
  return 1;
}

// ---- the order -----------------------------------------------------------------------------------------------------

static void missing(void) {
  if (at_fault()) asleep();
  MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void skipped(void) {  // the next collective of the same communicator meets the one left out
  if (!at_fault()) MPI_Reduce(in, out, kCount, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void one_round_less(void) {  // all calls look alike until the others are one behind
  int rounds = 6 - at_fault();
  for (int i = 0; i < rounds; ++i) MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void last_skipped(void) {  // a leaf of the tree: nobody waits for it
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  if (!at_fault()) MPI_Bcast(in, 1, MPI_INT, (odd + 1) % size, own);
  MPI_Comm_free(&own);
}

static void one_more_at_the_end(void) {  // its root does not wait for anybody
  if (at_fault()) MPI_Bcast(in, 1, MPI_INT, odd, ring);
  finish();
}

static void left_for_finalize(void) {
  if (at_fault()) finish();
  MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
}

static void order_swap(void) {
  if (at_fault()) {
    MPI_Reduce(in, out, kCount, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Bcast(in, kCount, MPI_INT, 0, MPI_COMM_WORLD);
  } else {
    MPI_Bcast(in, kCount, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Reduce(in, out, kCount, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  }
}

static void allreduce_reduce(void) {
  if (at_fault()) {
    MPI_Reduce(in, out, kCount, MPI_INT, MPI_SUM, 0, ring);
  } else {
    MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, ring);
  }
}

static void barrier_bcast(void) {
  if (at_fault()) {
    MPI_Barrier(ring);
  } else {
    MPI_Bcast(in, kCount, MPI_INT, 0, ring);
  }
}

static void scan_exscan(void) {
  if (at_fault()) {
    MPI_Exscan(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  } else {
    MPI_Scan(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
}

static void ireduce_reduce(void) {  // MPI-3.1, 5.12: blocking and non-blocking collectives never match
  MPI_Request request = MPI_REQUEST_NULL;
  if (at_fault()) {
    MPI_Reduce(in, out, kCount, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  } else {
    MPI_Ireduce(in, out, kCount, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, &request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void nonblocking_order(void) {
  static int word[kCount];
  MPI_Request requests[2];
  if (at_fault()) {
    MPI_Iallreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibcast(word, kCount, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]);
  } else {
    MPI_Ibcast(word, kCount, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(in, out, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void two_communicators(void) {
  int faulty = at_fault();
  MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, faulty ? ring : MPI_COMM_WORLD);
  MPI_Allreduce(in, out, kCount, MPI_INT, MPI_SUM, faulty ? MPI_COMM_WORLD : ring);
}

static void duplicate(void) {  // on the duplicate once, and from then on in step with nobody
  MPI_Barrier(at_fault() ? ring : MPI_COMM_WORLD);
}

// ---- the arguments -------------------------------------------------------------------------------------------------

static void bcast_root(void) { MPI_Bcast(in, kCount, MPI_INT, at_fault() ? odd : 0, MPI_COMM_WORLD); }

static void reduce_root(void) { MPI_Reduce(in, out, kCount, MPI_INT, MPI_SUM, at_fault() ? odd : 0, ring); }

static void reduction(void) { MPI_Allreduce(in, out, kCount, MPI_INT, at_fault() ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD); }

static void allreduce_count(void) {
  MPI_Allreduce(in, out, at_fault() ? kCount / 2 : kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast_count(void) { MPI_Bcast(in, at_fault() ? kCount + 2 : kCount, MPI_INT, 0, MPI_COMM_WORLD); }

static void zero_count(void) { MPI_Allreduce(in, out, at_fault() ? 0 : kCount, MPI_INT, MPI_SUM, ring); }

static void datatype(void) {
  MPI_Allreduce(in, out, kCount, at_fault() ? MPI_FLOAT : MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast_signature(void) {  // as many bytes, in another signature
  if (at_fault()) {
    MPI_Bcast(in, kCount / 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  } else {
    MPI_Bcast(in, kCount, MPI_INT, 0, MPI_COMM_WORLD);
  }
}

static void gather_send_count(void) {
  MPI_Gather(in, at_fault() ? kCount - 1 : kCount, MPI_INT, out, kCount, MPI_INT, 0, MPI_COMM_WORLD);
}

static void gather_receive_count(void) {  // the root alone differs: everybody sends kCount - 1
  if (rank == 0) planted();
  MPI_Gather(rank == 0 ? MPI_IN_PLACE : (void*)in, kCount - 1, MPI_INT, out, kCount, MPI_INT, 0, MPI_COMM_WORLD);
}

static void gatherv_pair(void) {
  even_counts(kCount);
  int sent = at_fault() ? kCount - 3 : kCount;
  MPI_Gatherv(in, sent, MPI_INT, out, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
}

static void scatterv_pair(void) {
  even_counts(kCount);
  if (rank == 0) {
    planted();
    counts[odd] = kCount - 3;
  }
  MPI_Scatterv(in, counts, places, MPI_INT, out, kCount, MPI_INT, 0, MPI_COMM_WORLD);
}

static void allgatherv_pair(void) {  // the counts agree everywhere; one rank does not send its own
  even_counts(kCount);
  int sent = at_fault() ? kCount - 3 : kCount;
  MPI_Allgatherv(in, sent, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
}

static void alltoallv_pair(void) {
  int received[kMost];
  even_counts(kCount);
  memcpy(received, counts, sizeof received);
  if (at_fault()) counts[partner] = kCount - 3;
  MPI_Alltoallv(in, counts, places, MPI_INT, out, received, places, MPI_INT, MPI_COMM_WORLD);
}

static void gatherv_signature(void) {  // as many bytes, of another type
  even_counts(kCount);
  MPI_Gatherv(in, kCount, at_fault() ? MPI_FLOAT : MPI_INT, out, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
}

static void igatherv_pair(void) {  // on a duplicate, and the root is not rank 0 there
  MPI_Request request;
  even_counts(kCount);
  int sent = at_fault() ? kCount - 3 : kCount;
  MPI_Igatherv(in, sent, MPI_INT, out, counts, places, MPI_INT, partner, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void scatterv_root(void) {  // the root sends everybody less than it has room for
  even_counts(kCount - 1);
  if (rank == 0) planted();
  MPI_Scatterv(in, counts, places, MPI_INT, rank ? (void*)out : MPI_IN_PLACE, kCount, MPI_INT, 0, ring);
}

static void alltoallv_rank(void) {  // one against all others
  int received[kMost];
  even_counts(kCount);
  memcpy(received, counts, sizeof received);
  if (at_fault()) {
    for (int i = 0; i < size; ++i) counts[i] = i == rank ? kCount : kCount - 2;
  }
  MPI_Alltoallv(in, counts, places, MPI_INT, out, received, places, MPI_INT, MPI_COMM_WORLD);
}

static void alltoallw_pair(void) {
  int received[kMost], offsets[kMost];
  MPI_Datatype sent_as[16], received_as[16];
  even_counts(kCount);
  memcpy(received, counts, sizeof received);
  for (int i = 0; i < size; ++i) {
    offsets[i] = (int)sizeof(int) * places[i];
    sent_as[i] = received_as[i] = (rank + i) % 2 ? MPI_INT : MPI_FLOAT;
  }
  if (at_fault()) sent_as[partner] = MPI_FLOAT;  // the neighbours' numbers are odd together
  MPI_Alltoallw(in, counts, offsets, sent_as, out, received, offsets, received_as, MPI_COMM_WORLD);
}

static void ialltoallv_pair(void) {
  MPI_Request request;
  int received[kMost];
  even_counts(kCount);
  memcpy(received, counts, sizeof received);
  if (at_fault()) counts[partner] = kCount - 1;
  MPI_Ialltoallv(in, counts, places, MPI_INT, out, received, places, MPI_INT, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void gatherv_init_pair(void) {  // the second start of it is as wrong as the first
#if MPI_VERSION >= 4
  MPI_Request request;
  even_counts(kCount);
  int sent = at_fault() ? kCount - 3 : kCount;
  MPI_Gatherv_init(in, sent, MPI_INT, out, counts, places, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
#endif
}

// ---- neighbours

static MPI_Comm line(void) {  // closed to a ring
  int dims[1] = {size}, periods[1] = {1};
  MPI_Comm made;
  MPI_Cart_create(ring, 1, dims, periods, 0, &made);
  return made;
}

static MPI_Comm to_the_right(void) {
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Comm made;
  MPI_Dist_graph_create_adjacent(ring, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
  return made;
}

static void neighbour_count(void) {  // one that sends both of its neighbours less than they expect
  MPI_Comm among = line();
  MPI_Neighbor_allgather(in, at_fault() ? kCount - 1 : kCount, MPI_INT, out, kCount, MPI_INT, among);
  MPI_Comm_free(&among);
}

static void neighbour_pair(void) {
  MPI_Comm among = to_the_right();
  int received = kCount, zero = 0, sent = at_fault() ? kCount - 2 : kCount;
  MPI_Neighbor_alltoallv(in, &sent, &zero, MPI_INT, out, &received, &zero, MPI_INT, among);
  MPI_Comm_free(&among);
}

static void neighbour_edge(void) {  // its left neighbour sends to one that expects nothing from it
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Comm among;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, at_fault() ? 0 : 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &among);
  MPI_Neighbor_allgather(in, kCount, MPI_INT, out, kCount, MPI_INT, among);
  MPI_Comm_free(&among);
}

static void ineighbour_signature(void) {
  MPI_Comm among = line();
  MPI_Request request;
  MPI_Ineighbor_alltoall(in, 2, at_fault() ? MPI_FLOAT : MPI_INT, out, 2, MPI_INT, among, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&among);
}

static void neighbour_init_pair(void) {
#if MPI_VERSION >= 4
  MPI_Comm among = to_the_right();
  MPI_Request request;
  MPI_Neighbor_allgather_init(in, at_fault() ? kCount - 1 : kCount, MPI_INT, out, kCount, MPI_INT, among, MPI_INFO_NULL,
                              &request);
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  MPI_Comm_free(&among);
#endif
}

static void allreduce_init_count(void) {
#if MPI_VERSION >= 4
  MPI_Request request;
  MPI_Allreduce_init(in, out, at_fault() ? kCount - 1 : kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
#endif
}

// ---- between two groups, the even and the odd ranks
// ------------------------------------------------------------------

static MPI_Comm between(void) {
  MPI_Comm inter;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 40, &inter);
  return inter;
}

static void missing_between(void) {
  MPI_Comm inter = between();
  if (at_fault()) asleep();
  MPI_Barrier(inter);
  MPI_Comm_free(&inter);
}

static void order_between(void) {
  MPI_Comm inter = between();
  if (at_fault())
    MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, inter);
  else
    MPI_Barrier(inter);
  MPI_Comm_free(&inter);
}

// ---- the end -------------------------------------------------------------------------------------------------------

static void missing_at_the_end(void) {
  if (at_fault()) asleep();
  finish();
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"missing", missing},
      {"skipped", skipped},
      {"one_round_less", one_round_less},
      {"last_skipped", last_skipped},
      {"one_more_at_the_end", one_more_at_the_end},
      {"left_for_finalize", left_for_finalize},
      {"order_swap", order_swap},
      {"allreduce_reduce", allreduce_reduce},
      {"barrier_bcast", barrier_bcast},
      {"scan_exscan", scan_exscan},
      {"ireduce_reduce", ireduce_reduce},
      {"nonblocking_order", nonblocking_order},
      {"two_communicators", two_communicators},
      {"duplicate", duplicate},
      {"bcast_root", bcast_root},
      {"reduce_root", reduce_root},
      {"reduction", reduction},
      {"allreduce_count", allreduce_count},
      {"bcast_count", bcast_count},
      {"zero_count", zero_count},
      {"datatype", datatype},
      {"bcast_signature", bcast_signature},
      {"gather_send_count", gather_send_count},
      {"gather_receive_count", gather_receive_count},
      {"gatherv_pair", gatherv_pair},
      {"scatterv_pair", scatterv_pair},
      {"allgatherv_pair", allgatherv_pair},
      {"alltoallv_pair", alltoallv_pair},
      {"gatherv_signature", gatherv_signature},
      {"igatherv_pair", igatherv_pair},
      {"scatterv_root", scatterv_root},
      {"alltoallv_rank", alltoallv_rank},
      {"alltoallw_pair", alltoallw_pair},
      {"ialltoallv_pair", ialltoallv_pair},
      {"gatherv_init_pair", gatherv_init_pair},
      {"neighbour_count", neighbour_count},
      {"neighbour_pair", neighbour_pair},
      {"neighbour_edge", neighbour_edge},
      {"ineighbour_signature", ineighbour_signature},
      {"neighbour_init_pair", neighbour_init_pair},
      {"allreduce_init_count", allreduce_init_count},
      {"missing_between", missing_between},
      {"order_between", order_between},
      {"missing_at_the_end", missing_at_the_end},
  };
  return RUN_FAULTY(argc, argv, cases);
}
