// Wildcard receives that are as they should be: what may come in any order is treated alike, or it cannot come in
// another one.
#include "common.h"

enum { kRounds = 6, kMost = 64, kTag = 80, kWord = 81, kEnd = 82 };

static int in[kMost], out[kMost];

static int next(void) { return (odd + 1) % size; }  // beside `partner`: odd receives from both

static void send_to_odd(int count) {
  out[0] = rank;
  MPI_Send(out, count, MPI_INT, odd, kTag, MPI_COMM_WORLD);
}

static void receive_any(int count) {
  MPI_Recv(in, count, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void from(int sender, int count) {
  MPI_Recv(in, count, MPI_INT, sender, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  require(in[0] == sender, "the message of the rank that was named");
}

static void word_to(int target) { MPI_Send(&rank, 1, MPI_INT, target, kWord, MPI_COMM_WORLD); }

static void word_from(int sender) {
  int word;
  MPI_Recv(&word, 1, MPI_INT, sender, kWord, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// ---- whoever comes first -------------------------------------------------------------------------------------------

static void answers(void) {  // of different lengths, all into room for the longest
  int64_t sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (rank != odd) {
      send_to_odd(1 + (rank + round) % kMost);
      continue;
    }
    for (int i = 1; i < size; ++i) {
      receive_any(kMost);
      sum += in[0];
    }
  }
  if (rank == odd) require(sum == (int64_t)kRounds * (size * (size - 1) / 2 - odd), "everybody's answers");
  fold(sum);
}

static void workers(void) {  // the work goes to whoever asks
  int left = 5 * size, busy = size - 1;
  MPI_Status status;
  if (rank == odd) {
    while (busy) {
      MPI_Recv(in, kMost, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, ring, &status);
      const int more = left-- > 0;
      if (!more) --busy;
      MPI_Send(in, 1, MPI_INT, status.MPI_SOURCE, more ? kTag : kEnd, ring);
    }
  }
  for (int turn = 0; rank != odd; ++turn) {
    MPI_Send(out, 1 + turn % kMost, MPI_INT, odd, turn ? kWord : kTag, ring);
    MPI_Recv(in, 1, MPI_INT, odd, MPI_ANY_TAG, ring, &status);
    if (status.MPI_TAG == kEnd) break;
  }
  MPI_Barrier(ring);  // what any tag would take comes later
}

static void head_and_body(void) {  // the body is of the head's tag, and named by it
  if (rank != odd) {
    for (int round = 0; round < kRounds; ++round) {
      int length = 1 + (rank + round) % kMost;
      MPI_Send(&length, 1, MPI_INT, odd, kTag, ring);
      MPI_Send(out, length, MPI_INT, odd, kTag, ring);
    }
    return;
  }
  for (int i = 0; i < kRounds * (size - 1); ++i) {
    int length;
    MPI_Status status;
    MPI_Recv(&length, 1, MPI_INT, MPI_ANY_SOURCE, kTag, ring, &status);
    MPI_Recv(in, length, MPI_INT, status.MPI_SOURCE, kTag, ring, MPI_STATUS_IGNORE);
  }
}

static void rank_in_the_message(void) {  // no status: the message says whose it is
  if (rank != odd) {
    word_to(odd);
    send_to_odd(1 + rank % kMost);
    return;
  }
  for (int i = 1; i < size; ++i) {
    int who;
    MPI_Recv(&who, 1, MPI_INT, MPI_ANY_SOURCE, kWord, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    from(who, kMost);
  }
}

static void several_open(void) {
  MPI_Request requests[kMost];
  static int room[kMost][4];
  if (rank != odd) {
    send_to_odd(1 + rank % 4);
    return;
  }
  for (int i = 0; i < size - 1; ++i) MPI_Irecv(room[i], 4, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < size - 1; ++i) {
    int which;
    MPI_Waitany(size - 1, requests, &which, MPI_STATUS_IGNORE);
  }
}

// ---- the room is made for what was found ---------------------------------------------------------------------------

static void probed(void) {
  if (rank != odd) {
    for (int round = 0; round < kRounds; ++round) send_to_odd(1 + (7 * rank + 3 * round) % kMost);
    return;
  }
  for (int i = 0; i < kRounds * (size - 1); ++i) {
    MPI_Status status;
    int count, found = 0;
    if (i % 2)
      MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    else
      while (!found) MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &found, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void taken_by_probes(void) {
  if (rank != odd) {
    for (int round = 0; round < kRounds; ++round) send_to_odd(1 + (7 * rank + 3 * round) % kMost);
    return;
  }
  for (int i = 0; i < kRounds * (size - 1) / 2; ++i) {
    static int room[2][kMost];
    MPI_Message messages[2];
    MPI_Status status;
    int counts[2], found = 0;
    MPI_Mprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &messages[0], &status);
    MPI_Get_count(&status, MPI_INT, &counts[0]);
    while (!found) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &messages[1], &status);
    MPI_Get_count(&status, MPI_INT, &counts[1]);
    for (int m = 1; m >= 0; --m) MPI_Mrecv(room[m], counts[m], MPI_INT, &messages[m], MPI_STATUS_IGNORE);
  }
}

// ---- it cannot come in another order -------------------------------------------------------------------------------

static void after_a_barrier(void) {
  for (int round = 0; round < kRounds; ++round) {
    if (rank == partner) send_to_odd(1);
    if (rank == odd) receive_any(1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == next()) send_to_odd(2);
    if (rank == odd) from(next(), 2);
    MPI_Barrier(round % 2 ? ring : MPI_COMM_WORLD);
  }
}

static void after_other_collectives(void) {
  for (int round = 0; round < kRounds; ++round) {
    int word = rank, all[kMost];
    MPI_Request request;
    if (rank == partner) send_to_odd(1);
    if (rank == odd) receive_any(1);
    switch (round) {
      case 0: MPI_Bcast(&word, 1, MPI_INT, odd, ring); break;
      case 1: MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_MAX, ring); break;
      case 2: MPI_Reduce(&rank, &word, 1, MPI_INT, MPI_SUM, next(), ring); break;
      case 3: MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, ring); break;
      case 4: MPI_Scatter(all, 1, MPI_INT, &word, 1, MPI_INT, odd, ring); break;
      default: MPI_Ibarrier(ring, &request); MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (rank == next()) send_to_odd(2);
    if (rank == odd) from(next(), 2);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void after_a_word(void) {  // directly, and over a third rank
  for (int round = 0; round < kRounds; ++round) {
    if (rank == partner) send_to_odd(1);
    if (rank == odd) {
      receive_any(1);
      word_to(round % 2 ? partner : next());
      from(next(), 2);
      word_to(partner);
    }
    if (rank == partner) {
      if (round % 2) {
        word_from(odd);
        word_to(next());
      }
      word_from(odd);
    }
    if (rank == next()) {
      word_from(round % 2 ? partner : odd);
      send_to_odd(2);
    }
  }
}

static void after_a_send_that_waits(void) {
  for (int round = 0; round < kRounds; ++round) {
    if (rank == partner) {
      out[0] = rank;
      MPI_Ssend(out, 1, MPI_INT, odd, kTag, MPI_COMM_WORLD);
      word_to(next());
      word_from(odd);
    }
    if (rank == next()) {
      word_from(partner);
      send_to_odd(2);
    }
    if (rank == odd) {
      receive_any(1);
      from(next(), 2);
      word_to(partner);
    }
  }
}

static void tags_in_order(void) {  // of one sender
  for (int i = 1; i <= kRounds; ++i) {
    if (rank == partner) MPI_Send(out, i, MPI_INT, odd, i, ring);
    if (rank == odd) MPI_Recv(in, i, MPI_INT, partner, MPI_ANY_TAG, ring, MPI_STATUS_IGNORE);
  }
}

static void only_one_sends(void) {  // what anybody may take; the others have tags and communicators of their own
  if (rank == partner) send_to_odd(1);
  if (rank == next()) {
    word_to(odd);
    MPI_Send(out, 3, MPI_INT, odd, kTag, ring);
  }
  if (rank != odd) return;
  receive_any(1);
  word_from(next());
  MPI_Recv(in, 3, MPI_INT, next(), kTag, ring, MPI_STATUS_IGNORE);
}

static void named_before(void) {  // the receive by name was called first
  MPI_Request request;
  if (rank == partner) send_to_odd(1);
  if (rank == next()) send_to_odd(2);
  if (rank != odd) return;
  MPI_Irecv(in + 8, 2, MPI_INT, next(), kTag, MPI_COMM_WORLD, &request);
  receive_any(1);
  require(in[0] == partner, "the other one's message");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void first_comer(void) {  // of two, once: whoever comes first, then the other one by name
  MPI_Status status;
  if (rank == partner || rank == next()) send_to_odd(1);
  if (rank != odd) return;
  MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &status);
  from(partner + next() - status.MPI_SOURCE, 1);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"answers", answers},
      {"workers", workers},
      {"head_and_body", head_and_body},
      {"rank_in_the_message", rank_in_the_message},
      {"several_open", several_open},
      {"probed", probed},
      {"taken_by_probes", taken_by_probes},
      {"after_a_barrier", after_a_barrier},
      {"after_other_collectives", after_other_collectives},
      {"after_a_word", after_a_word},
      {"after_a_send_that_waits", after_a_send_that_waits},
      {"tags_in_order", tags_in_order},
      {"only_one_sends", only_one_sends},
      {"named_before", named_before},
      {"first_comer", first_comer},
  };
  return RUN_CLEAN(argc, argv, cases, MPI_THREAD_SINGLE);
}
