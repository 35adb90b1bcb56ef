// One rank that calls NCCL from a function, from one that is inlined, and from a template in a namespace. NCCL's few
// functions are declared here, so that the program is compiled without any toolkit.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
struct ncclComm;
struct ncclUniqueId {
  char internal[128];
};
int ncclGetUniqueId(ncclUniqueId* id);
int ncclCommInitRank(ncclComm** comm, int size, ncclUniqueId id, int rank);
int ncclCommDestroy(ncclComm* comm);
int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, ncclComm* comm, void* stream);
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, ncclComm* comm, void* stream);
int ncclReduce(const void* from, void* to, size_t count, int type, int op, int root, ncclComm* comm, void* stream);
}

namespace {

void Must(int result) {
  if (result == 0) return;
  std::fprintf(stderr, "NCCL returned %d\n", result);
  std::exit(1);
}

}  // namespace

__attribute__((noinline)) void Average(ncclComm* comm) {
  Must(ncclAllReduce(nullptr, nullptr, 0, 7, 0, comm, nullptr));
}

__attribute__((always_inline)) inline void ShareInline(ncclComm* comm) {
  Must(ncclBroadcast(nullptr, nullptr, 0, 7, 0, comm, nullptr));
}

namespace layers {

template <typename T>
struct Layer {
  __attribute__((noinline)) void Collect(ncclComm* comm) {
    Must(ncclReduce(nullptr, nullptr, 0, 7, 0, 0, comm, nullptr));
  }
};

}  // namespace layers

int main() {
  ncclUniqueId id{};
  ncclComm* comm = nullptr;
  Must(ncclGetUniqueId(&id));
  Must(ncclCommInitRank(&comm, 1, id, 0));
  Average(comm);
  ShareInline(comm);
  layers::Layer<float>().Collect(comm);
  Must(ncclCommDestroy(comm));
  std::getchar();  // the watchdog names call sites while their process lives
}
