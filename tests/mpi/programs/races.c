// A wildcard receive that another message could have met. Who is `late` sends after a while: nothing of MPI makes
// it wait, and what happens is almost always the same.
#include <time.h>

#include "common.h"

enum { kCount = 4, kTag = 70 };

static int in[2 * kCount], out[2 * kCount];

// The other sender, beside `partner`.
static int next(void) { return (odd + 1) % size; }

static void late(void) {
  struct timespec a_while = {0, 300 * 1000 * 1000};
  nanosleep(&a_while, NULL);
}

static void send_to_odd(int count) { MPI_Send(out, count, MPI_INT, odd, kTag, MPI_COMM_WORLD); }

static void receive_any(int count) {
  MPI_Recv(in, count, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void from_next(void) { MPI_Recv(in, kCount, MPI_INT, next(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

// The partner's message and then that of the next rank, which is late.
static void two_messages(int first, int second) {
  if (rank == partner) send_to_odd(first);
  if (rank != next()) return;
  late();
  planted();
  send_to_odd(second);
}

// ---- nothing comes of it in most runs ------------------------------------------------------------------------------

static void named_after_wildcard(void) {
  two_messages(kCount, kCount);
  if (rank != odd) return;
  receive_any(kCount);
  from_next();
}

static void status_asked(void) {
  MPI_Status status;
  two_messages(kCount, kCount);
  if (rank != odd) return;
  MPI_Recv(in, kCount, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &status);
  MPI_Recv(in, kCount, MPI_INT, next(), kTag, MPI_COMM_WORLD, &status);
}

static void both_called_before(void) {
  MPI_Request requests[2];
  MPI_Status statuses[2];
  two_messages(kCount, kCount);
  if (rank != odd) return;
  MPI_Irecv(in, kCount, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in + kCount, kCount, MPI_INT, next(), kTag, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, statuses);
}

static void other_size(void) {
  two_messages(kCount, 2 * kCount);
  if (rank != odd) return;
  receive_any(kCount);
  receive_any(2 * kCount);
}

static void other_type(void) {
  float numbers[kCount] = {0};
  if (rank == partner) send_to_odd(kCount);
  if (rank == next()) {
    late();
    planted();
    MPI_Send(numbers, kCount, MPI_FLOAT, odd, kTag, MPI_COMM_WORLD);
  }
  if (rank != odd) return;
  receive_any(kCount);
  MPI_Recv(numbers, kCount, MPI_FLOAT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void any_tag(void) {
  if (rank == partner) send_to_odd(kCount);
  if (rank == next()) {
    late();
    planted();
    MPI_Send(out, kCount, MPI_INT, odd, kTag + 1, MPI_COMM_WORLD);
  }
  if (rank != odd) return;
  MPI_Recv(in, kCount, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Recv(in, kCount, MPI_INT, MPI_ANY_SOURCE, kTag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void probed_wildcard(void) {  // the receive after the probe asks anew
  two_messages(kCount, 2 * kCount);
  if (rank != odd) return;
  for (int i = 0; i < 2; ++i) {
    MPI_Status status;
    int count;
    MPI_Probe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_Recv(in, count, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void never_received(void) {
  two_messages(kCount, kCount);
  if (rank == odd) receive_any(kCount);
}

static void broadcast_between(void) {  // of a sender: it orders nothing after the receive
  int word = 0;
  if (rank == partner) send_to_odd(kCount);
  if (rank == odd) receive_any(kCount);
  MPI_Bcast(&word, 1, MPI_INT, partner, MPI_COMM_WORLD);
  if (rank == next()) {
    late();
    planted();
    send_to_odd(kCount);
  }
  if (rank == odd) from_next();
}

static void phases(void) {  // one message of each, then another one of each, by name
  if (rank == odd) {
    for (int i = 1; i < size; ++i) receive_any(kCount);
    planted();
    for (int i = 0; i < size; ++i)
      if (i != odd) MPI_Recv(in, kCount, MPI_INT, i, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return;
  }
  send_to_odd(kCount);
  late();
  send_to_odd(kCount);
}

// ---- it has led to a hang ------------------------------------------------------------------------------------------

static void takes_the_wrong_one(void) {
  if (rank == next()) send_to_odd(kCount);
  if (rank == partner) {
    late();
    send_to_odd(kCount);
  }
  if (rank != odd) return;
  receive_any(kCount);
  planted();
  from_next();
}

static void takes_the_wrong_one_at_the_end(void) {
  takes_the_wrong_one();
  finish();
}

static void takes_the_wrong_one_of_all(void) {  // all have their turn, but the last comes first
  if (rank == odd) {
    receive_any(kCount);
    planted();
    for (int i = 0; i < size; ++i)
      if (i != odd && i != partner) MPI_Recv(in, kCount, MPI_INT, i, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    if (rank != next()) late();
    send_to_odd(kCount);
  }
}

static void takes_both_together(void) {  // which message the first has got is not told while the second waits
  MPI_Request both[2];
  if (rank == next()) send_to_odd(kCount);
  if (rank == partner) {
    late();
    send_to_odd(kCount);
  }
  if (rank != odd) return;
  MPI_Irecv(in, kCount, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &both[0]);
  MPI_Irecv(out, kCount, MPI_INT, next(), kTag, MPI_COMM_WORLD, &both[1]);
  planted();
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static void takes_both_in_a_ring(void) {  // each waits for the one before it, the first for the one that stands
  takes_both_together();
  const int before = (rank + size - 1) % size, after = (rank + 1) % size;
  if (rank == odd) MPI_Send(out, 1, MPI_INT, after, kTag + 1, MPI_COMM_WORLD);
  MPI_Recv(in, 1, MPI_INT, before, kTag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank != odd) MPI_Send(out, 1, MPI_INT, after, kTag + 1, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"named_after_wildcard", named_after_wildcard},
      {"status_asked", status_asked},
      {"both_called_before", both_called_before},
      {"other_size", other_size},
      {"other_type", other_type},
      {"any_tag", any_tag},
      {"probed_wildcard", probed_wildcard},
      {"never_received", never_received},
      {"broadcast_between", broadcast_between},
      {"phases", phases},
      {"takes_the_wrong_one", takes_the_wrong_one},
      {"takes_the_wrong_one_at_the_end", takes_the_wrong_one_at_the_end},
      {"takes_the_wrong_one_of_all", takes_the_wrong_one_of_all},
      {"takes_both_together", takes_both_together},
      {"takes_both_in_a_ring", takes_both_in_a_ring},
  };
  return RUN_FAULTY(argc, argv, cases);
}
