// Windows as they should be used: every sort of epoch, and accesses that do not contradict one another.
#include "common.h"

enum { kMost = 64 };
static long memory[kMost], mine[kMost];
static MPI_Win window;

static void make(void) {
  for (int i = 0; i < kMost; ++i) memory[i] = mine[i] = 0;
  MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, ring, &window);
}

static long at(int place) {  // of the own memory, in an epoch of locks
  long word;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
  word = memory[place];
  MPI_Win_unlock(rank, window);
  return word;
}

static void fences(void) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  make();
  MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
  for (int round = 0; round < 5; ++round) {
    mine[0] = 100 * round + rank;
    for (int to = 0; to < size; ++to) MPI_Put(mine, 1, MPI_LONG, to, rank, 1, MPI_LONG, window);
    MPI_Put(mine, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int from = 0; from < size; ++from) require(memory[from] == 100 * round + from, "what was put");
    MPI_Win_fence(0, window);
    MPI_Get(&mine[1], 1, MPI_LONG, right, left, 1, MPI_LONG, window);
    MPI_Get(&mine[2], 1, MPI_LONG, right, left, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    require(mine[1] == 100 * round + left && mine[2] == mine[1], "what was got");
    fold(mine[1]);
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window);
  MPI_Get(&mine[3], 1, MPI_LONG, right, 0, 1, MPI_LONG, window);
  MPI_Win_unlock(right, window);
  fold(mine[3]);
  MPI_Win_free(&window);
}

static void unused_fences(void) {  // an epoch in which nothing is accessed is none
  make();
  MPI_Win_fence(0, window);
  for (int round = 0; round < 3; ++round) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % size, 0, window);
    mine[0] = rank + round;
    MPI_Put(mine, 1, MPI_LONG, (rank + 1) % size, 0, 1, MPI_LONG, window);
    MPI_Win_unlock((rank + 1) % size, window);
    MPI_Win_fence(0, window);
  }
  fold(at(0));
  MPI_Win_free(&window);
}

static void accumulates(void) {
  make();
  MPI_Win_fence(0, window);
  mine[0] = rank + 1;
  for (int to = 0; to < size; ++to)
    for (int i = 0; i < 50; ++i) MPI_Accumulate(mine, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, window);
  MPI_Accumulate(mine, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_MAX, window);
  MPI_Win_fence(0, window);
  require(memory[0] == 50 * size * (size + 1) / 2, "the sum");
  require(rank || memory[1] == size, "the maximum");
  fold(memory[0] + memory[1]);
  MPI_Win_fence(0, window);
  long seen[2] = {0, 0};
  MPI_Get_accumulate(mine, 1, MPI_LONG, &seen[0], 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_SUM, window);
  MPI_Get_accumulate(NULL, 0, MPI_LONG, &seen[1], 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_NO_OP, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  fold(seen[1]);
  fold(at(2));
  MPI_Win_free(&window);
}

static void locks(void) {
  long word;
  make();
  for (int i = 0; i < 20; ++i) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Get(&word, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_flush(0, window);
    ++word;
    MPI_Put(&word, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
  }
  for (int to = 0; to < size; ++to) MPI_Win_lock(MPI_LOCK_SHARED, to, to % 2 ? MPI_MODE_NOCHECK : 0, window);
  for (int to = size - 1; to >= 0; --to) {
    mine[1] = rank;
    MPI_Put(&mine[1], 1, MPI_LONG, to, 1 + rank, 1, MPI_LONG, window);
    MPI_Win_flush(to, window);
    MPI_Put(&mine[1], 1, MPI_LONG, to, 1 + rank, 1, MPI_LONG, window);  // after the flush
    MPI_Win_unlock(to, window);
  }
  MPI_Barrier(ring);
  for (int from = 0; from < size; ++from) fold(at(1 + from));
  if (rank == 0) require(at(0) == 20 * size, "the counter");
  fold(rank == 0 ? at(0) : 0);
  MPI_Win_free(&window);
}

static void counters(void) {
  long one = 1, seen = 0, last = -1;
  make();
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < 20; ++i) {
    MPI_Fetch_and_op(&one, &seen, MPI_LONG, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
    require(seen > last, "a counter that grows");
    last = seen;
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(ring);
  if (rank == 0) require(at(0) == 20 * size, "the counter");
  MPI_Win_free(&window);
}

static void own_lock(void) {  // made of atomic accesses
  long one = 1, seen = 0, free_word = 0;
  make();
  MPI_Win_lock_all(0, window);
  for (long taken = 0, holder = rank + 1; !taken;) {
    MPI_Compare_and_swap(&holder, &free_word, &seen, MPI_LONG, 0, 1, window);
    MPI_Win_flush(0, window);
    taken = seen == 0;
    if (!taken) continue;
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_flush(0, window);
    MPI_Accumulate(&free_word, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_REPLACE, window);
    MPI_Win_flush(0, window);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(ring);
  if (rank == 0) require(at(2) == size, "each in its turn");
  MPI_Win_free(&window);
}

static void flushes(void) {  // the place of a put is got, and put again, after a flush and a barrier
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  make();
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  for (int round = 0; round < 5; ++round) {
    mine[0] = 10 * round + rank;
    MPI_Put(mine, 1, MPI_LONG, right, 0, 1, MPI_LONG, window);
    MPI_Win_flush_local(right, window);
    mine[0] = -1;
    MPI_Win_flush(right, window);
    MPI_Barrier(ring);
    MPI_Get(&mine[1], 1, MPI_LONG, rank, 0, 1, MPI_LONG, window);
    MPI_Win_flush_local_all(window);
    require(mine[1] == 10 * round + left, "the neighbour's");
    MPI_Barrier(ring);
    mine[2] = mine[1];
    MPI_Put(&mine[2], 1, MPI_LONG, left, 0, 1, MPI_LONG, window);  // by the other neighbour
    MPI_Win_flush_all(window);
    MPI_Win_sync(window);
    MPI_Barrier(ring);
    fold(mine[1]);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

// Both neighbours put into one epoch, each to a place of its own.
static void halo(void) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size, both[] = {left, right};
  MPI_Group neighbours = group_of(left == right ? 1 : 2, both);
  make();
  for (int round = 0; round < 5; ++round) {
    MPI_Win_post(neighbours, 0, window);
    MPI_Win_start(neighbours, 0, window);
    mine[0] = 10 * round + rank;
    MPI_Put(mine, 1, MPI_LONG, right, 0, 1, MPI_LONG, window);
    MPI_Put(mine, 1, MPI_LONG, left, 1, 1, MPI_LONG, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    require(memory[0] == 10 * round + left && memory[1] == 10 * round + right, "the neighbours'");
    fold(memory[0] + memory[1]);
  }
  MPI_Group_free(&neighbours);
  MPI_Win_free(&window);
}

// All put to the same place of rank 0, in epochs of their own.
static void in_turns(void) {
  const int first = 0;
  make();
  if (rank == 0) {
    for (int origin = 1; origin < size; ++origin) {
      MPI_Group one = group_of(1, &origin);
      MPI_Win_post(one, 0, window);
      MPI_Win_wait(window);
      MPI_Group_free(&one);
      require(memory[2] == origin, "the one whose turn it was");
      fold(memory[2]);
    }
  } else {
    MPI_Group target = group_of(1, &first);
    MPI_Win_start(target, 0, window);
    mine[0] = rank;
    MPI_Put(mine, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
    MPI_Win_complete(window);
    MPI_Group_free(&target);
  }
  MPI_Win_free(&window);
}

static void groups(void) {
  int right = (rank + 1) % size, left = (rank + size - 1) % size, flag = 0;
  MPI_Group before = group_of(1, &left), after = group_of(1, &right);
  make();
  for (int round = 0; round < 5; ++round) {
    MPI_Win_post(before, 0, window);
    MPI_Win_start(after, 0, window);
    mine[0] = 10 * round + rank;
    MPI_Put(mine, 1, MPI_LONG, right, 0, 1, MPI_LONG, window);
    MPI_Win_complete(window);
    if (round % 2)
      MPI_Win_wait(window);
    else
      while (!flag) MPI_Win_test(window, &flag);
    flag = 0;
    require(memory[0] == 10 * round + left, "the neighbour's");
    fold(memory[0]);
  }
  MPI_Group_free(&before);
  MPI_Group_free(&after);
  MPI_Win_free(&window);
}

static void requests(void) {
  int right = (rank + 1) % size;
  MPI_Request all[3];
  long old = -1;
  make();
  MPI_Win_lock_all(0, window);
  mine[0] = rank + 7;
  MPI_Rput(&mine[0], 1, MPI_LONG, right, 0, 1, MPI_LONG, window, &all[0]);
  MPI_Raccumulate(&mine[0], 1, MPI_LONG, right, 1, 1, MPI_LONG, MPI_SUM, window, &all[1]);
  MPI_Rget_accumulate(&mine[0], 1, MPI_LONG, &old, 1, MPI_LONG, right, 2, 1, MPI_LONG, MPI_SUM, window, &all[2]);
  MPI_Waitall(3, all, MPI_STATUSES_IGNORE);
  MPI_Win_flush(right, window);
  MPI_Rget(&mine[1], 3, MPI_LONG, right, 0, 3, MPI_LONG, window, &all[0]);
  MPI_Wait(&all[0], MPI_STATUS_IGNORE);
  MPI_Put(&mine[0], 1, MPI_LONG, right, 0, 1, MPI_LONG, window);  // the get is over
  MPI_Win_unlock_all(window);
  for (int i = 0; i < 3; ++i) require(mine[1 + i] == rank + 7, "what was put, added and added");
  fold(old + mine[1]);
  MPI_Win_free(&window);
}

static void shared(void) {
  MPI_Comm node;
  MPI_Aint bytes;
  int unit, node_rank, node_size;
  long *base, *theirs;
  MPI_Comm_split_type(ring, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &node_rank);
  MPI_Comm_size(node, &node_size);
  MPI_Win_allocate_shared(4 * sizeof *base, sizeof *base, MPI_INFO_NULL, node, &base, &window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  base[0] = node_rank + 3;
  MPI_Win_sync(window);
  MPI_Barrier(node);
  MPI_Win_sync(window);
  MPI_Win_shared_query(window, (node_rank + 1) % node_size, &bytes, &unit, &theirs);
  require(theirs[0] == (node_rank + 1) % node_size + 3, "the neighbour's");
  fold(theirs[0]);
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Comm_free(&node);
}

static void dynamic(void) {
  MPI_Aint here, there;
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Win_create_dynamic(MPI_INFO_NULL, ring, &window);
  MPI_Win_attach(window, memory, sizeof memory);
  MPI_Get_address(memory, &here);
  MPI_Sendrecv(&here, 1, MPI_AINT, left, 70, &there, 1, MPI_AINT, right, 70, ring, MPI_STATUS_IGNORE);
  mine[0] = rank + 5;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, window);
  MPI_Put(mine, 1, MPI_LONG, right, there, 1, MPI_LONG, window);
  MPI_Win_unlock(right, window);
  MPI_Barrier(ring);
  require(at(0) == left + 5, "the neighbour's");
  fold(left);
  MPI_Barrier(ring);
  MPI_Win_detach(window, memory);
  MPI_Win_free(&window);
}

static void many(void) {  // handles come again; two windows of one number at once are too much for Open MPI 4.1.4
  for (int i = 0; i < 30; ++i) {
    long* base;
    if (i % 3)
      MPI_Win_allocate((i + 1) * (MPI_Aint)sizeof *base, sizeof *base, MPI_INFO_NULL, ring, &base, &window);
    else
      MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, ring, &window);
    MPI_Win_fence(0, window);
    mine[0] = i;
    const int puts = rank == 0;  // the others nothing
    MPI_Put(mine, puts, MPI_LONG, 0, 0, puts, MPI_LONG, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
  }
}

static void again(void) {  // as benchmarks do: one line puts the same to the same place before anything completes it
  int right = (rank + 1) % size;
  make();
  mine[0] = rank + 1;
  MPI_Win_fence(0, window);
  for (int i = 0; i < 20; ++i) MPI_Put(mine, 1, MPI_LONG, right, 3, 1, MPI_LONG, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  require(memory[3] == (rank + size - 1) % size + 1, "what was put");
  MPI_Win_lock_all(0, window);
  for (int i = 0; i < 20; ++i) MPI_Put(mine, 1, MPI_LONG, right, 4, 1, MPI_LONG, window);
  MPI_Win_unlock_all(window);
  MPI_Barrier(ring);
  fold(at(4));
  MPI_Win_free(&window);
}

static void columns(void) {  // of all ranks in turn: each has its own words between those of the others
  MPI_Datatype column;
  make();
  MPI_Type_vector(kMost / 8, 1, 8, MPI_LONG, &column);
  MPI_Type_commit(&column);
  for (int i = 0; i < kMost / 8; ++i) mine[i] = 100 * rank + i;
  MPI_Win_fence(0, window);
  if (rank < 8) MPI_Put(mine, kMost / 8, MPI_LONG, 0, rank, 1, column, window);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  if (rank == 0)
    for (int i = 0; i < kMost; ++i) require(memory[i] == (i % 8 < size ? 100 * (i % 8) + i / 8 : 0), "the columns");
  MPI_Type_free(&column);
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"fences", fences},
      {"unused_fences", unused_fences},
      {"accumulates", accumulates},
      {"locks", locks},
      {"counters", counters},
      {"own_lock", own_lock},
      {"flushes", flushes},
      {"groups", groups},
      {"halo", halo},
      {"in_turns", in_turns},
      {"requests", requests},
      {"shared", shared},
      {"dynamic", dynamic},
      {"many", many},
      {"columns", columns},
      {"again", again},
  };
  return RUN_CLEAN(argc, argv, cases, MPI_THREAD_SINGLE);
}
