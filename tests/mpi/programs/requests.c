// Requests that nothing completes: waits for all, any and some, tests in a loop, persistent ones.
#include "common.h"

enum { kMessages = 4 };

static int in[kMessages], out[kMessages];
static MPI_Request requests[kMessages];

static void receive_all(void) {
  for (int i = 0; i < kMessages; ++i) MPI_Irecv(&in[i], 1, MPI_INT, partner, 80 + i, ring, &requests[i]);
}

static void send_but(int left_out) {
  planted();
  for (int i = 0; i < kMessages; ++i) {
    if (i != left_out) MPI_Send(&out[i], 1, MPI_INT, odd, 80 + i, ring);
  }
}

static void waitall(void) {
  if (rank == partner) send_but(2);
  if (rank != odd) return;
  receive_all();
  MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
}

static void waitany(void) {
  int index;
  if (rank == partner) send_but(1);
  if (rank != odd) return;
  receive_all();
  for (int i = 0; i < kMessages; ++i) MPI_Waitany(kMessages, requests, &index, MPI_STATUS_IGNORE);
}

static void waitsome(void) {
  int done = 0, some, indices[kMessages];
  if (rank == partner) send_but(3);
  if (rank != odd) return;
  receive_all();
  while (done < kMessages) {
    MPI_Waitsome(kMessages, requests, &some, indices, MPI_STATUSES_IGNORE);
    done += some;
  }
}

static void wait_tag(void) {
  if (rank == partner) {
    planted();
    MPI_Isend(out, 1, MPI_INT, odd, 81, MPI_COMM_WORLD, requests);
  } else if (rank == odd) {
    MPI_Irecv(in, 1, MPI_INT, partner, 80, MPI_COMM_WORLD, requests);
  } else {
    return;
  }
  MPI_Wait(requests, MPI_STATUS_IGNORE);
}

static void test_loop(void) {
  int done = 0;
  if (rank != odd) return;
  planted();
  MPI_Irecv(in, 1, MPI_INT, partner, 80, MPI_COMM_WORLD, requests);
  while (!done) MPI_Test(requests, &done, MPI_STATUS_IGNORE);
}

static void issend_wait(void) {
  if (rank != odd) return;
  planted();
  MPI_Issend(out, 1, MPI_INT, partner, 80, MPI_COMM_WORLD, requests);
  MPI_Wait(requests, MPI_STATUS_IGNORE);
}

static void persistent(void) {  // the sender starts its request once less
  int starts = 5;
  if (rank == partner) {
    MPI_Send_init(out, 1, MPI_INT, odd, 80, ring, requests);
    --starts;
  } else if (rank == odd) {
    MPI_Recv_init(in, 1, MPI_INT, partner, 80, ring, requests);
  } else {
    return;
  }
  for (int i = 0; i < starts; ++i) {
    if (rank == partner && i == starts - 1) planted();
    MPI_Start(requests);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(requests);
}

static void persistent_cycle(void) {  // both wait for the other's message before they start their own
  if (rank != odd && rank != partner) return;
  int peer = rank == odd ? partner : odd;
  MPI_Recv_init(in, 1, MPI_INT, peer, 80, ring, &requests[0]);
  MPI_Ssend_init(out, 1, MPI_INT, peer, 80, ring, &requests[1]);
  MPI_Startall(2, requests);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  planted();
  for (int i = 0; i < 2; ++i) {
    MPI_Start(&requests[i]);
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
}

static void nonblocking_missing(void) {  // started by all but one, which goes on to a barrier
  MPI_Request request;
  if (rank == odd) {
    planted();
  } else {
    MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"waitall", waitall},
      {"waitany", waitany},
      {"waitsome", waitsome},
      {"wait_tag", wait_tag},
      {"test_loop", test_loop},
      {"issend_wait", issend_wait},
      {"persistent", persistent},
      {"persistent_cycle", persistent_cycle},
      {"nonblocking_missing", nonblocking_missing},
  };
  return RUN_FAULTY(argc, argv, cases);
}
