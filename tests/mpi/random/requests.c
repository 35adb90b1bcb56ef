// Requests: `q` is the first of `k` slots. Waits and tests go on until all of them are done.
#include <stdlib.h>

#include "player.h"

Call slots[kSlots];

Call* slot(const Op* op, const char* key) { return &slots[number(op, key, 0)]; }

typedef struct {
  Call* first;
  int count;
  MPI_Request requests[kSlots];
  MPI_Status statuses[kSlots];
  int indices[kSlots];
} Many;

static Many taken(const Op* op) {
  Many many;
  many.first = slot(op, "q");
  many.count = number(op, "k", 1);
  for (int i = 0; i < many.count; ++i) many.requests[i] = many.first[i].request;
  return many;
}

static void done(Many* many, int index, const MPI_Status* status) {
  Call* call = &many->first[index];
  call->request = many->requests[index];
  const Verb* what = call->op ? verb(call->op->name) : NULL;
  if (what && what->check) what->check(call, status);
}

static void all_done(Many* many) {
  for (int i = 0; i < many->count; ++i) done(many, i, &many->statuses[i]);
}

static void some_done(Many* many, int count) {
  for (int i = 0; i < count; ++i) done(many, many->indices[i], &many->statuses[i]);
}

static void wait_one(Call* call) {
  Many many = taken(call->op);
  AT(call->op, MPI_Wait(many.requests, many.statuses));
  all_done(&many);
}

static void wait_all(Call* call) {
  Many many = taken(call->op);
  AT(call->op, MPI_Waitall(many.count, many.requests, many.statuses));
  all_done(&many);
}

static void wait_any(Call* call) {
  Many many = taken(call->op);
  for (int i = 0; i < many.count; ++i) {
    int index = MPI_UNDEFINED;
    AT(call->op, MPI_Waitany(many.count, many.requests, &index, many.statuses));
    if (index == MPI_UNDEFINED) break;
    done(&many, index, many.statuses);
  }
}

static void wait_some(Call* call) {
  Many many = taken(call->op);
  for (int left = many.count; left > 0;) {
    int count = 0;
    AT(call->op, MPI_Waitsome(many.count, many.requests, &count, many.indices, many.statuses));
    if (count == MPI_UNDEFINED) break;
    some_done(&many, count);
    left -= count;
  }
}

static void test_one(Call* call) {
  Many many = taken(call->op);
  int flag = 0;
  while (!flag) AT(call->op, MPI_Test(many.requests, &flag, many.statuses));
  all_done(&many);
}

static void test_all(Call* call) {
  Many many = taken(call->op);
  int flag = 0;
  while (!flag) AT(call->op, MPI_Testall(many.count, many.requests, &flag, many.statuses));
  all_done(&many);
}

static void test_any(Call* call) {
  Many many = taken(call->op);
  for (int left = many.count; left > 0;) {
    int index = MPI_UNDEFINED, flag = 0;
    AT(call->op, MPI_Testany(many.count, many.requests, &index, &flag, many.statuses));
    if (!flag) continue;
    if (index == MPI_UNDEFINED) break;
    done(&many, index, many.statuses);
    --left;
  }
}

static void test_some(Call* call) {
  Many many = taken(call->op);
  for (int left = many.count; left > 0;) {
    int count = 0;
    AT(call->op, MPI_Testsome(many.count, many.requests, &count, many.indices, many.statuses));
    if (count == MPI_UNDEFINED) break;
    some_done(&many, count);
    left -= count;
  }
}

static void start(Call* call) {
  Call* one = slot(call->op, "q");
  begin_again(one);
  AT(call->op, MPI_Start(&one->request));
}

static void start_all(Call* call) {
  Many many = taken(call->op);
  for (int i = 0; i < many.count; ++i) begin_again(&many.first[i]);
  AT(call->op, MPI_Startall(many.count, many.requests));
  for (int i = 0; i < many.count; ++i) many.first[i].request = many.requests[i];
}

static void cancel(Call* call) { AT(call->op, MPI_Cancel(&slot(call->op, "q")->request)); }

static void wait_cancelled(Call* call) {  // of a receive that nobody sends to
  MPI_Status status;
  int cancelled = 0;
  AT(call->op, MPI_Wait(&slot(call->op, "q")->request, &status));
  MPI_Test_cancelled(&status, &cancelled);
  if (!cancelled && checks) fail(call->op, "not cancelled");
}

static void free_request(Call* call) {
  for (int i = 0; i < number(call->op, "k", 1); ++i) AT(call->op, MPI_Request_free(&slot(call->op, "q")[i].request));
}

const Verb kRequestVerbs[] = {
    {"wait", wait_one, NULL},
    {"waitall", wait_all, NULL},
    {"waitany", wait_any, NULL},
    {"waitsome", wait_some, NULL},
    {"test", test_one, NULL},
    {"testall", test_all, NULL},
    {"testany", test_any, NULL},
    {"testsome", test_some, NULL},
    {"start", start, NULL},
    {"startall", start_all, NULL},
    {"cancel", cancel, NULL},
    {"wait_cancelled", wait_cancelled, NULL},
    {"request_free", free_request, NULL},
    {NULL, NULL, NULL},
};
