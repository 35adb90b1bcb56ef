// A module linked to a libnccl of its own, as extensions of Python are.
#include <cstddef>

extern "C" {
struct UniqueId {
  char internal[128];
};
int ncclGetVersion(int* version);
int ncclGetUniqueId(UniqueId* id);
int ncclCommInitRank(void** communicator, int ranks, UniqueId id, int rank);
int ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int op, void* communicator,
                  void* stream);
int ncclCommDestroy(void* communicator);

// The version of the library that it reaches, or -1.
__attribute__((visibility("default"))) int plugin_use(int count) {
  int version = 0;
  UniqueId id{};
  void* communicator = nullptr;
  if (ncclGetVersion(&version) != 0 || ncclGetUniqueId(&id) != 0) return -1;
  if (ncclCommInitRank(&communicator, 1, id, 0) != 0) return -1;
  int in[64] = {17}, out[64] = {};
  if (ncclAllReduce(in, out, static_cast<std::size_t>(count), 2, 0, communicator, nullptr) != 0 || out[0] != 17)
    return -1;
  return ncclCommDestroy(communicator) == 0 ? version : -1;
}
}
