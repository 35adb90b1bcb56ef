// Another libnccl in the same process, as an inference engine brings beside that of the framework.
#include <nccl.h>

namespace {
int calls = 0;
struct Comm {
  int rank, size;
};
}  // namespace

extern "C" {
int SecondCalls() { return calls; }
ncclResult_t ncclGetVersion(int* version) {
  *version = 21805;
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId, int rank) {
  ++calls;
  *comm = reinterpret_cast<ncclComm_t>(new Comm{rank, size});
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* size) {
  *size = reinterpret_cast<const Comm*>(comm)->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = reinterpret_cast<const Comm*>(comm)->rank;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) {
  ++calls;
  return ncclSuccess;
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  ++calls;
  return ncclSuccess;
}
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  ++calls;
  const ncclResult_t result = ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
  return result;
}
}
