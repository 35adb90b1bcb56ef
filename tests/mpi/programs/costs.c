// What a call may not ask of the system again each time, counted: the functions here stand in front of libc's.
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

enum { kRounds = 1000, kFew = kRounds / 10, kMany = 200 };

static long mapped, memory_read, modules_seen;

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  ++mapped;
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  long words[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; ++i) words[i] = va_arg(arguments, long);
  va_end(arguments);
  memory_read += number == SYS_process_vm_readv;
  return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

typedef struct {
  int (*visit)(struct dl_phdr_info*, size_t, void*);
  void* data;
} Visitor;
static int visit_counted(struct dl_phdr_info* info, size_t bytes, void* visitor) {
  ++modules_seen;
  return ((Visitor*)visitor)->visit(info, bytes, ((Visitor*)visitor)->data);
}
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info*, size_t, void*), void* data) {
  static int (*real)(int (*)(struct dl_phdr_info*, size_t, void*), void*);
  if (!real) real = (int (*)(int (*)(struct dl_phdr_info*, size_t, void*), void*))dlsym(RTLD_NEXT, "dl_iterate_phdr");
  Visitor visitor = {visit, data};
  return real(visit_counted, &visitor);
}

static void many_requests(void) {
  MPI_Request requests[kMany];
  int got[kMany], place, flag, done[kMany];
  for (int i = 0; i < kMany; ++i) MPI_Irecv(&got[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
  const long before = mapped;
  for (int i = 0; i < kRounds; ++i) {
    MPI_Testany(kMany, requests, &place, &flag, MPI_STATUS_IGNORE);
    MPI_Testall(kMany, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Testsome(kMany, requests, &place, done, MPI_STATUSES_IGNORE);
  }
  require(mapped - before < kFew, "memory is mapped once");
  for (int i = 0; i < kMany; ++i) MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_SELF);
  MPI_Waitany(kMany, requests, &place, MPI_STATUS_IGNORE);
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; ++i) fold(got[i]);
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);  // there is nothing left
}

// Behind a tool that comes after the library each of them is a call inside a call.
static void inner_calls(void) {
  int sum = 0;
  for (int i = 0; i < kFew; ++i) {
    const long read = memory_read, seen = modules_seen;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    fold(sum);
    require(i == 0 || (memory_read == read && modules_seen == seen), "nothing is asked twice");
  }
}

int main(int argc, char** argv) {
  static const Case cases[] = {
      {"many_requests", many_requests},
      {"inner_calls", inner_calls},
  };
  return RUN_CLEAN(argc, argv, cases, MPI_THREAD_SINGLE);
}
