// Windows by number, each of kWords words at every rank; `to` is a rank of the window's communicator.
#include <stdlib.h>
#include <string.h>

#include "player.h"

enum { kWords = 64, kWindows = 64 };

typedef struct {
  _Alignas(64) long memory[kWords];  // MPICH 4.0.2 over UCX puts 8 bytes beside it where 16 do not divide its address
  MPI_Win handle;
  Buffer got;
} Window;

static Window windows[kWindows];

static Window* window(const Call* call) { return &windows[number(call->op, "w", 0)]; }
static int target(const Call* call) { return number(call->op, "to", 0); }
static int place(const Call* call) { return number(call->op, "at", 0); }
static int count(const Call* call) { return number(call->op, "n", 1); }

static void win_create(Call* call) {
  Window* one = window(call);
  memset(one->memory, 0, sizeof one->memory);
  AT(call->op, MPI_Win_create(one->memory, sizeof one->memory, sizeof one->memory[0], MPI_INFO_NULL,
                              communicator(call->op), &one->handle));
}

static void win_free(Call* call) { AT(call->op, MPI_Win_free(&window(call)->handle)); }

static void win_free_copy(Call* call) {  // the variable still has the handle
  MPI_Win copy = window(call)->handle;
  AT(call->op, MPI_Win_free(&copy));
}

static void null_win(Call* call) { window(call)->handle = MPI_WIN_NULL; }

// `last`: no epoch follows; `first`: none came before.
static void fence(Call* call) {
  const int assertion = has(call->op, "last") ? MPI_MODE_NOSUCCEED : has(call->op, "first") ? MPI_MODE_NOPRECEDE : 0;
  AT(call->op, MPI_Win_fence(assertion, window(call)->handle));
}

// What is put is read until the epoch ends: it is never freed.
static void put(Call* call) {
  Buffer out = filled(type_of(call->op, "t"), count(call), number(call->op, "v", 0));
  AT(call->op,
     MPI_Put(out.data, count(call), MPI_LONG, target(call), place(call), count(call), MPI_LONG, window(call)->handle));
}

static void rput(Call* call) {
  Buffer out = filled(type_of(call->op, "t"), count(call), number(call->op, "v", 0));
  AT(call->op, MPI_Rput(out.data, count(call), MPI_LONG, target(call), place(call), count(call), MPI_LONG,
                        window(call)->handle, &call->request));
}

static void get(Call* call) {
  Window* one = window(call);
  one->got = make(type_of(call->op, "t"), count(call));
  AT(call->op,
     MPI_Get(one->got.data, count(call), MPI_LONG, target(call), place(call), count(call), MPI_LONG, one->handle));
}

static void accumulate(Call* call) {
  Buffer out = filled(type_of(call->op, "t"), count(call), number(call->op, "v", 0));
  AT(call->op, MPI_Accumulate(out.data, count(call), MPI_LONG, target(call), place(call), count(call), MPI_LONG,
                              operator_of(call->op), window(call)->handle));
}

static void expect_got(Call* call) { expect(call->op, window(call)->got, 0, count(call), number(call->op, "v", 0)); }

static Buffer own(Call* call) {
  return (Buffer){(char*)(window(call)->memory + place(call)), type_of(call->op, "t"), count(call)};
}

static void expect_own(Call* call) { expect(call->op, own(call), 0, count(call), number(call->op, "v", 0)); }

static void expect_sum(Call* call) {
  expect_reduced(call->op, own(call), count(call), 0, number(call->op, "ranks", 1));
}

static void expect_got_sum(Call* call) {
  expect_reduced(call->op, window(call)->got, count(call), 0, number(call->op, "ranks", 1));
}

static void lock(Call* call) {
  AT(call->op, MPI_Win_lock(has(call->op, "alone") ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target(call), 0,
                            window(call)->handle));
}

static void unlock(Call* call) { AT(call->op, MPI_Win_unlock(target(call), window(call)->handle)); }
static void lock_all(Call* call) { AT(call->op, MPI_Win_lock_all(0, window(call)->handle)); }
static void unlock_all(Call* call) { AT(call->op, MPI_Win_unlock_all(window(call)->handle)); }
static void flush(Call* call) { AT(call->op, MPI_Win_flush(target(call), window(call)->handle)); }

static void with_group(Call* call, int post) {
  MPI_Group group = group_of(call);
  if (post)
    AT(call->op, MPI_Win_post(group, 0, window(call)->handle));
  else
    AT(call->op, MPI_Win_start(group, 0, window(call)->handle));
  MPI_Group_free(&group);
}

static void win_post(Call* call) { with_group(call, 1); }
static void win_start(Call* call) { with_group(call, 0); }
static void win_complete(Call* call) { AT(call->op, MPI_Win_complete(window(call)->handle)); }

static void win_wait(Call* call) {
  int flag = 0;
  if (!has(call->op, "test")) AT(call->op, MPI_Win_wait(window(call)->handle));
  while (has(call->op, "test") && !flag) AT(call->op, MPI_Win_test(window(call)->handle, &flag));
}

const Verb kWindowVerbs[] = {
    {"win_create", win_create, NULL},
    {"win_free", win_free, NULL},
    {"win_free_copy", win_free_copy, NULL},
    {"null_win", null_win, NULL},
    {"fence", fence, NULL},
    {"put", put, NULL},
    {"rput", rput, NULL},
    {"get", get, NULL},
    {"accumulate", accumulate, NULL},
    {"expect_got", expect_got, NULL},
    {"expect_own", expect_own, NULL},
    {"expect_sum", expect_sum, NULL},
    {"expect_got_sum", expect_got_sum, NULL},
    {"lock", lock, NULL},
    {"unlock", unlock, NULL},
    {"lock_all", lock_all, NULL},
    {"unlock_all", unlock_all, NULL},
    {"flush", flush, NULL},
    {"win_post", win_post, NULL},
    {"win_start", win_start, NULL},
    {"win_complete", win_complete, NULL},
    {"win_wait", win_wait, NULL},
    {NULL, NULL, NULL},
};
