// Buffers that belong to an operation which is still active, and are handed to another one or written to.
#include "common.h"

enum { kSide = 8 };

static int in[64], out[64], matrix[kSide][kSide];

static void exchange_with_partner(int messages) {  // the partner's side of what the odd rank does wrong
  MPI_Request request;
  for (int i = 0; i < messages; ++i) {
    MPI_Isend(out, 8, MPI_INT, odd, i, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static void two_receives(void) {  // the halves overlap
  MPI_Request requests[2];
  if (rank == odd) {
    MPI_Irecv(in, 8, MPI_INT, partner, 0, ring, &requests[0]);
    planted();
    MPI_Irecv(in + 7, 8, MPI_INT, partner, 1, ring, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  } else if (rank == partner) {
    exchange_with_partner(2);
  }
}

static void same_column(void) {  // elements with gaps between them, twice at one place
  MPI_Request requests[2];
  MPI_Datatype column;
  MPI_Type_vector(kSide, 1, kSide, MPI_INT, &column);
  MPI_Type_commit(&column);
  if (rank == odd) {
    MPI_Irecv(&matrix[0][3], 1, column, partner, 0, ring, &requests[0]);
    planted();
    MPI_Irecv(&matrix[0][3], 1, column, partner, 1, ring, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  } else if (rank == partner) {
    exchange_with_partner(2);
  }
  MPI_Type_free(&column);
}

static void send_of_receive(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Irecv(in, 8, MPI_INT, partner, 0, ring, &request);
    planted();
    MPI_Send(in, 1, MPI_INT, partner, 1, ring);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    MPI_Recv(in, 1, MPI_INT, odd, 1, ring, MPI_STATUS_IGNORE);
    exchange_with_partner(1);
  }
}

static void receive_into_send(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Issend(out, 8, MPI_INT, partner, 1, ring, &request);
    planted();
    MPI_Recv(out, 8, MPI_INT, partner, 0, ring, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    exchange_with_partner(1);
    MPI_Recv(in, 8, MPI_INT, odd, 1, ring, MPI_STATUS_IGNORE);
  }
}

static void two_starts(void) {
  MPI_Request requests[2];
  if (rank == odd) {
    MPI_Recv_init(in, 8, MPI_INT, partner, 0, ring, &requests[0]);
    MPI_Send_init(in, 1, MPI_INT, partner, 1, ring, &requests[1]);
    MPI_Start(&requests[0]);
    planted();
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
  } else if (rank == partner) {
    MPI_Recv(in, 1, MPI_INT, odd, 1, ring, MPI_STATUS_IGNORE);
    exchange_with_partner(1);
  }
}

static void broadcast_into_send(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Issend(out, 8, MPI_INT, partner, 1, ring, &request);
    planted();
  }
  MPI_Bcast(rank == odd ? out : in, 8, MPI_INT, 0, ring);
  if (rank == odd) MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == partner) MPI_Recv(in, 8, MPI_INT, odd, 1, ring, MPI_STATUS_IGNORE);
}

static void sum_of_receive(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Irecv(in, 8, MPI_INT, partner, 0, ring, &request);
    planted();
  }
  MPI_Allreduce(rank == odd ? in : out, out + 32, 8, MPI_INT, MPI_SUM, ring);
  if (rank == odd) MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == partner) exchange_with_partner(1);
}

static void two_collectives(void) {
  MPI_Request requests[2];
  MPI_Iallreduce(out, in, 8, MPI_INT, MPI_SUM, ring, &requests[0]);
  if (rank == odd) planted();
  MPI_Iallreduce(out, rank == odd ? in + 4 : in + 32, 8, MPI_INT, MPI_SUM, ring, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void received_among_gathered(void) {  // into the part of one of them
  MPI_Request requests[2];
  int counts[16], places[16];
  for (int i = 0; i < size; ++i) {
    counts[i] = 2;
    places[i] = 2 * i;
  }
  MPI_Iallgatherv(out, 2, MPI_INT, in, counts, places, MPI_INT, ring, &requests[0]);
  if (rank == odd) {
    planted();
    MPI_Irecv(in + 2, 2, MPI_INT, partner, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  } else {
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    if (rank == partner) MPI_Send(out, 2, MPI_INT, odd, 5, MPI_COMM_WORLD);
  }
}

static void got_into_receive(void) {
  static int memory[8];
  MPI_Request requests[2];
  MPI_Win window;
  MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, ring, &window);
  if (rank == odd) {
    MPI_Irecv(in, 8, MPI_INT, partner, 0, ring, &requests[0]);
    MPI_Win_lock(MPI_LOCK_SHARED, partner, 0, window);
    planted();
    MPI_Rget(in, 8, MPI_INT, partner, 0, 8, MPI_INT, window, &requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Win_unlock(partner, window);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    exchange_with_partner(1);
  }
  MPI_Win_free(&window);
}

// The others are found with NCCLWATCH_MPI_CHECKS=buffers.

static void touched_receive(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Irecv(in, 8, MPI_INT, partner, 0, ring, &request);
    planted();
    in[7] = 5;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    exchange_with_partner(1);
  }
}

static void touched_where_nothing_came(void) {  // behind the end of a shorter message
  MPI_Request request;
  if (rank == odd) {
    MPI_Irecv(in, 32, MPI_INT, partner, 0, ring, &request);
    planted();
    in[20] = 5;
    MPI_Waitany(1, &request, &(int){0}, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    exchange_with_partner(1);
  }
}

static void touched_before_test(void) {
  MPI_Request request;
  if (rank == odd) {
    int done = 0;
    MPI_Irecv(in, 8, MPI_INT, partner, 0, ring, &request);
    planted();
    in[0] = 5;
    while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    exchange_with_partner(1);
  }
}

static void touched_persistent(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Recv_init(in, 8, MPI_INT, partner, MPI_ANY_TAG, ring, &request);
    for (int i = 0; i < 2; ++i) {
      in[0] = i;  // between two starts everything is allowed
      MPI_Start(&request);
      if (i == 1) planted();
      if (i == 1) in[1] = 5;
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
  } else if (rank == partner) {
    exchange_with_partner(2);
  }
}

static void touched_persistent_send(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Ssend_init(out, 8, MPI_INT, partner, 0, ring, &request);
    MPI_Start(&request);
    planted();
    ++out[1];
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
  } else if (rank == partner) {
    MPI_Recv(in, 8, MPI_INT, odd, 0, ring, MPI_STATUS_IGNORE);
  }
}

static void touched_sum(void) {
  MPI_Request request;
  MPI_Iallreduce(out, in, 8, MPI_INT, MPI_SUM, ring, &request);
  if (rank == odd) {
    planted();
    in[2] = 5;
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void touched_part_of_sum(void) {
  MPI_Request request;
  MPI_Iallreduce(out, in, 8, MPI_INT, MPI_SUM, ring, &request);
  if (rank == odd) {
    planted();
    ++out[2];
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void touched_in_place(void) {
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, in, 8, MPI_INT, MPI_SUM, ring, &request);
  if (rank == odd) {
    planted();
    in[2] = 5;
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// What an access to a window sends, changed before the access is complete on its rank.

static int memory[16];
static MPI_Win window;

static void make_window(void) { MPI_Win_create(memory, sizeof memory, sizeof memory[0], MPI_INFO_NULL, ring, &window); }

static void touched_put(void) {
  make_window();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    MPI_Put(out, 8, MPI_INT, partner, 0, 8, MPI_INT, window);
    planted();
    out[3] = 5;
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_free(&window);
}

static void touched_accumulate(void) {
  MPI_Group all, one;
  make_window();
  MPI_Comm_group(ring, &all);
  if (rank == odd) {
    MPI_Group_incl(all, 1, &partner, &one);
    MPI_Win_start(one, 0, window);
    MPI_Accumulate(out, 8, MPI_INT, partner, 0, 8, MPI_INT, MPI_SUM, window);
    planted();
    ++out[0];
    MPI_Win_complete(window);
    MPI_Group_free(&one);
  } else if (rank == partner) {
    MPI_Group_incl(all, 1, &odd, &one);
    MPI_Win_post(one, 0, window);
    MPI_Win_wait(window);
    MPI_Group_free(&one);
  }
  MPI_Group_free(&all);
  MPI_Win_free(&window);
}

static void got_twice(void) {
  make_window();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    MPI_Get(in, 4, MPI_INT, partner, 0, 4, MPI_INT, window);
    planted();
    MPI_Get(in + 2, 4, MPI_INT, partner, 4, 4, MPI_INT, window);
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_free(&window);
}

static void sent_while_got(void) {  // what is sent has not come yet, perhaps
  make_window();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    MPI_Get(in, 8, MPI_INT, partner, 0, 8, MPI_INT, window);
    planted();
    MPI_Send(in, 8, MPI_INT, partner, 0, ring);
  } else if (rank == partner) {
    MPI_Recv(in, 8, MPI_INT, odd, 0, ring, MPI_STATUS_IGNORE);
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_free(&window);
}

static void touched_before_flush(void) {
  make_window();
  MPI_Win_lock_all(0, window);
  if (rank == odd) {
    MPI_Put(out, 8, MPI_INT, partner, 0, 8, MPI_INT, window);
    planted();
    out[3] = 5;
    MPI_Win_flush_local(partner, window);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

static void touched_before_flush_of_it(void) {  // the other target's is flushed
  int third = size > 2 ? size - 1 : 0;
  make_window();
  MPI_Win_lock_all(0, window);
  if (rank == odd) {
    MPI_Put(out, 4, MPI_INT, rank, 0, 4, MPI_INT, window);
    MPI_Put(out + 8, 4, MPI_INT, third, 4, 4, MPI_INT, window);
    MPI_Win_flush(third, window);
    out[8] = 3;
    planted();
    out[0] = 5;
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

static void touched_rput(void) {
  MPI_Request request;
  make_window();
  MPI_Win_lock_all(0, window);
  if (rank == odd) {
    MPI_Rput(out, 8, MPI_INT, partner, 0, 8, MPI_INT, window, &request);
    planted();
    out[3] = 5;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

static void touched_added(void) {
  make_window();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    MPI_Fetch_and_op(out, in, MPI_INT, partner, 0, MPI_SUM, window);
    planted();
    out[0] = 5;
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_free(&window);
}

static void touched_compared(void) {
  make_window();
  MPI_Win_fence(0, window);
  if (rank == odd) {
    MPI_Compare_and_swap(out, out + 8, in, MPI_INT, partner, 0, window);
    planted();
    out[8] = 5;
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"two_receives", two_receives},
      {"same_column", same_column},
      {"send_of_receive", send_of_receive},
      {"receive_into_send", receive_into_send},
      {"two_starts", two_starts},
      {"broadcast_into_send", broadcast_into_send},
      {"sum_of_receive", sum_of_receive},
      {"two_collectives", two_collectives},
      {"received_among_gathered", received_among_gathered},
      {"got_into_receive", got_into_receive},
      {"got_twice", got_twice},
      {"sent_while_got", sent_while_got},
      {"touched_receive", touched_receive},
      {"touched_where_nothing_came", touched_where_nothing_came},
      {"touched_before_test", touched_before_test},
      {"touched_persistent", touched_persistent},
      {"touched_persistent_send", touched_persistent_send},
      {"touched_sum", touched_sum},
      {"touched_part_of_sum", touched_part_of_sum},
      {"touched_in_place", touched_in_place},
      {"touched_put", touched_put},
      {"touched_accumulate", touched_accumulate},
      {"touched_before_flush", touched_before_flush},
      {"touched_before_flush_of_it", touched_before_flush_of_it},
      {"touched_rput", touched_rput},
      {"touched_added", touched_added},
      {"touched_compared", touched_compared},
  };
  return RUN_FAULTY(argc, argv, cases);
}
