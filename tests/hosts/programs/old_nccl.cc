// A libnccl that knows only a few functions, needs no CUDA and can be unloaded: for programs that load, drop and
// replace their NCCL, and that probe it for what it can. Communicators have one rank and do everything at once.
#include <cstdlib>
#include <cstring>

#ifndef OLD_NCCL_VERSION
#define OLD_NCCL_VERSION 21003
#endif

namespace {

struct Communicator {
  int version = OLD_NCCL_VERSION;
};

struct UniqueId {
  char internal[128];
};

constexpr int kInvalidArgument = 4;
int ids = 0;

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ncclGetVersion(int* version) {
  *version = OLD_NCCL_VERSION;
  return 0;
}

EXPORT int ncclGetUniqueId(UniqueId* id) {
  std::memset(id, 0, sizeof *id);
  id->internal[0] = static_cast<char>(++ids);
  return 0;
}

EXPORT int ncclCommInitRank(Communicator** communicator, int ranks, UniqueId, int rank) {
  if (ranks != 1 || rank != 0) return kInvalidArgument;
  *communicator = new Communicator;
  return 0;
}

// A communicator of another build of this library would be a call that went to the wrong one.
EXPORT int ncclAllReduce(const void* send, void* receive, std::size_t count, int, int, Communicator* communicator,
                         void*) {
  if (communicator->version != OLD_NCCL_VERSION) std::abort();
  std::memmove(receive, send, count * sizeof(int));
  return 0;
}

EXPORT int ncclCommDestroy(Communicator* communicator) {
  if (communicator->version != OLD_NCCL_VERSION) std::abort();
  delete communicator;
  return 0;
}
