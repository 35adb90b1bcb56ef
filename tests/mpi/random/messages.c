// Point-to-point calls. Whoever sends fills in the sequence that begins with `v`, whoever receives looks for it.
#include <stdlib.h>
#include <string.h>

#include "player.h"

#define ANY_OR(value, any) ((value) < 0 ? (any) : (value))

static int source(const Call* call) {
  const int from = number(call->op, "from", -2);
  return from == -2 ? MPI_PROC_NULL : ANY_OR(from, MPI_ANY_SOURCE);
}

static int destination(const Call* call) {
  const int to = number(call->op, "to", -2);
  return to == -2 ? MPI_PROC_NULL : to;
}

static int tag(const Call* call) { return number(call->op, "tag", 0); }
static int receive_tag(const Call* call) { return ANY_OR(number(call->op, "tag", 0), MPI_ANY_TAG); }

static void prepare_send(Call* call) {
  call->out = filled(type_of(call->op, "t"), number(call->op, "n", 1), number(call->op, "v", 0));
}

static void prepare_receive(Call* call) { call->in = make(type_of(call->op, "t"), number(call->op, "n", 1)); }

#define SEND_ARGUMENTS(call)                                                                      \
  (call)->out.data, (call)->out.elements, handle((call)->out.type), destination(call), tag(call), \
      communicator((call)->op)
#define RECEIVE_ARGUMENTS(call)                                                                   \
  (call)->in.data, (call)->in.elements, handle((call)->in.type), source(call), receive_tag(call), \
      communicator((call)->op)

#define SEND(verb, function)                      \
  static void verb(Call* call) {                  \
    prepare_send(call);                           \
    AT(call->op, function(SEND_ARGUMENTS(call))); \
  }
#define START_SEND(verb, function)                                \
  static void verb(Call* call) {                                  \
    prepare_send(call);                                           \
    AT(call->op, function(SEND_ARGUMENTS(call), &call->request)); \
  }
SEND(send, MPI_Send)
SEND(ssend, MPI_Ssend)
SEND(bsend, MPI_Bsend)
SEND(rsend, MPI_Rsend)
START_SEND(isend, MPI_Isend)
START_SEND(issend, MPI_Issend)
START_SEND(ibsend, MPI_Ibsend)
START_SEND(irsend, MPI_Irsend)
START_SEND(send_init, MPI_Send_init)
START_SEND(ssend_init, MPI_Ssend_init)
START_SEND(bsend_init, MPI_Bsend_init)

// `g` elements come (n: there is room for); `any`: the sequence tells by its beginning who has sent it.
void check_received(Call* call, const MPI_Status* status) {
  const Op* op = call->op;
  int wanted = number(op, "g", call->in.elements), got = 0;
  int first = number(op, "v", 0) + call->rounds;
  if (!has(op, "from")) return;  // from nobody
  if (has(op, "any")) first += 1000 * status->MPI_SOURCE;
  MPI_Get_count(status, handle(call->in.type), &got);
  if (got != wanted && checks) fail(op, "another number of elements than was sent");
  if (got == wanted) expect(op, call->in, 0, got, first);
}

void begin_again(Call* call) {
  ++call->rounds;
  if (call->out.data) fill(call->out, 0, call->out.elements, number(call->op, "v", 0) + call->rounds);
}

static void receive(Call* call) {
  MPI_Status status;
  prepare_receive(call);
  AT(call->op, MPI_Recv(RECEIVE_ARGUMENTS(call), &status));
  check_received(call, &status);
}

static void receive_unseen(Call* call) {  // the program is not told whose message it is
  prepare_receive(call);
  AT(call->op, MPI_Recv(RECEIVE_ARGUMENTS(call), MPI_STATUS_IGNORE));
}

// Whoever of `senders` (a digit each) comes first, then the others by name.
static void first_comer(Call* call) {
  const char* senders = word(call->op, "senders", "");
  MPI_Status status;
  prepare_receive(call);
  AT(call->op, MPI_Recv(call->in.data, call->in.elements, handle(call->in.type), MPI_ANY_SOURCE, tag(call),
                        communicator(call->op), &status));
  check_received(call, &status);
  for (const int first = status.MPI_SOURCE; *senders; ++senders) {
    if (*senders - '0' == first) continue;
    AT(call->op, MPI_Recv(call->in.data, call->in.elements, handle(call->in.type), *senders - '0', tag(call),
                          communicator(call->op), &status));
    check_received(call, &status);
  }
}

static void start_receive(Call* call) {
  prepare_receive(call);
  AT(call->op, MPI_Irecv(RECEIVE_ARGUMENTS(call), &call->request));
}

static void receive_init(Call* call) {
  prepare_receive(call);
  AT(call->op, MPI_Recv_init(RECEIVE_ARGUMENTS(call), &call->request));
}

static void sendrecv(Call* call) {
  MPI_Status status;
  prepare_send(call);
  call->in =
      make(type_of(call->op, has(call->op, "rt") ? "rt" : "t"), number(call->op, "rn", number(call->op, "n", 1)));
  AT(call->op, MPI_Sendrecv(call->out.data, call->out.elements, handle(call->out.type), destination(call), tag(call),
                            call->in.data, call->in.elements, handle(call->in.type), source(call),
                            number(call->op, "rtag", tag(call)), communicator(call->op), &status));
  if (status.MPI_SOURCE != MPI_PROC_NULL) expect(call->op, call->in, 0, call->in.elements, number(call->op, "rv", 0));
}

static void sendrecv_replace(Call* call) {
  MPI_Status status;
  prepare_send(call);
  AT(call->op,
     MPI_Sendrecv_replace(call->out.data, call->out.elements, handle(call->out.type), destination(call), tag(call),
                          source(call), number(call->op, "rtag", tag(call)), communicator(call->op), &status));
  if (status.MPI_SOURCE != MPI_PROC_NULL) expect(call->op, call->out, 0, call->out.elements, number(call->op, "rv", 0));
}

// Probes, and the receives of what they found.
static void receive_found(Call* call, const MPI_Status* found) {
  MPI_Status status;
  MPI_Get_count(found, handle(call->in.type), &call->in.elements);
  if (call->in.elements == MPI_UNDEFINED) call->in.elements = number(call->op, "n", 1);
  AT(call->op, MPI_Recv(call->in.data, call->in.elements, handle(call->in.type), found->MPI_SOURCE, found->MPI_TAG,
                        communicator(call->op), &status));
  check_received(call, &status);
}

static void probe(Call* call) {
  MPI_Status found;
  prepare_receive(call);
  AT(call->op, MPI_Probe(source(call), receive_tag(call), communicator(call->op), &found));
  receive_found(call, &found);
}

static void peek(Call* call) {  // a probe alone
  AT(call->op, MPI_Probe(source(call), receive_tag(call), communicator(call->op), MPI_STATUS_IGNORE));
}

static void iprobe(Call* call) {
  MPI_Status found;
  int there = 0;
  prepare_receive(call);
  while (!there) AT(call->op, MPI_Iprobe(source(call), receive_tag(call), communicator(call->op), &there, &found));
  receive_found(call, &found);
}

static void receive_message(Call* call, MPI_Message message) {
  MPI_Status status;
  if (has(call->op, "i")) {
    MPI_Request request;
    AT(call->op, MPI_Imrecv(call->in.data, call->in.elements, handle(call->in.type), &message, &request));
    AT(call->op, MPI_Wait(&request, &status));
  } else {
    AT(call->op, MPI_Mrecv(call->in.data, call->in.elements, handle(call->in.type), &message, &status));
  }
  check_received(call, &status);
}

static void mprobe(Call* call) {
  MPI_Message message;
  prepare_receive(call);
  AT(call->op, MPI_Mprobe(source(call), receive_tag(call), communicator(call->op), &message, MPI_STATUS_IGNORE));
  receive_message(call, message);
}

static void improbe(Call* call) {
  MPI_Message message;
  int there = 0;
  prepare_receive(call);
  while (!there) {
    AT(call->op,
       MPI_Improbe(source(call), receive_tag(call), communicator(call->op), &there, &message, MPI_STATUS_IGNORE));
  }
  receive_message(call, message);
}

static void* attached;

static void attach(Call* call) {
  const int bytes = number(call->op, "n", 1);
  attached = malloc((size_t)bytes);
  AT(call->op, MPI_Buffer_attach(attached, bytes));
}

static void detach(Call* call) {
  void* buffer;
  int bytes;
  AT(call->op, MPI_Buffer_detach(&buffer, &bytes));
  free(attached);
}

const Verb kMessageVerbs[] = {
    {"send", send, NULL},
    {"ssend", ssend, NULL},
    {"bsend", bsend, NULL},
    {"rsend", rsend, NULL},
    {"isend", isend, NULL},
    {"issend", issend, NULL},
    {"ibsend", ibsend, NULL},
    {"irsend", irsend, NULL},
    {"send_init", send_init, NULL},
    {"ssend_init", ssend_init, NULL},
    {"bsend_init", bsend_init, NULL},
    {"recv", receive, NULL},
    {"recv_unseen", receive_unseen, NULL},
    {"first_comer", first_comer, NULL},
    {"irecv", start_receive, check_received},
    {"recv_init", receive_init, check_received},
    {"sendrecv", sendrecv, NULL},
    {"sendrecv_replace", sendrecv_replace, NULL},
    {"probe", probe, NULL},
    {"peek", peek, NULL},
    {"iprobe", iprobe, NULL},
    {"mprobe", mprobe, NULL},
    {"improbe", improbe, NULL},
    {"attach", attach, NULL},
    {"detach", detach, NULL},
    {NULL, NULL, NULL},
};
