// Correct: everything that comes near to using a buffer while another operation uses it.
#include <pthread.h>

#include "common.h"

enum { kRounds = 5, kSide = 12, kMany = 200 };

static int in[1024], out[1024];

static int right(void) { return (rank + 1) % size; }
static int left(void) { return (rank + size - 1) % size; }

static void fill(int* numbers, int count, int seed) {
  for (int i = 0; i < count; ++i) numbers[i] = seed * 1000 + rank * 100 + i;
}
static void fold_all(const int* numbers, int count) {
  for (int i = 0; i < count; ++i) fold(numbers[i]);
}

static void columns(void) {  // the halo of a matrix: columns and rows of one array, all at once
  static int matrix[kSide][kSide];
  MPI_Datatype column, slot, row;
  MPI_Request requests[8];
  MPI_Type_vector(kSide - 2, 1, kSide, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, sizeof(int), &slot);
  MPI_Type_contiguous(kSide - 2, MPI_INT, &row);
  MPI_Type_commit(&column);
  MPI_Type_commit(&slot);
  MPI_Type_commit(&row);
  for (int round = 0; round < kRounds; ++round) {
    fill(&matrix[0][0], kSide * kSide, round);
    MPI_Irecv(&matrix[1][0], 1, column, left(), 1, ring, &requests[0]);
    MPI_Irecv(&matrix[1][kSide - 1], 1, slot, right(), 2, ring, &requests[1]);
    MPI_Irecv(&matrix[0][1], 1, row, left(), 3, ring, &requests[2]);
    MPI_Irecv(&matrix[kSide - 1][1], 1, row, right(), 4, ring, &requests[3]);
    MPI_Isend(&matrix[1][kSide - 2], 1, column, right(), 1, ring, &requests[4]);
    MPI_Isend(&matrix[1][1], 1, slot, left(), 2, ring, &requests[5]);
    MPI_Isend(&matrix[kSide - 2][1], 1, row, right(), 3, ring, &requests[6]);
    MPI_Isend(&matrix[1][1], 1, row, left(), 4, ring, &requests[7]);
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    fold_all(&matrix[0][0], kSide * kSide);
  }
  // Columns that lie between each other's elements, several in one message.
  fill(&matrix[0][0], kSide * kSide, 7);
  for (int i = 0; i < 4; ++i) MPI_Irecv(&matrix[1][3 * i], 3, slot, left(), i, ring, &requests[i]);
  fill(out, 1024, 8);
  for (int i = 0; i < 4; ++i) MPI_Isend(out, 3 * (kSide - 2), MPI_INT, right(), i, ring, &requests[4 + i]);
  MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
  fold_all(&matrix[0][0], kSide * kSide);
  MPI_Type_free(&row);
  MPI_Type_free(&slot);
  MPI_Type_free(&column);
}

static void gaps(void) {  // every other element, pairs with padding, addresses in the type
  typedef struct {
    double value;
    int index;
  } Pair;
  static Pair pairs[8], received[8];
  int lengths[16], places[16];
  MPI_Datatype others, absolute;
  MPI_Request requests[6];
  for (int i = 0; i < 16; ++i) {
    lengths[i] = 1;
    places[i] = 2 * i;
  }
  MPI_Type_indexed(16, lengths, places, MPI_INT, &others);
  MPI_Type_commit(&others);
  MPI_Aint where[2];
  MPI_Get_address(&in[100], &where[0]);
  MPI_Get_address(&in[300], &where[1]);
  MPI_Type_create_hindexed(2, (int[]){4, 4}, where, MPI_INT, &absolute);
  MPI_Type_commit(&absolute);
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 1024, round);
    for (int i = 0; i < 8; ++i) pairs[i] = (Pair){rank + i * 0.5, i};
    MPI_Irecv(in, 1, others, left(), 1, ring, &requests[0]);
    MPI_Irecv(in + 1, 1, others, left(), 2, ring, &requests[1]);
    MPI_Irecv(MPI_BOTTOM, 1, absolute, left(), 3, ring, &requests[2]);
    MPI_Irecv(in + 200, 8, MPI_INT, left(), 4, ring, &requests[3]);  // between its two pieces
    MPI_Irecv(received, 8, MPI_DOUBLE_INT, left(), 5, ring, &requests[4]);
    MPI_Isend(pairs, 8, MPI_DOUBLE_INT, right(), 5, ring, &requests[5]);
    MPI_Send(out, 16, MPI_INT, right(), 1, ring);
    MPI_Send(out + 16, 16, MPI_INT, right(), 2, ring);
    MPI_Send(out + 32, 8, MPI_INT, right(), 3, ring);
    MPI_Send(out + 40, 8, MPI_INT, right(), 4, ring);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    fold_all(in, 400);
    for (int i = 0; i < 8; ++i) fold((int64_t)(received[i].value * 2) + received[i].index);
  }
  MPI_Type_free(&absolute);
  MPI_Type_free(&others);
}

static void read_by_many(void) {  // what is being sent may be sent again, and read by everything else
  MPI_Request requests[32];
  for (int round = 0; round < kRounds; ++round) {
    int sum[16];
    fill(out, 16, round);
    for (int i = 0; i < size; ++i) {
      MPI_Irecv(in + 16 * i, 16, MPI_INT, i, 1, ring, &requests[2 * i]);
      MPI_Isend(out, 16, MPI_INT, i, 1, ring, &requests[2 * i + 1]);
    }
    MPI_Allreduce(out, sum, 16, MPI_INT, MPI_SUM, ring);
    MPI_Sendrecv(out + 2, 4, MPI_INT, right(), 2, in + 1000, 4, MPI_INT, left(), 2, ring, MPI_STATUS_IGNORE);
    MPI_Bcast(rank == 0 ? out : in + 900, 16, MPI_INT, 0, ring);
    MPI_Gather(out, 16, MPI_INT, in + 500, 16, MPI_INT, 0, ring);
    MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE);
    fold_all(in, 1024);
    fold_all(sum, 16);
  }
}

static void parts(void) {  // of one array, one beside the other
  MPI_Request requests[64];
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 64, round);
    for (int i = 0; i < 32; ++i) {
      MPI_Irecv(in + 2 * i, 2, MPI_INT, left(), i, ring, &requests[i]);
      MPI_Isend(out + 2 * i, 2, MPI_INT, right(), i, ring, &requests[32 + i]);
    }
    MPI_Waitall(64, requests, MPI_STATUSES_IGNORE);
    fold_all(in, 64);
  }
}

static void reused(void) {  // at once, however the end was learned
  MPI_Request requests[2], sending;
  for (int round = 0; round < 3 * kRounds; ++round) {
    int done = 0, index, number, indices[2];
    fill(out, 8, round);
    MPI_Irecv(in, 8, MPI_INT, left(), round, ring, &requests[0]);
    requests[1] = MPI_REQUEST_NULL;
    MPI_Isend(out, 8, MPI_INT, right(), round, ring, &sending);
    switch (round % 9) {
      case 0: MPI_Wait(requests, MPI_STATUS_IGNORE); break;
      case 1: MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE); break;
      case 2: MPI_Waitsome(2, requests, &number, indices, MPI_STATUSES_IGNORE); break;
      case 3: MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); break;
      case 4:
        while (!done) MPI_Test(requests, &done, MPI_STATUS_IGNORE);
        break;
      case 5:
        while (!done) MPI_Testany(2, requests, &index, &done, MPI_STATUS_IGNORE);
        break;
      case 6:
        while (!done) MPI_Testsome(2, requests, &done, indices, MPI_STATUSES_IGNORE);
        break;
      case 7:
        while (!done) MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
        break;
      default:  // it is over; its request is not
        while (!done) MPI_Request_get_status(requests[0], &done, MPI_STATUS_IGNORE);
    }
    fold_all(in, 8);
    in[3] = round;
    MPI_Sendrecv_replace(in, 8, MPI_INT, right(), 99, left(), 99, ring, MPI_STATUS_IGNORE);
    fold_all(in, 8);
    if (requests[0] != MPI_REQUEST_NULL) {
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      require(in[3] == round, "what was there stays");
    }
    done = 0;
    while (!done) MPI_Request_get_status(sending, &done, MPI_STATUS_IGNORE);
    out[3] = 0;
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
  }
}

static void freed(void) {  // requests that are freed while they are active
  MPI_Request request;
  for (int round = 0; round < kRounds; ++round) {
    volatile int* last = &in[7];
    fill(out, 32, round + 1);
    in[7] = -1;
    MPI_Irecv(in, 8, MPI_INT, left(), 1, ring, &request);
    MPI_Request_free(&request);
    require(request == MPI_REQUEST_NULL, "no request");
    MPI_Barrier(ring);
    MPI_Isend(out, 8, MPI_INT, right(), 1, ring, &request);
    MPI_Request_free(&request);
    while (*last == -1) {
      int found;
      MPI_Iprobe(MPI_ANY_SOURCE, 77, ring, &found, MPI_STATUS_IGNORE);
    }
    fold_all(in, 8);
    MPI_Sendrecv(in, 1, MPI_INT, left(), 2, in + 20, 1, MPI_INT, right(), 2, ring, MPI_STATUS_IGNORE);
    MPI_Recv_init(in + 30, 8, MPI_INT, left(), 3, ring, &request);
    MPI_Start(&request);
    in[20] = -1;
    MPI_Request_free(&request);
    MPI_Send(out + 1, 8, MPI_INT, right(), 3, ring);  // who has got it may use its buffer: told by the next one
    MPI_Barrier(ring);
  }
}

static void in_place(void) {
  MPI_Request request;
  int counts[16], places[16];
  for (int i = 0; i < size; ++i) {
    counts[i] = 4;
    places[i] = 4 * i;
  }
  for (int round = 0; round < kRounds; ++round) {
    fill(in, 64, round);
    MPI_Iallreduce(MPI_IN_PLACE, in, 8, MPI_INT, MPI_SUM, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 8);
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 4, MPI_INT, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 4 * size);
    MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 4, MPI_INT, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 4 * size);
    in[4 * rank] = rank + round;
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, places, MPI_INT, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 4 * size);
    MPI_Ireduce(rank == 0 ? MPI_IN_PLACE : in, rank == 0 ? in : NULL, 8, MPI_INT, MPI_SUM, 0, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 8);
    MPI_Igather(rank == 0 ? MPI_IN_PLACE : in, 4, MPI_INT, in, 4, MPI_INT, 0, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 4 * size);
    MPI_Iscatter(in, 4, MPI_INT, rank == 0 ? MPI_IN_PLACE : in + 100, 4, MPI_INT, 0, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 104);
    MPI_Iscan(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 4);
    fill(in, 4 * size, round);
    MPI_Ireduce_scatter_block(MPI_IN_PLACE, in, 4, MPI_INT, MPI_SUM, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 4);
    fill(in, 4 * size, round);
    MPI_Ireduce_scatter(MPI_IN_PLACE, in, counts, MPI_INT, MPI_SUM, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 4);
  }
}

static void collectives(void) {  // all at once, each with memory of its own, and with what others read
  MPI_Request requests[12];
  int counts[16], places[16], apart[16];
  for (int i = 0; i < size; ++i) {
    counts[i] = 3;
    places[i] = 3 * i;
    apart[i] = 5 * i;
  }
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 64, round);
    memset(in, 0, sizeof in);
    MPI_Ibcast(rank == 1 ? out : in, 16, MPI_INT, 1, ring, &requests[0]);
    MPI_Iallreduce(out, in + 16, 16, MPI_INT, MPI_MAX, ring, &requests[1]);
    MPI_Iallgather(out, 3, MPI_INT, in + 32, 3, MPI_INT, ring, &requests[2]);
    MPI_Ialltoall(out, 3, MPI_INT, in + 80, 3, MPI_INT, ring, &requests[3]);
    MPI_Ialltoallv(out, counts, places, MPI_INT, in + 128, counts, places, MPI_INT, ring, &requests[4]);
    MPI_Igatherv(out, 3, MPI_INT, in + 200, counts, apart, MPI_INT, 0, ring, &requests[5]);  // with gaps
    for (int i = 0; i < 2; ++i)                                                              // and others in them
      MPI_Irecv(in + 203 + 5 * i, 2, MPI_INT, left(), i, ring, &requests[6 + i]);
    MPI_Iscatterv(out, counts, places, MPI_INT, in + 300, 3, MPI_INT, 0, ring, &requests[8]);
    MPI_Iexscan(out, in + 320, 4, MPI_INT, MPI_SUM, ring, &requests[9]);
    MPI_Ireduce(out, in + 340, 4, MPI_INT, MPI_SUM, 0, ring, &requests[10]);
    MPI_Ireduce_scatter_block(out, in + 360, 4, MPI_INT, MPI_SUM, ring, &requests[11]);
    for (int i = 0; i < 2; ++i) MPI_Send(out + i, 2, MPI_INT, right(), i, ring);
    MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
    fold_all(in, 400);
  }
}

static void neighbours(void) {
  MPI_Comm line;
  MPI_Request request;
  MPI_Cart_create(ring, 1, &size, (int[]){0}, 0, &line);
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 8, round);
    MPI_Ineighbor_alltoall(out, 4, MPI_INT, in, 4, MPI_INT, line, &request);  // at the ends half of it is not touched
    if (rank == 0) in[0] = round;
    if (rank == size - 1) in[4] = out[4] = round;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 8);
    MPI_Ineighbor_allgather(out, 4, MPI_INT, in, 4, MPI_INT, line, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold_all(in, 8);
  }
  MPI_Comm_free(&line);
}

static void windows(void) {  // receives into the memory of a window, and accesses whose end a flush tells
  int* shared;
  MPI_Win window;
  MPI_Request requests[3];
  MPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, ring, &shared, &window);
  MPI_Win_lock_all(0, window);
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 32, round);
    MPI_Irecv(shared, 8, MPI_INT, left(), 1, ring, &requests[0]);
    MPI_Put(out + 8, 8, MPI_INT, right(), 16, 8, MPI_INT, window);
    MPI_Rput(out + 16, 8, MPI_INT, right(), 32, 8, MPI_INT, window, &requests[1]);
    MPI_Rget(in, 8, MPI_INT, rank, 48, 8, MPI_INT, window, &requests[2]);
    MPI_Win_flush_all(window);
    fill(out + 8, 16, 7);
    fill(in, 8, 7);
    MPI_Send(out, 8, MPI_INT, right(), 1, ring);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(ring);
    MPI_Win_sync(window);
    fold_all(shared, 40);
    MPI_Barrier(ring);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
}

static void origins(void) {  // what accesses to a window send, changed as soon as the access is complete here
  int *shared, done = 0;
  const int here = 32;  // where nobody else puts anything
  MPI_Win window;
  MPI_Group all, before, after;
  MPI_Request requests[2];
  MPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, ring, &shared, &window);
  for (int i = 0; i < 64; ++i) shared[i] = 0;
  MPI_Win_fence(0, window);
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 24, round);
    MPI_Put(out, 8, MPI_INT, right(), 0, 8, MPI_INT, window);
    MPI_Accumulate(out, 8, MPI_INT, right(), 8, 8, MPI_INT, MPI_SUM, window);
    MPI_Get_accumulate(out + 8, 8, MPI_INT, in, 8, MPI_INT, right(), 16, 8, MPI_INT, MPI_NO_OP, window);
    MPI_Put(out + 16, 8, MPI_INT, MPI_PROC_NULL, 0, 8, MPI_INT, window);
    fill(out + 8, 16, 50);  // nobody reads that
    MPI_Put(shared + here, 2, MPI_INT, right(), 40, 2, MPI_INT, window);
    MPI_Win_fence(0, window);
    fold_all(shared, 42);
    fill(out, 8, 60);
    shared[here] = round;
    MPI_Win_fence(0, window);
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  MPI_Comm_group(ring, &all);
  MPI_Group_incl(all, 1, (int[]){left()}, &before);
  MPI_Group_incl(all, 1, (int[]){right()}, &after);
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 8, round);
    MPI_Win_post(before, 0, window);
    MPI_Win_start(after, 0, window);
    MPI_Put(out, 8, MPI_INT, right(), 0, 8, MPI_INT, window);
    MPI_Win_complete(window);
    fill(out, 8, 70);
    MPI_Win_wait(window);
    fold_all(shared, 8);
  }
  MPI_Group_free(&after);
  MPI_Group_free(&before);
  MPI_Group_free(&all);
  MPI_Barrier(ring);
  MPI_Win_lock_all(0, window);
  for (int round = 0; round < 4 * kRounds; ++round) {
    fill(out, 32, round);
    MPI_Put(out, 8, MPI_INT, right(), 0, 8, MPI_INT, window);
    MPI_Rput(out + 8, 8, MPI_INT, right(), 8, 8, MPI_INT, window, &requests[0]);
    MPI_Raccumulate(out + 16, 8, MPI_INT, right(), 16, 8, MPI_INT, MPI_SUM, window, &requests[1]);
    MPI_Put(out + 24, 8, MPI_INT, rank, 48, 8, MPI_INT, window);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    fill(out + 8, 8, 80);
    for (done = 0; !done;) MPI_Test(&requests[1], &done, MPI_STATUS_IGNORE);
    fill(out + 16, 8, 80);
    switch (round % 4) {
      case 0: MPI_Win_flush(right(), window); break;
      case 1: MPI_Win_flush_local(right(), window); break;
      case 2: MPI_Win_flush_all(window); break;
      default: MPI_Win_flush_local_all(window);
    }
    fill(out, 8, 80);
    MPI_Win_flush(rank, window);
    fill(out + 24, 8, 80);
    MPI_Win_flush_all(window);
    MPI_Barrier(ring);
    MPI_Win_sync(window);
    fold_all(shared, 16);
    MPI_Barrier(ring);
  }
  MPI_Put(out, 8, MPI_INT, right(), 0, 8, MPI_INT, window);
  MPI_Win_unlock_all(window);
  fill(out, 8, 90);
  MPI_Win_free(&window);
}

static void stores(void) {  // into the own memory of a window, beside what others access, or before they may
  char *mine, got[4] = {0};
  MPI_Win window;
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, ring, &mine, &window);
  memset(mine, rank, 64);
  MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 8; i += 2) mine[i] = (char)(10 * round + rank + i);  // every other byte
    MPI_Get(&got[0], 1, MPI_CHAR, right(), 1, 1, MPI_CHAR, window);
    MPI_Put(&got[3], 1, MPI_CHAR, right(), 3, 1, MPI_CHAR, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 8; ++i) fold(mine[i]);
    mine[9] = (char)(round + rank);  // nobody gets that now
    MPI_Win_fence(0, window);
    MPI_Get(&got[1], 1, MPI_CHAR, right(), 9, 1, MPI_CHAR, window);
    MPI_Win_fence(0, window);
    fold(got[0] + got[1]);
    got[3] = (char)round;
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  memset(mine, 0, 64);
  MPI_Win_free(&window);
}

static void persistent(void) {  // several on one buffer, of which one at a time is active
  MPI_Request requests[4], all[2];
  MPI_Recv_init(in, 8, MPI_INT, left(), 1, ring, &requests[0]);
  MPI_Recv_init(in, 16, MPI_INT, left(), MPI_ANY_TAG, ring, &requests[1]);  // for shorter ones
  MPI_Send_init(out, 8, MPI_INT, right(), 1, ring, &requests[2]);
  MPI_Ssend_init(out, 8, MPI_INT, right(), 2, ring, &requests[3]);
  for (int round = 0; round < 2 * kRounds; ++round) {
    fill(out, 8, round);
    fill(in, 16, 500 + round);
    all[0] = requests[round % 2];
    all[1] = requests[2 + round % 2];
    MPI_Startall(2, all);
    if (round % 3 == 0) {
      MPI_Waitall(2, all, MPI_STATUSES_IGNORE);
    } else {
      MPI_Wait(&all[1], MPI_STATUS_IGNORE);
      out[0] = 0;
      MPI_Wait(&all[0], MPI_STATUS_IGNORE);
    }
    fold_all(in, 16);
    in[2] = 0;
  }
  for (int i = 0; i < 4; ++i) MPI_Request_free(&requests[i]);
}

static void nothing(void) {  // no elements, nobody to talk to, and a receive that is cancelled
  MPI_Request requests[4];
  MPI_Status status;
  int cancelled;
  for (int round = 0; round < kRounds; ++round) {
    fill(in, 8, round);
    fill(out, 8, round);
    MPI_Irecv(in, 8, MPI_INT, left(), 1, ring, &requests[0]);
    MPI_Irecv(in, 8, MPI_INT, MPI_PROC_NULL, 1, ring, &requests[1]);
    MPI_Irecv(in, 0, MPI_INT, left(), 2, ring, &requests[2]);
    MPI_Isend(in, 0, MPI_INT, right(), 2, ring, &requests[3]);
    MPI_Send(in, 8, MPI_INT, MPI_PROC_NULL, 2, ring);
    MPI_Send(out, 8, MPI_INT, right(), 1, ring);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    fold_all(in, 8);
    MPI_Irecv(in, 8, MPI_INT, left(), 55, ring, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &cancelled);
    require(cancelled, "nobody had sent it");
    fold_all(in, 8);
    in[0] = 3;
  }
}

static void many(void) {  // more than a table of a few holds
  static MPI_Request requests[2 * kMany];
  for (int round = 0; round < kRounds; ++round) {
    fill(out, kMany, round);
    for (int i = 0; i < kMany; ++i) MPI_Irecv(in + i, 1, MPI_INT, left(), i, ring, &requests[i]);
    for (int i = 0; i < kMany; ++i) MPI_Isend(out + i, 1, MPI_INT, right(), i, ring, &requests[kMany + i]);
    for (int i = 0; i < kMany; i += 3) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < kMany; i += 3) in[i] += 1;
    MPI_Waitall(2 * kMany, requests, MPI_STATUSES_IGNORE);
    fold_all(in, kMany);
  }
}

static void again(void) {  // as benchmarks do: one line receives into one buffer all the time
  MPI_Request requests[16];
  for (int round = 0; round < kRounds; ++round) {
    fill(out, 4, round);
    for (int i = 0; i < 8; ++i) MPI_Irecv(in, 4, MPI_INT, left(), 0, ring, &requests[i]);
    for (int i = 8; i < 16; ++i) MPI_Isend(out, 4, MPI_INT, right(), 0, ring, &requests[i]);
    MPI_Waitall(16, requests, MPI_STATUSES_IGNORE);
    fold_all(in, 4);
  }
}

static void* one_thread(void* number) {
  const int thread = (int)(intptr_t)number;
  int *mine = in + 64 * thread, *theirs = out + 64 * thread;
  for (int round = 0; round < 20; ++round) {
    MPI_Request requests[2];
    int done = 0;
    for (int i = 0; i < 8; ++i) theirs[i] = round * 8 + i + rank;
    MPI_Irecv(mine, 8, MPI_INT, left(), thread, ring, &requests[0]);
    MPI_Isend(theirs, 8, MPI_INT, right(), thread, ring, &requests[1]);
    if (round % 2)
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    else
      while (!done) MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    mine[8] += mine[0] + mine[7];
    mine[0] = theirs[0] = -1;
  }
  return NULL;
}
static void threads(void) {
  pthread_t all[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&all[i], NULL, one_thread, (void*)(intptr_t)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(all[i], NULL);
  for (int i = 0; i < kThreads; ++i) fold(in[64 * i + 8]);
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"columns", columns},
      {"gaps", gaps},
      {"read_by_many", read_by_many},
      {"parts", parts},
      {"reused", reused},
      {"freed", freed},
      {"in_place", in_place},
      {"collectives", collectives},
      {"neighbours", neighbours},
      {"windows", windows},
      {"origins", origins},
      {"stores", stores},
      {"persistent", persistent},
      {"nothing", nothing},
      {"many", many},
      {"again", again},
      {"threads", threads},
  };
  const int level = argc > 1 && !strcmp(argv[1], "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  return RUN_CLEAN(argc, argv, cases, level);
}
