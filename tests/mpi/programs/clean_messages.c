// Correct: every mode of sending, wildcards, probes, requests in every way, threads.
#include <pthread.h>
#include <unistd.h>

#include "common.h"

enum { kRounds = 6, kLarge = 100000 };

static int in[kLarge], out[kLarge], more[kLarge];

static int right(void) { return (rank + 1) % size; }
static int left(void) { return (rank + size - 1) % size; }

static void modes(void) {
  static char buffer[4 * (sizeof(int) * 16 + MPI_BSEND_OVERHEAD)];
  void* detached;
  int length;
  MPI_Request request;
  MPI_Buffer_attach(buffer, sizeof buffer);
  for (int round = 0; round < kRounds; ++round) {
    out[0] = rank * 10 + round;
    MPI_Irecv(in, 16, MPI_INT, left(), round, ring, &request);  // posted first: the ready send may rely on it
    MPI_Barrier(ring);
    switch (round % 4) {
      case 0: MPI_Send(out, 16, MPI_INT, right(), round, ring); break;
      case 1: MPI_Ssend(out, 16, MPI_INT, right(), round, ring); break;
      case 2: MPI_Rsend(out, 16, MPI_INT, right(), round, ring); break;
      default: MPI_Bsend(out, 16, MPI_INT, right(), round, ring); break;
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    fold(in[0]);
  }
  MPI_Buffer_detach(&detached, &length);
}

static void large(void) {  // above the eager limit, both at once, and shorter than the room for it
  MPI_Request requests[2];
  for (int i = 0; i < kLarge; ++i) out[i] = rank + i;
  MPI_Irecv(in, kLarge, MPI_INT, left(), 5, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, kLarge - rank, MPI_INT, right(), 5, MPI_COMM_WORLD, &requests[1]);
  MPI_Status statuses[2];
  int count;
  MPI_Waitall(2, requests, statuses);
  MPI_Get_count(&statuses[0], MPI_INT, &count);
  require(count == kLarge - left(), "the count of a shorter message");
  for (int i = 0; i < count; i += 997) fold(in[i]);
  memcpy(in, out, sizeof in);
  MPI_Sendrecv_replace(in, kLarge, MPI_INT, right(), 6, left(), 6, ring, MPI_STATUS_IGNORE);
  fold(in[kLarge - 1]);
}

static void wildcards(
    void) {  // a farm: whoever asks gets the next piece; what comes out does not depend on who that was
  enum { kPieces = 40, kAsk = 1, kWork = 2, kEnd = 3 };
  int64_t sum = 0, all = 0;
  MPI_Status status;
  if (rank == 0) {
    for (int next = 0, busy = size - 1; busy;) {
      int word;
      MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, ring, &status);
      require(status.MPI_TAG == kAsk, "only questions");
      int piece = next++;
      if (piece >= kPieces) --busy;
      MPI_Send(&piece, 1, MPI_INT, status.MPI_SOURCE, piece < kPieces ? kWork : kEnd, ring);
    }
  } else {
    for (;;) {
      int piece;
      MPI_Send(&rank, 1, MPI_INT, 0, kAsk, ring);
      MPI_Recv(&piece, 1, MPI_INT, 0, MPI_ANY_TAG, ring, &status);
      if (status.MPI_TAG == kEnd) break;
      sum += (int64_t)piece * piece;
    }
  }
  MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  fold(all);
}

static void probes(void) {
  for (int round = 0; round < kRounds; ++round) {
    MPI_Status status;
    MPI_Message message;
    MPI_Request sending, receiving;
    int count = 0, found = 0, length = 1 + (rank + round) % 7;
    for (int i = 0; i < length; ++i) out[i] = rank * 100 + i;
    MPI_Isend(out, length, MPI_INT, right(), round, ring, &sending);
    switch (round % 4) {
      case 0:
        MPI_Probe(MPI_ANY_SOURCE, round, ring, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, ring, MPI_STATUS_IGNORE);
        break;
      case 1:
        while (!found) MPI_Iprobe(left(), MPI_ANY_TAG, ring, &found, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Recv(in, count, MPI_INT, left(), status.MPI_TAG, ring, MPI_STATUS_IGNORE);
        break;
      case 2:
        MPI_Mprobe(left(), round, ring, &message, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Mrecv(in, count, MPI_INT, &message, MPI_STATUS_IGNORE);
        break;
      default:
        while (!found) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, ring, &found, &message, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Imrecv(in, count, MPI_INT, &message, &receiving);
        MPI_Wait(&receiving, MPI_STATUS_IGNORE);
    }
    require(count == 1 + (left() + round) % 7, "the probed count");
    for (int i = 0; i < count; ++i) fold(in[i]);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    MPI_Barrier(ring);  // any tag is the next round's otherwise
  }
}

static void completions(void) {  // one message from everybody to everybody, completed in each way there is
  MPI_Request requests[32];
  int indices[32], index, done, some;
  for (int round = 0; round < 5; ++round) {
    int left_over = 2 * size;
    for (int i = 0; i < size; ++i) {
      out[i] = rank * 100 + i;
      MPI_Irecv(&in[i], 1, MPI_INT, i, round, MPI_COMM_WORLD, &requests[2 * i]);
      MPI_Isend(&out[i], 1, MPI_INT, i, round, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    while (left_over) {
      switch (round) {
        case 0:
          MPI_Waitany(2 * size, requests, &index, MPI_STATUS_IGNORE);
          --left_over;
          break;
        case 1:
          MPI_Waitsome(2 * size, requests, &some, indices, MPI_STATUSES_IGNORE);
          left_over -= some;
          break;
        case 2:
          MPI_Testany(2 * size, requests, &index, &done, MPI_STATUS_IGNORE);
          if (done) --left_over;
          break;
        case 3:
          MPI_Testsome(2 * size, requests, &some, indices, MPI_STATUSES_IGNORE);
          left_over -= some;
          break;
        default:
          MPI_Testall(2 * size, requests, &done, MPI_STATUSES_IGNORE);
          if (done) left_over = 0;
      }
    }
    MPI_Waitany(2 * size, requests, &index, MPI_STATUS_IGNORE);
    require(index == MPI_UNDEFINED, "nothing left to wait for");
    for (int i = 0; i < size; ++i) fold(in[i]);
  }
}

static void persistent(void) {
  MPI_Request requests[4];
  MPI_Recv_init(in, 3, MPI_INT, left(), 3, ring, &requests[0]);
  MPI_Send_init(out, 3, MPI_INT, right(), 3, ring, &requests[1]);
  MPI_Recv_init(more, 3, MPI_INT, right(), 4, ring, &requests[2]);
  MPI_Ssend_init(out, 3, MPI_INT, left(), 4, ring, &requests[3]);
  for (int round = 0; round < kRounds; ++round) {
    out[0] = rank + round * 16;
    if (round % 2) {
      MPI_Startall(4, requests);
    } else {
      for (int i = 0; i < 4; ++i) MPI_Start(&requests[i]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    fold(in[0] + more[0]);
  }
  for (int i = 0; i < 4; ++i) MPI_Request_free(&requests[i]);
}

// MPI may give one handle to all of what is over at once.
static void freed_beside_others(void) {
  int peer = rank ^ 1, in[3] = {0}, out[3] = {rank, rank + 1, rank + 2};
  MPI_Request requests[3];
  if (peer >= size) peer = rank;
  for (int i = 0; i < 3; ++i) MPI_Isend(&out[i], 1, MPI_INT, peer, 40 + i, ring, &requests[i]);
  MPI_Request_free(&requests[1]);
  for (int i = 0; i < 3; ++i) MPI_Recv(&in[i], 1, MPI_INT, peer, 40 + i, ring, MPI_STATUS_IGNORE);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
  MPI_Barrier(ring);
  for (int i = 0; i < 3; ++i) require(in[i] == peer + i, "each of the three");
}

static void nobody(void) {  // MPI_PROC_NULL: the ends of a line have no neighbour
  int up = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, down = rank ? rank - 1 : MPI_PROC_NULL, flag = 0;
  MPI_Status status;
  MPI_Request request;
  in[0] = -1;
  MPI_Sendrecv(&rank, 1, MPI_INT, up, 0, in, 1, MPI_INT, down, 0, MPI_COMM_WORLD, &status);
  fold(in[0] + status.MPI_SOURCE * (rank != 0));
  MPI_Irecv(in, 1, MPI_INT, MPI_PROC_NULL, 0, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);  // MPICH 4.0.2 leaves the source of its status as it was
  MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 0, ring, &status);
  require(status.MPI_SOURCE == MPI_PROC_NULL, "nobody's message");
  MPI_Iprobe(MPI_PROC_NULL, 0, ring, &flag, &status);
  require(flag, "nobody can always be received from");
  MPI_Sendrecv(NULL, 0, MPI_INT, right(), 1, NULL, 0, MPI_INT, left(), 1, ring, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&rank, 1, MPI_INT, rank, 2, in, 1, MPI_INT, rank, 2, ring, MPI_STATUS_IGNORE);
  fold(in[0]);
}

static void cancelled(void) {
  MPI_Request request;
  MPI_Status status;
  int flag;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Irecv(in, 1, MPI_INT, MPI_ANY_SOURCE, 999, ring, &request);  // never sent
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    fold(flag);
  }
  MPI_Isend(out, 1, MPI_INT, right(), 8, ring, &request);
  MPI_Recv(in, 1, MPI_INT, left(), 8, ring, MPI_STATUS_IGNORE);
  MPI_Barrier(ring);
  MPI_Cancel(&request);  // too late
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  require(!flag, "it was received");
  MPI_Isend(out, 1, MPI_INT, right(), 7, ring, &request);
  MPI_Request_free(&request);  // freed while it is active: it completes all the same
  MPI_Recv(in, 1, MPI_INT, left(), 7, ring, MPI_STATUS_IGNORE);
}

static void tags(void) {  // the iteration is the tag; they overtake one another by three
  MPI_Request requests[3 * 2];
  for (int i = 0; i < 3; ++i) {
    MPI_Irecv(&in[i], 1, MPI_INT, left(), 30000 + i, ring, &requests[2 * i]);
    requests[2 * i + 1] = MPI_REQUEST_NULL;
  }
  for (int round = 0; round < 60; ++round) {
    int slot = round % 3, backwards = round / 3 * 3 + 2 - slot;
    MPI_Isend(&backwards, 1, MPI_INT, right(), 30000 + backwards, ring, &requests[2 * (backwards % 3) + 1]);
    MPI_Wait(&requests[2 * (backwards % 3) + 1], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[2 * (backwards % 3)], MPI_STATUS_IGNORE);
    fold(in[backwards % 3]);
    MPI_Irecv(&in[backwards % 3], 1, MPI_INT, left(), 30000 + backwards + 3, ring, &requests[2 * (backwards % 3)]);
  }
  for (int i = 0; i < 3; ++i) MPI_Send(out, 1, MPI_INT, right(), 30060 + i, ring);
  MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
}

static void errors_returned(void) {  // a program that asks for errors and goes on
  int error, word = 0;
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  error = MPI_Send(&word, 1, MPI_INT, size + 3, 0, ring);
  require(error != MPI_SUCCESS, "a rank out of range");
  MPI_Error_class(error, &error);
  require(error == MPI_ERR_RANK, "its error class");
  MPI_Sendrecv(&rank, 1, MPI_INT, right(), 0, &word, 1, MPI_INT, left(), 0, ring, MPI_STATUS_IGNORE);
  fold(word);
}

static int handled;
static void handle(MPI_Comm* comm, int* error, ...) {
  (void)comm;
  MPI_Error_class(*error, error);
  handled = *error;
  usleep(300000);  // the call stays wrong and inside MPI for so long
}
static void errors_handled(void) {  // ... by a function of its own
  int word = 0;
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(handle, &handler);
  MPI_Comm_set_errhandler(ring, handler);
  MPI_Errhandler_free(&handler);
  MPI_Send(&word, 1, MPI_INT, size + 3, 0, ring);
  require(handled == MPI_ERR_RANK, "the class of an error that a handler was given");
  MPI_Sendrecv(&rank, 1, MPI_INT, right(), 0, &word, 1, MPI_INT, left(), 0, ring, MPI_STATUS_IGNORE);
  fold(word);
}

typedef struct {
  MPI_Comm own, shared;
  int number;
  int64_t sum;
} Thread;

static void* traffic(void* argument) {
  Thread* self = argument;
  for (int round = 0; round < 8; ++round) {
    int mine = rank * 1000 + self->number * 100 + round, theirs = -1, sum = 0;
    MPI_Sendrecv(&mine, 1, MPI_INT, right(), self->number * 100 + round, &theirs, 1, MPI_INT, left(),
                 self->number * 100 + round, self->shared, MPI_STATUS_IGNORE);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM,
                  self->own);  // a communicator a thread: the order between threads is free
    self->sum += theirs + sum;
  }
  return NULL;
}

static void threads(void) {
  pthread_t running[kThreads];
  Thread each[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    each[i] = (Thread){.shared = ring, .number = i};
    MPI_Comm_dup(MPI_COMM_WORLD, &each[i].own);
  }
  for (int i = 0; i < kThreads; ++i) pthread_create(&running[i], NULL, traffic, &each[i]);
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(running[i], NULL);
    fold(each[i].sum);
  }
  for (int i = 0; i < kThreads; ++i) MPI_Comm_free(&each[i].own);
}

// Between the even and the odd ranks: those of an inter-communicator are the other side's, so that the pair of a rank
// is of its own number, if there is one.
static void exchange(MPI_Comm inter, int own, int others) {
  int got = 0, flag = 0, stop = own;
  MPI_Request requests[2];
  MPI_Status status;
  MPI_Message message;
  if (own < others) {
    MPI_Irecv(&got, 1, MPI_INT, own, 60, inter, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, own, 60, inter, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    require(got / 2 == own && got != rank, "the pair's rank");
    fold(got);
    MPI_Sendrecv(&rank, 1, MPI_INT, own, 61, &got, 1, MPI_INT, MPI_ANY_SOURCE, 61, inter, &status);
    require(status.MPI_SOURCE == own, "a source of the other side");
    MPI_Isend(&rank, 1, MPI_INT, own, 62, inter, &requests[0]);
    MPI_Probe(MPI_ANY_SOURCE, 62, inter, &status);
    MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 62, inter, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isend(&rank, 1, MPI_INT, own, 63, inter, &requests[0]);
    while (!flag) MPI_Improbe(MPI_ANY_SOURCE, 63, inter, &flag, &message, &status);
    MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    fold(got);
  }
  if (own == 0) {  // a chain across both sides and back
    if (rank == 0) MPI_Ssend(&stop, 1, MPI_INT, 0, 64, inter);
    MPI_Recv(&stop, 1, MPI_INT, 0, 64, inter, MPI_STATUS_IGNORE);
    if (rank != 0) MPI_Ssend(&stop, 1, MPI_INT, 0, 64, inter);
  }
}

static void between(void) {
  MPI_Comm inter, copy;
  int own, others, got = 0;
  MPI_Request requests[2];
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 59, &inter);
  MPI_Comm_rank(inter, &own);
  MPI_Comm_remote_size(inter, &others);
  exchange(inter, own, others);
  MPI_Comm_dup(inter, &copy);
  exchange(copy, own, others);
  int has_pair = own < others;
  MPI_Recv_init(&got, 1, MPI_INT, has_pair ? own : MPI_PROC_NULL, 65, copy, &requests[0]);
  MPI_Send_init(&rank, 1, MPI_INT, has_pair ? own : MPI_PROC_NULL, 65, copy, &requests[1]);
  for (int i = 0; i < 3; ++i) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    fold(got);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&inter);
}

static void unstarted(void) {  // at the ends of a chain one of two is never started, and all wait for both
  int left = 0;
  MPI_Request requests[2];
  MPI_Recv_init(&left, 1, MPI_INT, rank ? rank - 1 : 0, 66, ring, &requests[0]);
  MPI_Send_init(&rank, 1, MPI_INT, (rank + 1) % size, 66, ring, &requests[1]);
  for (int i = 0; i < 3; ++i) {
    if (rank > 0) MPI_Start(&requests[0]);
    if (rank < size - 1) MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    fold(left);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
}

static void buffered(void) {
  enum { kWords = 64 };
  static char room[2 * (kWords * sizeof(int) + MPI_BSEND_OVERHEAD)];
  int words[kWords] = {0}, bytes = 0;
  void* taken = NULL;
  for (int i = 0; i < 3; ++i) {
    MPI_Buffer_attach(room, sizeof room);
    MPI_Bsend(words, kWords, MPI_INT, (rank + 1) % size, 67, ring);
    MPI_Bsend(words, 0, MPI_INT, (rank + 1) % size, 67, ring);
    MPI_Recv(words, kWords, MPI_INT, (rank + size - 1) % size, 67, ring, MPI_STATUS_IGNORE);
    MPI_Recv(words, kWords, MPI_INT, (rank + size - 1) % size, 67, ring, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&taken, &bytes);
    require(taken == room && bytes == sizeof room, "the buffer that was attached");
  }
  MPI_Bsend(words, 1, MPI_INT, MPI_PROC_NULL, 67, ring);
}

// A call that is refused holds MPI's lock while it asks for the handler.
static void* refused(void* of) {
  Thread* thread = of;
  int word = 0;
  for (int i = 0; i < 200; ++i) thread->sum += MPI_Send(&word, 1, MPI_INT, size + 9, 68, thread->own) != MPI_SUCCESS;
  return NULL;
}

static void threads_refused(void) {
  Thread each[kThreads] = {{0}};
  pthread_t running[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &each[i].own);
    MPI_Comm_set_errhandler(each[i].own, MPI_ERRORS_RETURN);
    pthread_create(&running[i], NULL, refused, &each[i]);
  }
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(running[i], NULL);
    require(each[i].sum == 200, "every call refused");
    MPI_Comm_free(&each[i].own);
  }
}

static void held_back(void) {  // a message that a probe has taken is received after the next one
  int first[100] = {0}, second[2] = {0};
  MPI_Message message;
  if (rank == 0) {
    MPI_Send(first, 100, MPI_INT, 1, 8, ring);
    MPI_Send(second, 2, MPI_INT, 1, 8, ring);
  } else if (rank == 1) {
    MPI_Mprobe(0, 8, ring, &message, MPI_STATUS_IGNORE);
    MPI_Recv(second, 2, MPI_INT, 0, 8, ring, MPI_STATUS_IGNORE);
    usleep(700000);  // long enough for the watchdog to look twice
    MPI_Mrecv(first, 100, MPI_INT, &message, MPI_STATUS_IGNORE);
  }
}

static int receive_word(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)extra;
  MPI_Recv(value, 10, MPI_INT, 0, 9, ring, MPI_STATUS_IGNORE);
  return MPI_SUCCESS;
}

static void in_a_callback(void) {  // the first of two messages
  int key, word = 0;
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, receive_word, &key, NULL);
  if (rank == 0) MPI_Send(out, 10, MPI_INT, 1, 9, ring);
  if (rank == 0) MPI_Send(out, 1, MPI_INT, 1, 9, ring);
  if (rank == 1) MPI_Comm_set_attr(copy, key, in);
  MPI_Comm_free(&copy);
  if (rank == 1) MPI_Recv(&word, 1, MPI_INT, 0, 9, ring, MPI_STATUS_IGNORE);
  MPI_Comm_free_keyval(&key);
}

static MPI_Request started;
static MPI_Message taken;
static volatile int last_result;  // what stands in between no compiler makes a jump into MPI of

static int start_it(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  last_result = MPI_Start(&started);
  return last_result;
}

static int take_it(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  last_result = MPI_Mprobe(0, 9, ring, &taken, MPI_STATUS_IGNORE);
  return last_result;
}

static int receive_in_query(void* value, MPI_Status* status) {
  receive_word(MPI_COMM_NULL, 0, value, NULL);
  MPI_Status_set_elements(status, MPI_INT, 0);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
static int free_nothing(void* value) {
  (void)value;
  return MPI_SUCCESS;
}
static int cancel_nothing(void* value, int complete) {
  (void)value, (void)complete;
  return MPI_SUCCESS;
}

static void call_back(MPI_Comm_delete_attr_function* function) {
  int key;
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, function, &key, NULL);
  MPI_Comm_set_attr(copy, key, in);
  MPI_Comm_free(&copy);
  MPI_Comm_free_keyval(&key);
}

static void partly_in_callbacks(void) {  // of one message the start, or the probe; and one in a completion
  int word = 0;
  MPI_Request own;
  for (int way = 0; way < 3; ++way) {
    if (rank == 0) MPI_Send(out, 10, MPI_INT, 1, 9, ring);
    if (rank == 0) MPI_Send(out, 1, MPI_INT, 1, 9, ring);
    if (rank != 1) continue;
    if (way == 0) {
      MPI_Recv_init(in, 10, MPI_INT, 0, 9, ring, &started);
      call_back(start_it);
      MPI_Wait(&started, MPI_STATUS_IGNORE);
      MPI_Request_free(&started);
    } else if (way == 1) {
      call_back(take_it);
      MPI_Mrecv(in, 10, MPI_INT, &taken, MPI_STATUS_IGNORE);
    } else {
      MPI_Grequest_start(receive_in_query, free_nothing, cancel_nothing, in, &own);
      MPI_Grequest_complete(own);
      MPI_Wait(&own, MPI_STATUS_IGNORE);
    }
    MPI_Recv(&word, 1, MPI_INT, 0, 9, ring, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"held_back", held_back},
      {"in_a_callback", in_a_callback},
      {"partly_in_callbacks", partly_in_callbacks},
      {"modes", modes},
      {"large", large},
      {"wildcards", wildcards},
      {"probes", probes},
      {"completions", completions},
      {"persistent", persistent},
      {"freed_beside_others", freed_beside_others},
      {"nobody", nobody},
      {"cancelled", cancelled},
      {"tags", tags},
      {"errors_returned", errors_returned},
      {"errors_handled", errors_handled},
      {"between", between},
      {"unstarted", unstarted},
      {"buffered", buffered},
      {"threads", threads},
      {"threads_refused", threads_refused},
  };
  int threaded = argc > 1 && !strncmp(argv[1], "threads", 7);
  return RUN_CLEAN(argc, argv, cases, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
}
