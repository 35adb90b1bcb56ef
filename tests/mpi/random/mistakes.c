// Calls that are wrong by themselves: arguments, objects that are gone or left behind. Correct programs have none.
#include <stdlib.h>
#include <string.h>

#include "player.h"

static int in[64], out[64];

static int to(const Call* call) { return number(call->op, "to", 0); }
static MPI_Comm comm(const Call* call) { return communicator(call->op); }

static MPI_Datatype row(void) {
  MPI_Datatype type;
  MPI_Type_contiguous(2, MPI_INT, &type);
  return type;
}

// ---- arguments

static void null_communicator(Call* call) { AT(call->op, MPI_Barrier(MPI_COMM_NULL)); }
static void null_type(Call* call) { AT(call->op, MPI_Send(out, 1, MPI_DATATYPE_NULL, to(call), 1, comm(call))); }
static void null_buffer(Call* call) { AT(call->op, MPI_Send(NULL, 4, MPI_INT, to(call), 1, comm(call))); }

static void null_operator(Call* call) { AT(call->op, MPI_Allreduce(out, in, 1, MPI_INT, MPI_OP_NULL, comm(call))); }

static void bits_of_reals(Call* call) {
  static double some[8], all[8];
  AT(call->op, MPI_Allreduce(some, all, 8, MPI_DOUBLE, MPI_BAND, comm(call)));
}

static void send_uncommitted(Call* call) {  // two MPI_INT
  MPI_Datatype type = row();
  AT(call->op, MPI_Send(out, 1, type, to(call), number(call->op, "tag", 1), comm(call)));
  MPI_Type_free(&type);
}

static void send_freed(Call* call) {
  MPI_Datatype type = row(), copy;
  MPI_Type_commit(&type);
  copy = type;
  MPI_Type_free(&type);
  AT(call->op, MPI_Send(out, 1, copy, to(call), number(call->op, "tag", 1), comm(call)));
}

static void barrier_of_freed(Call* call) {  // `c` has been made for it
  MPI_Comm copy = comm(call);
  MPI_Comm_free(&copy);
  if (has(call->op, "bad")) {
    planted();
    AT(call->op, MPI_Barrier(comm(call)));
  }
}

static void free_predefined(Call* call) {
  MPI_Datatype type = MPI_INT;
  AT(call->op, MPI_Type_free(&type));
}

static void free_twice(Call* call) {
  MPI_Comm mine;
  MPI_Comm_dup(MPI_COMM_SELF, &mine);
  for (int i = 0; i < 2; ++i) AT(call->op, MPI_Comm_free(&mine));
}

static void same_buffer(Call* call) {  // of everybody; where it is `bad`
  AT(call->op, MPI_Allreduce(has(call->op, "bad") ? out : in, out, 8, MPI_INT, MPI_SUM, comm(call)));
}

static void overlapping_exchange(Call* call) {  // of two; where it is `bad`
  const int tag = number(call->op, "tag", 1);
  AT(call->op, MPI_Sendrecv(in, 16, MPI_INT, to(call), tag, has(call->op, "bad") ? in + 8 : out, 16, MPI_INT, to(call),
                            tag, comm(call), MPI_STATUS_IGNORE));
}

static void init_again(Call* call) { AT(call->op, MPI_Init(NULL, NULL)); }

static void after_finalize(Call* call) {
  free_types();
  MPI_Finalize();
  planted();
  AT(call->op, MPI_Barrier(MPI_COMM_SELF));
  exit(0);
}

// ---- requests

static void copy_request(Call* call) { call->request = slot(call->op, "q")->request; }

// ---- what is left behind

static void leak_group(Call* call) {
  MPI_Group group;
  AT(call->op, MPI_Comm_group(comm(call), &group));
}

static void leak_type(Call* call) {
  MPI_Datatype type;
  AT(call->op, MPI_Type_contiguous(number(call->op, "n", 2), MPI_INT, &type));
  MPI_Type_commit(&type);
}

static void nothing(void* left, void* right, int* length, MPI_Datatype* type) {
  (void)left, (void)right, (void)length, (void)type;
}

static void leak_operator(Call* call) {
  MPI_Op op;
  AT(call->op, MPI_Op_create(nothing, 1, &op));
}

const Verb kMistakeVerbs[] = {
    {"null_communicator", null_communicator, NULL},
    {"null_type", null_type, NULL},
    {"null_buffer", null_buffer, NULL},
    {"null_operator", null_operator, NULL},
    {"bits_of_reals", bits_of_reals, NULL},
    {"send_uncommitted", send_uncommitted, NULL},
    {"send_freed", send_freed, NULL},
    {"barrier_of_freed", barrier_of_freed, NULL},
    {"free_predefined", free_predefined, NULL},
    {"free_twice", free_twice, NULL},
    {"same_buffer", same_buffer, NULL},
    {"overlapping_exchange", overlapping_exchange, NULL},
    {"init_again", init_again, NULL},
    {"after_finalize", after_finalize, NULL},
    {"copy_request", copy_request, NULL},
    {"leak_group", leak_group, NULL},
    {"leak_type", leak_type, NULL},
    {"leak_operator", leak_operator, NULL},
    {NULL, NULL, NULL},
};
