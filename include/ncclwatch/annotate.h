/* What a program may tell ncclwatch of itself, if it wants to. C99 and C++.
 *
 * Header only: a program that uses it runs as before where ncclwatch is not preloaded, and each function is then one
 * load and a branch (the first is a search). All may be called from any thread, and never fail. Before glibc 2.34 the
 * program needs -ldl. */
#ifndef NCCLWATCH_ANNOTATE_H
#define NCCLWATCH_ANNOTATE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* libncclwatch.so's function of this name, NULL without it. Asked once for each `known` and source file: a weak
 * reference would be cheaper, but some linkers settle at link time that there is no such function. */
static inline void* ncclwatch_find(const char* name, void** known) {
  void* found = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (found == NULL) {
    found = dlsym(NULL, name); /* RTLD_DEFAULT */
    if (found == NULL) found = known;
    __atomic_store_n(known, found, __ATOMIC_RELAXED);
  }
  return found == (void*)known ? NULL : found;
}

/* Names a communicator: every list and verdict then shows the name. NULL or "" takes it away.
 *
 * communicator: an ncclComm_t, or an MPI_Comm as (void*)(intptr_t)comm; any other value does nothing.
 * name: UTF-8, copied; longer ones are cut after 47 bytes. */
static inline void ncclwatch_label(void* communicator, const char* name) {
  static void* known;
  void* const set = ncclwatch_find("ncclwatch_set_label", &known);
  if (set != NULL) (__extension__(void (*)(void*, const char*)) set)(communicator, name);
}

static inline void ncclwatch_say_payload(void* communicator, const char* op, uint64_t count, const char* name,
                                         int begins) {
  static void* known;
  void* const set = ncclwatch_find("ncclwatch_set_payload", &known);
  if (set != NULL)
    (__extension__(void (*)(void*, const char*, uint64_t, const char*, int)) set)(communicator, op, count, name,
                                                                                  begins);
}

/* From the communicator's next call on, collectives of this operation and count carry `name`, "DDP bucket 0", until the
 * end is told. If several names hold for a call, it is said to carry one of them.
 *
 * communicator: an ncclComm_t.
 * op: "AllReduce", "AllGather", ...
 * count: as the calls have it.
 * name: UTF-8, copied; longer ones are cut after 155 bytes. */
static inline void ncclwatch_payload_begin(void* communicator, const char* op, uint64_t count, const char* name) {
  ncclwatch_say_payload(communicator, op, count, name, 1);
}
static inline void ncclwatch_payload_end(void* communicator, const char* op, uint64_t count, const char* name) {
  ncclwatch_say_payload(communicator, op, count, name, 0);
}

static inline void ncclwatch_say_step(int64_t step, int begins) {
  static void* known;
  void* const set = ncclwatch_find("ncclwatch_set_step", &known);
  if (set != NULL) (__extension__(void (*)(int64_t, int)) set)(step, begins);
}

/* A step of the training loop begins, and ends: metrics belong to the one that has begun. */
static inline void ncclwatch_step_begin(int64_t step) { ncclwatch_say_step(step, 1); }
static inline void ncclwatch_step_end(int64_t step) { ncclwatch_say_step(step, 0); }

/* A number of this rank, in the step that has begun: "loss", "grad_norm", or any other name; NaN and Inf are what it is
 * for. "replica:..." says that all ranks must have the same.
 *
 * name: UTF-8, copied; longer ones are cut after 27 bytes. */
static inline void ncclwatch_metric(const char* name, double value) {
  static void* known;
  void* const set = ncclwatch_find("ncclwatch_set_metric", &known);
  if (set != NULL) (__extension__(void (*)(const char*, double)) set)(name, value);
}

/* Something has happened: a line of events.jsonl in the run directory and in NCCLWATCH_OUT, with time, step, rank, host
 * and job. "checkpoint" says that one has been written, "failure" that something went wrong. Never waits for a file:
 * the watchdog's thread writes.
 *
 * type: UTF-8, copied; longer ones are cut after 43 bytes.
 * json: the details, a JSON value, copied; NULL for none. What is no JSON, or longer than 951 bytes, is kept as text.
 */
static inline void ncclwatch_event(const char* type, const char* json) {
  static void* known;
  void* const add = ncclwatch_find("ncclwatch_add_event", &known);
  if (add != NULL) (__extension__(void (*)(const char*, const char*)) add)(type, json);
}

#ifdef __cplusplus
}
#endif

#endif
