// Messages without their partner, or with another one; blocking calls that wait in cycles.
#include "common.h"

enum { kCount = 4, kLarge = 1 << 20 };  // kLarge ints: above every eager limit

static int small_in[kCount], small_out[kCount];
static int large_in[kLarge], large_out[kLarge];

static void receive(int source, int tag, MPI_Comm communicator) {
  MPI_Recv(small_in, kCount, MPI_INT, source, tag, communicator, MPI_STATUS_IGNORE);
}

static void send(int target, int tag, MPI_Comm communicator) {
  MPI_Send(small_out, kCount, MPI_INT, target, tag, communicator);
}

// ---- no partner ----------------------------------------------------------------------------------------------------

static void receive_without_send(void) {
  if (rank != odd) return;
  planted();
  receive(partner, 70, ring);
}

static void sender_asleep(void) {
  if (rank == partner) {
    planted();
    asleep();
  }
  if (rank == odd) receive(partner, 70, ring);
}

static void tag(void) {
  if (rank == partner) {
    planted();
    send(odd, 71, MPI_COMM_WORLD);
  }
  if (rank == odd) receive(partner, 70, MPI_COMM_WORLD);
}

static void communicator(void) {
  if (rank == partner) {
    planted();
    send(odd, 70, MPI_COMM_WORLD);
  }
  if (rank == odd) receive(partner, 70, ring);
}

static void source(void) {
  int sender = (odd + 1) % size;
  if (rank == sender) send(odd, 70, MPI_COMM_WORLD);
  if (rank != odd) return;
  planted();
  receive(partner, 70, MPI_COMM_WORLD);
}

static void target(void) {
  if (rank == partner) {
    planted();
    send((odd + 1) % size, 70, MPI_COMM_WORLD);
  }
  if (rank == odd) receive(partner, 70, MPI_COMM_WORLD);
}

static void probe(void) {
  MPI_Status status;
  if (rank == partner) send(odd, 71, MPI_COMM_WORLD);
  if (rank != odd) return;
  planted();
  MPI_Probe(partner, 70, MPI_COMM_WORLD, &status);
  receive(partner, 70, MPI_COMM_WORLD);
}

static void sendrecv_alone(void) {
  if (rank != odd) return;
  planted();
  MPI_Sendrecv(small_out, kCount, MPI_INT, partner, 70, small_in, kCount, MPI_INT, partner, 70, ring,
               MPI_STATUS_IGNORE);
}

// Six rounds of three messages from `partner` to `odd` and a collective; in the last one some are sent or received.
static void rounds(int sends, int receives) {
  int own = 1, all = 0;
  for (int round = 0; round < 6; ++round) {
    const int last = round == 5;
    if (last && rank == (sends < 3 ? partner : odd)) planted();
    for (int i = 0; rank == partner && i < (last ? sends : 3); ++i) MPI_Send(small_out, kCount, MPI_INT, odd, 71, ring);
    for (int i = 0; rank == odd && i < (last ? receives : 3); ++i) receive(partner, 71, ring);
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, ring);
  }
}

static void send_left_out(void) { rounds(2, 3); }
static void receive_too_often(void) { rounds(3, 4); }

// ---- between two groups: a rank of `half` is its rank in the world halved -------------------------------------------

static MPI_Comm between(void) {
  MPI_Comm inter;
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 40, &inter);
  return inter;
}

static void receive_receive_between(void) {
  MPI_Comm inter = between();
  int other = (rank == odd ? partner : odd) / 2;
  if (rank == odd || rank == partner) {
    if (rank == odd) planted();
    receive(other, 70, inter);
    send(other, 70, inter);
  }
  MPI_Comm_free(&inter);
}

static void truncation_between(void) {
  int more[2 * kCount] = {0};
  MPI_Comm inter = between();
  if (rank == partner) {
    planted();
    MPI_Send(more, 2 * kCount, MPI_INT, odd / 2, 70, inter);
  }
  if (rank == odd) receive(partner / 2, 70, inter);
  MPI_Comm_free(&inter);
}

// ---- another size or type ------------------------------------------------------------------------------------------

static void truncation(void) {
  int more[2 * kCount] = {0};
  if (rank == partner) {
    planted();
    MPI_Send(more, 2 * kCount, MPI_INT, odd, 70, MPI_COMM_WORLD);
  }
  if (rank == odd) receive(partner, 70, MPI_COMM_WORLD);
}

static void signature(void) {
  float numbers[kCount] = {0};
  if (rank == partner) {
    planted();
    MPI_Send(numbers, kCount, MPI_FLOAT, odd, 70, MPI_COMM_WORLD);
  }
  if (rank == odd) receive(partner, 70, MPI_COMM_WORLD);
}

static void signature_of_pairs(void) {
  int two[2] = {0, 0};
  if (rank == partner) MPI_Send(two, 1, MPI_2INT, odd, 70, ring);
  if (rank == odd) {
    planted();
    MPI_Recv(two, 1, MPI_FLOAT_INT, partner, 70, ring, MPI_STATUS_IGNORE);
  }
}

static void signature_order(void) {  // as many of each basic type, in another order
  struct {
    int whole;
    float part;
  } a[2] = {{0, 0}, {0, 0}};
  int lengths[2] = {1, 1};
  MPI_Aint places[2] = {0, sizeof(int)};
  MPI_Datatype types[2] = {rank == odd ? MPI_FLOAT : MPI_INT, rank == odd ? MPI_INT : MPI_FLOAT}, pair;
  MPI_Type_create_struct(2, lengths, places, types, &pair);
  MPI_Type_commit(&pair);
  if (rank == partner) MPI_Send(a, 2, pair, odd, 70, ring);
  if (rank == odd) {
    planted();
    MPI_Recv(a, 2, pair, partner, 70, ring, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&pair);
}

// ---- cycles -------------------------------------------------------------------------------------------------------

static void exchange(int count, int peer) {
  planted();
  MPI_Send(large_out, count, MPI_INT, peer, 70, MPI_COMM_WORLD);
  MPI_Recv(large_in, count, MPI_INT, peer, 70, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send_send(void) {
  if (rank == odd || rank == partner) exchange(kLarge, rank == odd ? partner : odd);
}

static void send_send_eager(void) {  // only buffering saves it
  if (rank == odd || rank == partner) exchange(kCount, rank == odd ? partner : odd);
}

static void receive_receive(void) {
  if (rank != odd && rank != partner) return;
  int peer = rank == odd ? partner : odd;
  planted();
  receive(peer, 70, MPI_COMM_WORLD);
  send(peer, 70, MPI_COMM_WORLD);
}

static void receive_ring(void) {
  planted();
  receive((rank + size - 1) % size, 70, ring);
  send((rank + 1) % size, 70, ring);
}

static void ssend_ring(void) {
  planted();
  MPI_Ssend(small_out, kCount, MPI_INT, (rank + 1) % size, 70, ring);
  receive((rank + size - 1) % size, 70, ring);
}

static void wildcard_cycle(void) {  // odd would answer whoever comes first; nobody does
  planted();
  if (rank == odd) {
    for (int i = 1; i < size; ++i) receive(MPI_ANY_SOURCE, 70, MPI_COMM_WORLD);
    for (int i = 0; i < size; ++i) {
      if (i != odd) send(i, 71, MPI_COMM_WORLD);
    }
  } else {
    receive(odd, 71, MPI_COMM_WORLD);
    send(odd, 70, MPI_COMM_WORLD);
  }
}

static void barrier_receive(void) {
  if (rank == odd) receive(partner, 70, ring);
  if (rank == partner) planted();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == partner) send(odd, 70, ring);
}

static void collectives_and_message(void) {  // two communicators and a message in one cycle
  int word = 0;
  if (rank == odd) {
    planted();
    receive(partner, 70, MPI_COMM_WORLD);
    MPI_Bcast(&word, 1, MPI_INT, 0, ring);
  } else {
    MPI_Bcast(&word, 1, MPI_INT, odd, ring);
    if (rank == partner) send(odd, 70, MPI_COMM_WORLD);
  }
}

static void sends_to_itself(void) {
  if (rank != odd) return;
  planted();
  MPI_Ssend(small_out, kCount, MPI_INT, odd, 70, ring);
  receive(odd, 70, ring);
}

static void receives_from_itself(void) {
  if (rank != odd) return;
  planted();
  receive(odd, 70, ring);
  send(odd, 70, ring);
}

static void crossed_tags(void) {  // buffers hide it until the messages outgrow them
  for (int round = 0; round < 4; ++round) {
    int count = round < 3 ? kCount : kLarge;
    if (round == 3 && rank == partner) planted();
    if (rank == partner)
      for (int tag = 70; tag < 72; ++tag) MPI_Send(large_out, count, MPI_INT, odd, tag, ring);
    if (rank == odd)
      for (int tag = 71; tag >= 70; --tag) MPI_Recv(large_in, count, MPI_INT, partner, tag, ring, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"receive_without_send", receive_without_send},
      {"sender_asleep", sender_asleep},
      {"tag", tag},
      {"communicator", communicator},
      {"source", source},
      {"target", target},
      {"probe", probe},
      {"sendrecv_alone", sendrecv_alone},
      {"send_left_out", send_left_out},
      {"receive_too_often", receive_too_often},
      {"truncation", truncation},
      {"signature", signature},
      {"signature_of_pairs", signature_of_pairs},
      {"signature_order", signature_order},
      {"send_send", send_send},
      {"send_send_eager", send_send_eager},
      {"receive_receive", receive_receive},
      {"receive_ring", receive_ring},
      {"ssend_ring", ssend_ring},
      {"wildcard_cycle", wildcard_cycle},
      {"barrier_receive", barrier_receive},
      {"collectives_and_message", collectives_and_message},
      {"sends_to_itself", sends_to_itself},
      {"receives_from_itself", receives_from_itself},
      {"receive_receive_between", receive_receive_between},
      {"truncation_between", truncation_between},
      {"crossed_tags", crossed_tags},
  };
  return RUN_FAULTY(argc, argv, cases);
}
