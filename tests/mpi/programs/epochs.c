// Epochs that a partner never opens or never closes, and locks that somebody waits for who cannot get them.
#include "common.h"

enum { kWords = 8 };
static int memory[kWords], mine[kWords];
static MPI_Win window;

static void make(void) {
  for (int i = 0; i < kWords; ++i) memory[i] = mine[i] = rank;
  MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, ring, &window);
}

static void put(int target, int at, int count) { MPI_Put(mine, count, MPI_INT, target, at, count, MPI_INT, window); }

static void start(int target) {
  MPI_Group group = group_of(1, &target);
  MPI_Win_start(group, 0, window);
  MPI_Group_free(&group);
}

static void post(int count, const int* origins) {
  MPI_Group group = group_of(count, origins);
  MPI_Win_post(group, 0, window);
  MPI_Group_free(&group);
}

static void access_partner(void) {
  planted();
  start(partner);
  put(partner, 0, 1);
  MPI_Win_complete(window);
}

static void start_without_post(void) {
  make();
  if (rank == odd) access_partner();
  MPI_Win_free(&window);
}

static void started_once_more(void) {
  make();
  for (int round = 0; round < 3; ++round) {
    if (rank == odd) {
      start(partner);
      put(partner, 0, 1);
      MPI_Win_complete(window);
    } else if (rank == partner) {
      post(1, &odd);
      MPI_Win_wait(window);
    }
  }
  if (rank == odd) access_partner();
  MPI_Win_free(&window);
}

static void start_at_the_end(void) {
  make();
  if (rank == odd) access_partner();
  finish();
}

static void post_without_start(void) {
  make();
  if (rank == odd) {
    planted();
    post(1, &partner);
    MPI_Win_wait(window);
  }
  MPI_Win_free(&window);
}

static void waits_before_starts(void) {
  make();
  if (rank == odd || rank == partner) {
    const int other = rank == odd ? partner : odd;
    if (rank == odd) planted();
    post(1, &other);
    MPI_Win_wait(window);
    start(other);
    MPI_Win_complete(window);
  }
  MPI_Win_free(&window);
}

static void never_completed(void) {
  make();
  if (rank == odd) {
    start(partner);
    planted();
  } else if (rank == partner) {
    post(1, &odd);
    MPI_Win_wait(window);
  }
  MPI_Win_free(&window);
}

static void posted_asleep(void) {
  make();
  if (rank == odd) {
    planted();
    asleep();
    post(1, &partner);
    MPI_Win_wait(window);
  } else if (rank == partner) {
    start(odd);
    put(odd, 0, 1);
    MPI_Win_complete(window);
  }
  MPI_Win_free(&window);
}

static void locked_over_a_barrier(void) {
  make();
  if (rank == odd) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    put(0, 0, 1);
    MPI_Win_flush(0, window);
    MPI_Send(mine, 1, MPI_INT, partner, 61, ring);
    planted();
    MPI_Barrier(ring);
    MPI_Win_unlock(0, window);
  } else {
    if (rank == partner) {
      MPI_Recv(mine, 1, MPI_INT, odd, 61, ring, MPI_STATUS_IGNORE);
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
      put(0, 0, 1);
      MPI_Win_unlock(0, window);
    }
    MPI_Barrier(ring);
  }
  MPI_Win_free(&window);
}

// Two origins in one epoch of their target.
static void two_origins(void) {
  const int target = size - 1, origins[] = {odd, partner};
  make();
  if (rank == target) {
    post(2, origins);
    MPI_Win_wait(window);
  } else if (rank == odd || rank == partner) {
    start(target);
    if (rank == odd) planted();
    put(target, rank == odd ? 1 : 2, 2);
    MPI_Win_complete(window);
  }
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"start_without_post", start_without_post},
      {"started_once_more", started_once_more},
      {"start_at_the_end", start_at_the_end},
      {"post_without_start", post_without_start},
      {"waits_before_starts", waits_before_starts},
      {"never_completed", never_completed},
      {"posted_asleep", posted_asleep},
      {"locked_over_a_barrier", locked_over_a_barrier},
      {"two_origins", two_origins},
  };
  return RUN_FAULTY(argc, argv, cases);
}
