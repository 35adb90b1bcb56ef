// A libnccl without a GPU: real signatures, NCCL's rules for arguments and groups, and a note of every call that
// reaches it. Steered and read through the functions of fake_nccl.h.
#include "tests/unit/shim/fake_nccl.h"

#include <nccl.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

struct ncclComm {
  int rank = 0;
  int size = 1;
  std::atomic<int> async{ncclSuccess};
};

namespace {

std::mutex mutex;
std::vector<std::string> names;
std::atomic<int> next_result{ncclSuccess};
std::atomic<int> id_counter{0};
std::atomic<int> questions{0};
std::atomic<void (*)()> on_call{nullptr};

struct PendingSplit {
  ncclComm* parent;
  ncclComm_t* out;
};
thread_local int depth = 0;
thread_local int group_error = ncclSuccess;
thread_local std::vector<PendingSplit> pending;

// Returns the result that the test has ordered for this one call.
ncclResult_t Reach(const char* name) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    names.emplace_back(name);
  }
  if (auto* run = on_call.load()) run();
  return static_cast<ncclResult_t>(next_result.exchange(ncclSuccess));
}

ncclResult_t Operation(const char* name, ncclComm_t comm, ncclDataType_t type) {
  ncclResult_t result = Reach(name);
  if (!comm || type < 0 || type >= ncclNumTypes) result = ncclInvalidArgument;
  if (depth > 0 && result != ncclSuccess) group_error = result;
  return result;
}

ncclComm* Make(int rank, int size) {
  auto* comm = new ncclComm;
  comm->rank = rank;
  comm->size = size;
  return comm;
}

}  // namespace

std::vector<std::string> FakeCalls() {
  const std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(names, {});
}
void FakeNextResult(int result) { next_result = result; }
void FakeSettle(ncclComm_t comm, int result) { comm->async = result; }
ncclComm* FakeUnseen(int rank, int size) { return Make(rank, size); }
int FakeQuestions() { return questions.exchange(0); }
void FakeOnCall(void (*run)()) { on_call = run; }

extern "C" {
ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "fake"; }
const char* ncclGetLastError(ncclComm_t) {
  ++questions;
  return "fake";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  const int number = ++id_counter;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId, int rank, ncclConfig_t* config) {
  const ncclResult_t result = Reach("ncclCommInitRankConfig");
  if (result != ncclSuccess) return result;
  *comm = Make(rank, size);
  if (!config || config->blocking != 0) return ncclSuccess;
  (*comm)->async = ncclInProgress;
  return ncclInProgress;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId, int rank) {
  const ncclResult_t result = Reach("ncclCommInitRank");
  if (result == ncclSuccess) *comm = Make(rank, size);
  return result;
}
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int*) {
  const ncclResult_t result = Reach("ncclCommInitAll");
  for (int i = 0; result == ncclSuccess && i < count; ++i) comms[i] = Make(i, count);
  return result;
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int, ncclComm_t* out, ncclConfig_t*) {
  const ncclResult_t result = Reach("ncclCommSplit");
  if (result != ncclSuccess) return result;
  *out = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  if (depth > 0)
    pending.push_back({comm, out});
  else
    *out = Make(0, comm->size / 2);
  return ncclSuccess;
}
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
ncclResult_t ncclCommShrink(ncclComm_t comm, int*, int excluded, ncclComm_t* out, ncclConfig_t*, int) {
  const ncclResult_t result = Reach("ncclCommShrink");
  if (result == ncclSuccess) *out = Make(0, comm->size - excluded);
  return result;
}
#endif
ncclResult_t ncclCommFinalize(ncclComm_t) { return Reach("ncclCommFinalize"); }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const ncclResult_t result = Reach("ncclCommDestroy");
  delete comm;
  return result;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t result = Reach("ncclCommAbort");
  delete comm;
  return result;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = static_cast<ncclResult_t>(comm->async.load());
  return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* size) {
  ++questions;
  *size = comm->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  ++questions;
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t, int* device) {
  ++questions;
  *device = 3;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  Reach("ncclGroupStart");
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  ncclResult_t result = Reach("ncclGroupEnd");
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  if (group_error != ncclSuccess) result = static_cast<ncclResult_t>(group_error);
  group_error = ncclSuccess;
  for (const PendingSplit& split : std::exchange(pending, {}))
    if (result == ncclSuccess) *split.out = Make(1, split.parent->size / 2);
  return result;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t) {
  return Operation("ncclAllReduce", comm, type);
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t type, int, ncclComm_t comm, cudaStream_t) {
  return Operation("ncclBroadcast", comm, type);
}
// Through the procedure linkage table, as the real one does.
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  Reach("ncclBcast");
  const ncclResult_t result = ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
  return result;
}
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t type, int, ncclComm_t comm, cudaStream_t) {
  return Operation("ncclSend", comm, type);
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t type, int, ncclComm_t comm, cudaStream_t) {
  return Operation("ncclRecv", comm, type);
}
}
