// Accesses to windows outside of epochs, epochs out of order, and accesses that contradict one another.
#include "common.h"

enum { kWords = 8 };
static int memory[kWords], mine[kWords];
static MPI_Win window;

static void make(void) {
  for (int i = 0; i < kWords; ++i) memory[i] = mine[i] = rank;
  MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, ring, &window);
}

static void put(int target, int at, int count) { MPI_Put(mine, count, MPI_INT, target, at, count, MPI_INT, window); }
static void get(int target, int at, int count) { MPI_Get(mine, count, MPI_INT, target, at, count, MPI_INT, window); }

static void put_without_epoch(void) {
  make();
  if (rank == odd) {
    planted();
    put(partner, 0, 1);
  }
  MPI_Win_free(&window);
}

static void put_after_last_fence(void) {
  make();
  MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
  put((rank + 1) % size, 0, 1);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  if (rank == odd) {
    planted();
    put(partner, 1, 1);
  }
  MPI_Win_free(&window);
}

static void put_then_free(void) {
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    put(partner, 0, 1);
    planted();
  }
  MPI_Win_free(&window);
}

static void get_outside_start_group(void) {
  make();
  if (rank == odd) {
    MPI_Group group = group_of(1, &partner);
    MPI_Win_start(group, 0, window);
    planted();
    get(odd, 0, 1);
    MPI_Win_complete(window);
    MPI_Group_free(&group);
  } else if (rank == partner) {
    MPI_Group group = group_of(1, &odd);
    MPI_Win_post(group, 0, window);
    MPI_Win_wait(window);
    MPI_Group_free(&group);
  }
  MPI_Win_free(&window);
}

static void put_to_another_lock(void) {
  make();
  if (rank == odd) {
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    planted();
    put(odd, 0, 1);
    MPI_Win_unlock(partner, window);
  }
  MPI_Win_free(&window);
}

static void unlock_without_lock(void) {
  make();
  if (rank == odd) {
    planted();
    MPI_Win_unlock(partner, window);
  }
  MPI_Win_free(&window);
}

static void unlock_all_without_lock(void) {
  make();
  if (rank == odd) {
    planted();
    MPI_Win_unlock_all(window);
  }
  MPI_Win_free(&window);
}

static void lock_twice(void) {
  make();
  if (rank == odd) {
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    planted();
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    MPI_Win_unlock(partner, window);
  }
  MPI_Win_free(&window);
}

static void flush_without_lock(void) {
  make();
  if (rank == odd) {
    planted();
    MPI_Win_flush(partner, window);
  }
  MPI_Win_free(&window);
}

static void never_unlocked(void) {  // nor is the window freed
  make();
  if (rank == odd) {
    planted();
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    put(partner, 0, 1);
    MPI_Win_flush(partner, window);
  }
}

static void complete_without_start(void) {
  make();
  if (rank == odd) {
    planted();
    MPI_Win_complete(window);
  }
  MPI_Win_free(&window);
}

static void wait_without_post(void) {
  make();
  if (rank == odd) {
    planted();
    MPI_Win_wait(window);
  }
  MPI_Win_free(&window);
}

static void fence_while_locked(void) {
  make();
  if (rank == odd) {
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    planted();
  }
  MPI_Win_fence(0, window);
  if (rank == odd) MPI_Win_unlock(partner, window);
  MPI_Win_free(&window);
}

static void lock_in_fence_epoch(void) {
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    put(partner, 0, 1);
    planted();
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    MPI_Win_unlock(partner, window);
  }
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

static void free_in_epoch(void) {
  make();
  if (rank == odd) {
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    planted();
  }
  MPI_Win_free(&window);
}

static void request_in_fence_epoch(void) {
  MPI_Request request = MPI_REQUEST_NULL;
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    planted();
    MPI_Rput(mine, 1, MPI_INT, partner, 0, 1, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

static void missing_fence(void) {
  make();
  MPI_Win_fence(0, window);
  if (rank == odd)
    planted();
  else
    MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

static void asleep_before_fence(void) {
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    planted();
    asleep();
  }
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

static void missing_window(void) {
  if (rank == odd) {
    planted();
    asleep();
  }
  make();
  MPI_Win_free(&window);
}

static void freed_window(void) {
  make();
  MPI_Win copy = window;
  MPI_Win_free(&window);
  window = copy;
  if (rank == odd) {
    planted();
    put(partner, 0, 1);
  }
}

static void null_window(void) {
  window = MPI_WIN_NULL;
  if (rank == odd) {
    planted();
    put(partner, 0, 1);
  }
}

static void past_the_end(void) {  // what lies behind is `mine`
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    planted();
    put(partner, kWords - 2, 4);
  }
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

static void flush_of_another(void) {
  make();
  if (rank == odd) {
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    planted();
    MPI_Win_flush(odd, window);
    MPI_Win_unlock(partner, window);
  }
  MPI_Win_free(&window);
}

static void locked_against_its_info(void) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "no_locks", "true");
  MPI_Win_create(memory, sizeof memory, sizeof memory[0], info, ring, &window);
  MPI_Info_free(&info);
  if (rank == odd) {
    planted();
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    MPI_Win_unlock(partner, window);
  }
  MPI_Win_free(&window);
}

static void preceded(void) {
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    put(partner, 0, 1);
    planted();
  }
  MPI_Win_fence(rank == odd ? MPI_MODE_NOPRECEDE : 0, window);
  MPI_Win_free(&window);
}

static void target_out_of_range(void) {
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    planted();
    put(size, 0, 1);
  }
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

static void between_fences(void (*accesses)(void)) {
  make();
  MPI_Win_fence(0, window);
  if (rank == odd) planted();
  if (rank == odd || rank == partner) accesses();
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_free(&window);
}

static void two_puts(void) { put(0, rank == odd ? 1 : 2, 2); }
static void put_put_conflict(void) { between_fences(two_puts); }

static void put_and_get(void) { (rank == odd ? put : get)(0, 3, 1); }
static void put_get_conflict(void) { between_fences(put_and_get); }

static void put_and_accumulate(void) {
  if (rank == odd)
    put(0, 0, kWords);
  else
    MPI_Accumulate(mine, 1, MPI_INT, 0, kWords - 1, 1, MPI_INT, MPI_SUM, window);
}
static void accumulate_put_conflict(void) { between_fences(put_and_accumulate); }

static void two_accumulates(void) {
  MPI_Accumulate(mine, 1, MPI_INT, 0, 2, 1, MPI_INT, rank == odd ? MPI_SUM : MPI_MAX, window);
}
static void accumulate_operators(void) { between_fences(two_accumulates); }

static void puts_of_one(void) {
  if (rank != odd) return;
  put(partner, 0, 4);
  put(partner, 3, 2);
}
static void own_two_puts(void) { between_fences(puts_of_one); }

static void put_of_reals(void) {  // as many bytes
  if (rank != odd) return;
  planted();
  MPI_Put(mine, 2, MPI_INT, partner, 0, 2, MPI_FLOAT, window);
}
static void unlike_target(void) { between_fences(put_of_reals); }

static void own_put_and_get(void) {
  make();
  if (rank == odd) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, partner, 0, window);
    planted();
    MPI_Put(mine, 1, MPI_INT, partner, 5, 1, MPI_INT, window);
    MPI_Get(mine + 1, 1, MPI_INT, partner, 5, 1, MPI_INT, window);
    MPI_Win_unlock(partner, window);
  }
  MPI_Win_free(&window);
}

static void shared_locks(void) {
  make();
  if (rank == odd || rank == partner) {
    int word = rank;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    if (rank == odd) planted();
    put(0, 4, 1);
    MPI_Sendrecv_replace(&word, 1, MPI_INT, rank == odd ? partner : odd, 60, rank == odd ? partner : odd, 60, ring,
                         MPI_STATUS_IGNORE);
    MPI_Win_unlock(0, window);
  }
  MPI_Win_free(&window);
}

// With NCCLWATCH_MPI_CHECKS=buffers: the owner's own stores.

static void store_or_get(void) {
  if (rank == odd)
    memory[3] = 100;
  else
    get(odd, 2, 4);
}
static void stored_and_got(void) { between_fences(store_or_get); }

static void get_or_store_beside_a_put(void) {  // what was put is not told from a store; what is beside it is
  if (rank == odd) {
    memory[3] = memory[4] = 100;
    put(odd, 4, 1);
  } else {
    get(odd, 3, 1);
  }
}
static void stored_beside_a_put(void) { between_fences(get_or_store_beside_a_put); }

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"put_without_epoch", put_without_epoch},
      {"put_after_last_fence", put_after_last_fence},
      {"put_then_free", put_then_free},
      {"get_outside_start_group", get_outside_start_group},
      {"put_to_another_lock", put_to_another_lock},
      {"unlock_without_lock", unlock_without_lock},
      {"unlock_all_without_lock", unlock_all_without_lock},
      {"lock_twice", lock_twice},
      {"flush_without_lock", flush_without_lock},
      {"never_unlocked", never_unlocked},
      {"complete_without_start", complete_without_start},
      {"wait_without_post", wait_without_post},
      {"fence_while_locked", fence_while_locked},
      {"lock_in_fence_epoch", lock_in_fence_epoch},
      {"free_in_epoch", free_in_epoch},
      {"request_in_fence_epoch", request_in_fence_epoch},
      {"missing_fence", missing_fence},
      {"asleep_before_fence", asleep_before_fence},
      {"missing_window", missing_window},
      {"freed_window", freed_window},
      {"null_window", null_window},
      {"target_out_of_range", target_out_of_range},
      {"past_the_end", past_the_end},
      {"flush_of_another", flush_of_another},
      {"locked_against_its_info", locked_against_its_info},
      {"preceded", preceded},
      {"put_put_conflict", put_put_conflict},
      {"put_get_conflict", put_get_conflict},
      {"accumulate_put_conflict", accumulate_put_conflict},
      {"accumulate_operators", accumulate_operators},
      {"own_two_puts", own_two_puts},
      {"unlike_target", unlike_target},
      {"own_put_and_get", own_put_and_get},
      {"shared_locks", shared_locks},
      {"stored_and_got", stored_and_got},
      {"stored_beside_a_put", stored_beside_a_put},
  };
  return RUN_FAULTY(argc, argv, cases);
}
