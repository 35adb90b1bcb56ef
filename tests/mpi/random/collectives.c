// Collectives, blocking and (with a slot `as`) not. Rank i contributes the sequence that begins with v + 1000 i.
#include <stdlib.h>
#include <string.h>

#include "player.h"

// A call that has a slot begins only; one that has none is done when it comes back.
#define COLLECTIVE(call, blocking, starting, ...)              \
  do {                                                         \
    if (has((call)->op, "as")) {                               \
      AT((call)->op, starting(__VA_ARGS__, &(call)->request)); \
    } else {                                                   \
      AT((call)->op, blocking(__VA_ARGS__));                   \
    }                                                          \
  } while (0)

static int me(const Call* call) {
  int rank;
  MPI_Comm_rank(communicator(call->op), &rank);
  return rank;
}

static int size_of(const Call* call) {
  int size;
  MPI_Comm_size(communicator(call->op), &size);
  return size;
}

static int root(const Call* call) { return number(call->op, "root", 0); }
static int is_root(const Call* call) { return me(call) == number(call->op, "root", 0); }
static int count(const Call* call) { return number(call->op, "n", 1); }
static int value(const Call* call, int rank) { return number(call->op, "v", 0) + 1000 * rank; }
static int sent_type(const Call* call) { return type_of(call->op, "t"); }

// The receiving side may describe the same values by another type, of which it needs `rn`.
static int received_type(const Call* call) { return type_of(call->op, has(call->op, "rt") ? "rt" : "t"); }
static int received_count(const Call* call) { return number(call->op, "rn", count(call)); }

// Of v- and w-variants: what rank i gives, or gets. `bad`: this rank has another idea of one of them.
typedef struct {
  int counts[kMostRanks], places[kMostRanks], bytes[kMostRanks], total;
  MPI_Datatype types[kMostRanks];
} Amounts;

static int uneven(const Call* call, int rank) { return count(call) + rank % 3; }

static Amounts amounts(const Call* call, int same) {
  Amounts all = {.total = 0};
  for (int i = 0; i < size_of(call); ++i) {
    all.counts[i] = uneven(call, same >= 0 ? same : i) + (number(call->op, "bad", -1) == i);
    all.places[i] = all.total;
    all.types[i] = handle(sent_type(call));
    all.bytes[i] = (int)(at((Buffer){NULL, sent_type(call), 0}, all.total) - (char*)NULL);
    all.total += all.counts[i] + 1;  // a gap
  }
  return all;
}

// Non-blocking calls read these until they are done.
static Amounts* kept(Amounts amounts) {
  Amounts* copy = malloc(sizeof *copy);
  *copy = amounts;
  return copy;
}

static void give(Call* call, int elements) { call->out = filled(sent_type(call), elements, value(call, me(call))); }

static void barrier(Call* call) { COLLECTIVE(call, MPI_Barrier, MPI_Ibarrier, communicator(call->op)); }

static void bcast(Call* call) {
  call->in = make(sent_type(call), count(call));
  if (is_root(call)) fill(call->in, 0, count(call), value(call, root(call)));
  COLLECTIVE(call, MPI_Bcast, MPI_Ibcast, call->in.data, count(call), handle(call->in.type), root(call),
             communicator(call->op));
}

static void bcast_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect(call->op, call->in, 0, call->in.elements, value(call, root(call)));
}

// What is to be reduced: in its own buffer, or where the result will be.
static const void* reduced(Call* call, int elements, int in_place_too) {
  give(call, elements);
  call->in = make(sent_type(call), elements);
  if (!has(call->op, "place") || !in_place_too) return call->out.data;
  fill(call->in, 0, elements, value(call, me(call)));
  return MPI_IN_PLACE;
}

static void reduce(Call* call) {
  const void* from = reduced(call, count(call), is_root(call));
  COLLECTIVE(call, MPI_Reduce, MPI_Ireduce, from, call->in.data, count(call), handle(call->in.type),
             operator_of(call->op), root(call), communicator(call->op));
}

static void reduce_done(Call* call, const MPI_Status* status) {
  (void)status;
  if (is_root(call)) expect_reduced(call->op, call->in, count(call), 0, size_of(call));
}

static void allreduce(Call* call) {
  const void* from = reduced(call, count(call), 1);
  COLLECTIVE(call, MPI_Allreduce, MPI_Iallreduce, from, call->in.data, count(call), handle(call->in.type),
             operator_of(call->op), communicator(call->op));
}

static void allreduce_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect_reduced(call->op, call->in, count(call), 0, size_of(call));
}

static void scan(Call* call) {
  const void* from = reduced(call, count(call), 1);
  COLLECTIVE(call, MPI_Scan, MPI_Iscan, from, call->in.data, count(call), handle(call->in.type), operator_of(call->op),
             communicator(call->op));
}

static void scan_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect_reduced(call->op, call->in, count(call), 0, me(call) + 1);
}

static void exscan(Call* call) {
  const void* from = reduced(call, count(call), 0);
  COLLECTIVE(call, MPI_Exscan, MPI_Iexscan, from, call->in.data, count(call), handle(call->in.type),
             operator_of(call->op), communicator(call->op));
}

static void exscan_done(Call* call, const MPI_Status* status) {
  (void)status;
  if (me(call) > 0) expect_reduced(call->op, call->in, count(call), 0, me(call));
}

static void reduce_scatter_block(Call* call) {
  const void* from = reduced(call, count(call) * size_of(call), 0);
  COLLECTIVE(call, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, from, call->in.data, count(call),
             handle(call->in.type), operator_of(call->op), communicator(call->op));
}

static void reduce_scatter_block_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect_reduced(call->op, call->in, count(call), me(call) * count(call), size_of(call));
}

static int before(const Call* call, int rank) {
  int sum = 0;
  for (int i = 0; i < rank; ++i) sum += uneven(call, i);
  return sum;
}

static void reduce_scatter(Call* call) {
  Amounts* all = kept(amounts(call, -1));
  const void* from = reduced(call, before(call, size_of(call)), 0);
  COLLECTIVE(call, MPI_Reduce_scatter, MPI_Ireduce_scatter, from, call->in.data, all->counts, handle(call->in.type),
             operator_of(call->op), communicator(call->op));
}

static void reduce_scatter_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect_reduced(call->op, call->in, uneven(call, me(call)), before(call, me(call)), size_of(call));
}

static void expect_blocks(Call* call) {
  for (int i = 0; i < size_of(call); ++i)
    expect(call->op, call->in, i * received_count(call), received_count(call), value(call, i));
}

static void expect_uneven(Call* call) {
  Amounts all = amounts(call, -1);
  for (int i = 0; i < size_of(call); ++i) expect(call->op, call->in, all.places[i], uneven(call, i), value(call, i));
}

static void gather(Call* call) {
  give(call, count(call));
  call->in = make(received_type(call), received_count(call) * size_of(call));
  COLLECTIVE(call, MPI_Gather, MPI_Igather, call->out.data, count(call), handle(call->out.type), call->in.data,
             received_count(call), handle(call->in.type), root(call), communicator(call->op));
}

static void gather_done(Call* call, const MPI_Status* status) {
  (void)status;
  if (is_root(call)) expect_blocks(call);
}

static void allgather(Call* call) {
  const void* from;
  give(call, count(call));
  call->in = make(received_type(call), received_count(call) * size_of(call));
  from = call->out.data;
  if (has(call->op, "place")) {
    from = MPI_IN_PLACE;
    fill(call->in, me(call) * received_count(call), received_count(call), value(call, me(call)));
  }
  COLLECTIVE(call, MPI_Allgather, MPI_Iallgather, from, count(call), handle(call->out.type), call->in.data,
             received_count(call), handle(call->in.type), communicator(call->op));
}

static void allgather_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect_blocks(call);
}

static void gatherv(Call* call) {
  Amounts* all = kept(amounts(call, -1));
  give(call, uneven(call, me(call)));
  call->in = make(sent_type(call), all->total);
  COLLECTIVE(call, MPI_Gatherv, MPI_Igatherv, call->out.data, call->out.elements, handle(call->out.type), call->in.data,
             all->counts, all->places, handle(call->in.type), root(call), communicator(call->op));
}

static void gatherv_done(Call* call, const MPI_Status* status) {
  (void)status;
  if (is_root(call)) expect_uneven(call);
}

static void allgatherv(Call* call) {
  Amounts* all = kept(amounts(call, -1));
  give(call, uneven(call, me(call)));
  call->in = make(sent_type(call), all->total);
  COLLECTIVE(call, MPI_Allgatherv, MPI_Iallgatherv, call->out.data, call->out.elements, handle(call->out.type),
             call->in.data, all->counts, all->places, handle(call->in.type), communicator(call->op));
}

static void allgatherv_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect_uneven(call);
}

static void scatter(Call* call) {
  call->out = make(sent_type(call), count(call) * size_of(call));
  for (int i = 0; i < size_of(call); ++i) fill(call->out, i * count(call), count(call), value(call, i));
  call->in = make(received_type(call), received_count(call));
  COLLECTIVE(call, MPI_Scatter, MPI_Iscatter, call->out.data, count(call), handle(call->out.type), call->in.data,
             received_count(call), handle(call->in.type), root(call), communicator(call->op));
}

static void scatter_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect(call->op, call->in, 0, call->in.elements, value(call, me(call)));
}

static void scatterv(Call* call) {
  Amounts* all = kept(amounts(call, -1));
  call->out = make(sent_type(call), all->total);
  for (int i = 0; i < size_of(call); ++i) fill(call->out, all->places[i], all->counts[i], value(call, i));
  call->in = make(sent_type(call), uneven(call, me(call)));
  COLLECTIVE(call, MPI_Scatterv, MPI_Iscatterv, call->out.data, all->counts, all->places, handle(call->out.type),
             call->in.data, call->in.elements, handle(call->in.type), root(call), communicator(call->op));
}

static void alltoall(Call* call) {
  const int blocks = size_of(call);
  call->out = make(sent_type(call), count(call) * blocks);
  for (int i = 0; i < blocks; ++i) fill(call->out, i * count(call), count(call), value(call, me(call)));
  call->in = make(received_type(call), received_count(call) * blocks);
  COLLECTIVE(call, MPI_Alltoall, MPI_Ialltoall, call->out.data, count(call), handle(call->out.type), call->in.data,
             received_count(call), handle(call->in.type), communicator(call->op));
}

// What goes from one rank to another depends on the receiver: so much all get of me, and I of everybody my own amount.
static void uneven_exchange(Call* call, Amounts** sent, Amounts** received) {
  *sent = kept(amounts(call, -1));
  *received = kept(amounts(call, me(call)));
  call->out = make(sent_type(call), (*sent)->total);
  for (int i = 0; i < size_of(call); ++i)
    fill(call->out, (*sent)->places[i], (*sent)->counts[i], value(call, me(call)));
  call->in = make(sent_type(call), (*received)->total);
}

static void alltoallv(Call* call) {
  Amounts *sent, *received;
  uneven_exchange(call, &sent, &received);
  COLLECTIVE(call, MPI_Alltoallv, MPI_Ialltoallv, call->out.data, sent->counts, sent->places, handle(call->out.type),
             call->in.data, received->counts, received->places, handle(call->in.type), communicator(call->op));
}

static void alltoallw(Call* call) {
  Amounts *sent, *received;
  uneven_exchange(call, &sent, &received);
  COLLECTIVE(call, MPI_Alltoallw, MPI_Ialltoallw, call->out.data, sent->counts, sent->bytes, sent->types, call->in.data,
             received->counts, received->bytes, received->types, communicator(call->op));
}

static void alltoallv_done(Call* call, const MPI_Status* status) {
  (void)status;
  Amounts received = amounts(call, me(call));
  for (int i = 0; i < size_of(call); ++i)
    expect(call->op, call->in, received.places[i], uneven(call, me(call)), value(call, i));
}

// Neighbours on a grid: of each dimension the one before and the one after.
static int neighbours(const Call* call, int* ranks) {
  int dimensions;
  MPI_Cartdim_get(communicator(call->op), &dimensions);
  for (int i = 0; i < dimensions; ++i) MPI_Cart_shift(communicator(call->op), i, 1, &ranks[2 * i], &ranks[2 * i + 1]);
  return 2 * dimensions;
}

static void neighbour_exchange(Call* call, int blocks_sent) {
  int ranks[2 * kMostDimensions], blocks = neighbours(call, ranks);
  call->out = make(sent_type(call), count(call) * blocks);
  for (int i = 0; i < (blocks_sent ? blocks : 1); ++i)
    fill(call->out, i * count(call), count(call), value(call, me(call)));
  call->in = make(sent_type(call), count(call) * blocks);
}

static void neighbour_allgather(Call* call) {
  neighbour_exchange(call, 0);
  COLLECTIVE(call, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, call->out.data, count(call), handle(call->out.type),
             call->in.data, count(call), handle(call->in.type), communicator(call->op));
}

static void neighbour_alltoall(Call* call) {
  neighbour_exchange(call, 1);
  COLLECTIVE(call, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, call->out.data, count(call), handle(call->out.type),
             call->in.data, count(call), handle(call->in.type), communicator(call->op));
}

static void neighbours_done(Call* call, const MPI_Status* status) {
  int ranks[2 * kMostDimensions], blocks = neighbours(call, ranks);
  (void)status;
  for (int i = 0; i < blocks; ++i) {
    if (ranks[i] != MPI_PROC_NULL) expect(call->op, call->in, i * count(call), count(call), value(call, ranks[i]));
  }
}

static void alltoall_done(Call* call, const MPI_Status* status) {
  (void)status;
  expect_blocks(call);
}

const Verb kCollectiveVerbs[] = {
    {"barrier", barrier, NULL},
    {"bcast", bcast, bcast_done},
    {"reduce", reduce, reduce_done},
    {"allreduce", allreduce, allreduce_done},
    {"scan", scan, scan_done},
    {"exscan", exscan, exscan_done},
    {"reduce_scatter_block", reduce_scatter_block, reduce_scatter_block_done},
    {"reduce_scatter", reduce_scatter, reduce_scatter_done},
    {"gather", gather, gather_done},
    {"gatherv", gatherv, gatherv_done},
    {"allgather", allgather, allgather_done},
    {"allgatherv", allgatherv, allgatherv_done},
    {"scatter", scatter, scatter_done},
    {"scatterv", scatterv, scatter_done},
    {"alltoall", alltoall, alltoall_done},
    {"alltoallv", alltoallv, alltoallv_done},
    {"alltoallw", alltoallw, alltoallv_done},
    {"neighbour_allgather", neighbour_allgather, neighbours_done},
    {"neighbour_alltoall", neighbour_alltoall, neighbours_done},
    {NULL, NULL, NULL},
};
