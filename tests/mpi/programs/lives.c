// Objects and requests that are not ended, ended twice or used out of turn.
#include "common.h"

static int in[8], out[8];

static void never_waited(void) {  // the message is received; nobody asks whether it has left
  MPI_Request request;
  if (rank == odd) {
    planted();
    MPI_Isend(out, 1, MPI_INT, partner, 90, ring, &request);
  } else if (rank == partner) {
    MPI_Recv(in, 1, MPI_INT, odd, 90, ring, MPI_STATUS_IGNORE);
  }
}

static void overwritten(void) {  // two receives, one variable
  MPI_Request request;
  if (rank == odd) {
    planted();
    for (int i = 0; i < 2; ++i) MPI_Irecv(&in[i], 1, MPI_INT, partner, 91 + i, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    for (int i = 0; i < 2; ++i) MPI_Send(&out[i], 1, MPI_INT, odd, 91 + i, ring);
  }
}

static void collective_never_waited(void) {
  MPI_Request request;
  MPI_Ibarrier(ring, &request);
  if (rank == odd)
    planted();
  else
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void touched(void) {  // found with NCCLWATCH_MPI_CHECKS=buffers
  MPI_Request request;
  if (rank == odd) {
    MPI_Isend(out, 8, MPI_INT, partner, 92, ring, &request);
    planted();
    out[3] = 7;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    MPI_Recv(in, 8, MPI_INT, odd, 92, ring, MPI_STATUS_IGNORE);
  }
}

static void completed_twice(void) {
  MPI_Request request, copy;
  if (rank == odd) {
    MPI_Irecv(in, 1, MPI_INT, partner, 93, ring, &request);
    copy = request;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    planted();
    MPI_Wait(&copy, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    MPI_Send(out, 1, MPI_INT, odd, 93, ring);
  }
}

static void started_twice(void) {
  MPI_Request request;
  if (rank == odd) {
    MPI_Recv_init(in, 1, MPI_INT, partner, 94, ring, &request);
    MPI_Start(&request);
    planted();
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
  } else if (rank == partner) {
    MPI_Barrier(MPI_COMM_SELF);
    MPI_Send(out, 1, MPI_INT, odd, 94, ring);
  }
}

static void never_started(void) {
  MPI_Request request;
  if (rank != odd) return;
  planted();
  MPI_Send_init(out, 1, MPI_INT, partner, 95, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
}

static void left_request(void) {
  MPI_Request request;
  if (rank == odd) {
    planted();
    MPI_Send_init(out, 1, MPI_INT, partner, 96, ring, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == partner) {
    MPI_Recv(in, 1, MPI_INT, odd, 96, ring, MPI_STATUS_IGNORE);
  }
}

static void left_communicator(void) {
  MPI_Comm mine;
  MPI_Comm_split(ring, rank == odd ? 1 : MPI_UNDEFINED, 0, &mine);
  if (rank == odd) planted();
}

static void left_type(void) {
  MPI_Datatype mine;
  if (rank != odd) return;
  planted();
  for (int i = 0; i < 3; ++i) {
    MPI_Type_contiguous(i + 2, MPI_INT, &mine);
    MPI_Type_commit(&mine);
  }
}

static void add(void* a, void* b, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)b)[i] += ((int*)a)[i];
}

static void left_operator(void) {
  MPI_Op mine;
  MPI_Op_create(add, 1, &mine);
  MPI_Allreduce(in, out, 8, MPI_INT, mine, ring);
  if (rank == odd)
    planted();
  else
    MPI_Op_free(&mine);
}

static void left_group(void) {
  MPI_Group mine;
  if (rank != odd) return;
  planted();
  MPI_Comm_group(ring, &mine);
}

static void left_window(void) {
  MPI_Win window;
  MPI_Win_create(in, sizeof in, sizeof in[0], MPI_INFO_NULL, ring, &window);
  if (rank == 0) planted();
}

static void after_finalize(void) {
  MPI_Comm_free(&half);
  MPI_Comm_free(&ring);
  MPI_Finalize();
  if (rank == odd) {
    planted();
    MPI_Barrier(MPI_COMM_SELF);
  }
  exit(0);
}

static void rank_after_finalize(void) {  // nobody watches that call: MPI itself ends the process over it
  MPI_Comm_free(&half);
  MPI_Comm_free(&ring);
  MPI_Finalize();
  int mine;
  if (rank == odd) {
    planted();
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
  }
  exit(0);
}

static void initialized_twice(void) {
  if (rank != odd) return;
  planted();
  MPI_Init(NULL, NULL);
}

static void listed_twice(void) {
  int word = 0;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  if (rank == odd) {
    MPI_Irecv(&word, 1, MPI_INT, partner, 75, ring, &requests[0]);
    requests[1] = requests[0];
    planted();
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  if (rank == partner) MPI_Send(&word, 1, MPI_INT, odd, 75, ring);
}

static void awaited_after_free(void) {
  int word = 0;
  MPI_Request request, copy;
  if (rank == odd) {
    MPI_Irecv(&word, 1, MPI_INT, partner, 75, ring, &request);
    copy = request;
    MPI_Request_free(&request);
    planted();
    MPI_Wait(&copy, MPI_STATUS_IGNORE);
  }
  if (rank == partner) MPI_Send(&word, 1, MPI_INT, odd, 75, ring);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"never_waited", never_waited},
      {"overwritten", overwritten},
      {"collective_never_waited", collective_never_waited},
      {"touched", touched},
      {"completed_twice", completed_twice},
      {"started_twice", started_twice},
      {"never_started", never_started},
      {"listed_twice", listed_twice},
      {"awaited_after_free", awaited_after_free},
      {"left_request", left_request},
      {"left_communicator", left_communicator},
      {"left_type", left_type},
      {"left_operator", left_operator},
      {"left_group", left_group},
      {"left_window", left_window},
      {"after_finalize", after_finalize},
      {"rank_after_finalize", rank_after_finalize},
      {"initialized_twice", initialized_twice},
  };
  if (argc > 1 && !strcmp(argv[1], "before_init")) {  // by all ranks: none knows which it is
    planted();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (argc > 1 && !strcmp(argv[1], "size_before_init")) {
    planted();
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  return RUN_FAULTY(argc, argv, cases);
}
