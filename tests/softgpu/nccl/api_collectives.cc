// ncclAllReduce and its like: argument checks, and what a call gives its group.
#include <cstdio>
#include <cstdlib>

#include "driver.h"
#include "group.h"
#include "log.h"
#include "nccl_header.h"
#include "status.h"

namespace softgpu {
namespace {

enum class Call {
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kRecv
};

struct Request {
  Call call;
  const char* name;
  const void* send;
  void* receive;
  size_t count;
  int datatype;
  int op;
  int root;  // or peer
  ncclComm* comm;
  CUstream stream;
};

// SOFTGPU_NCCL_RESULT="rank:call:code": the `call`-th communication call (from 0) of every communicator on that rank
// does nothing and returns `code`.
ncclResult_t InjectedResult(ncclComm* comm) {
  struct Injected {
    int rank = -1;
    unsigned long long call = 0;
    int code = 0;
  };
  static const Injected injected = [] {
    Injected parsed;
    const char* text = getenv("SOFTGPU_NCCL_RESULT");
    if (text && std::sscanf(text, "%d:%llu:%d", &parsed.rank, &parsed.call, &parsed.code) != 3) parsed.rank = -1;
    return parsed;
  }();
  if (injected.rank != comm->rank || comm->calls++ != injected.call) return ncclSuccess;
  Warn("softgpu: injected failure of communicator rank %d", comm->rank);
  return static_cast<ncclResult_t>(injected.code);
}

ncclResult_t CheckArguments(const Request& r) {
  if (r.root < 0 || r.root >= r.comm->nranks) {
    Warn("%s : invalid root %d (root should be in the 0..%d range)", r.name, r.root, r.comm->nranks);
    return ncclInvalidArgument;
  }
  if (r.datatype < 0 || r.datatype >= kNumDatatypes) {
    Warn("%s : invalid type %d", r.name, r.datatype);
    return ncclInvalidArgument;
  }
  if (r.op < 0) {
    Warn("%s : invalid reduction operation %d", r.name, r.op);
    return ncclInvalidArgument;
  }
  UserReduction user;
  if (r.op >= kNumBuiltinOps && !FindUserReduction(r.comm, r.op, &user)) {
    Warn("%s : reduction operation %d unknown to this communicator", r.name, r.op);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t Resolve(const Request& r, Reduction* reduction) {
  if (r.op < kNumBuiltinOps) {
    *reduction = BuiltinReduction(r.op, r.datatype, r.comm->nranks);
    return ncclSuccess;
  }
  UserReduction user;
  if (!FindUserReduction(r.comm, r.op, &user) || user.datatype != r.datatype) {
    Warn("Data type supplied to user-created ncclRedOp_t does not match type given to reduction operation");
    return ncclInvalidArgument;
  }
  *reduction = user.reduction;
  return ncclSuccess;
}

template <class Work>
ncclResult_t Give(const Request& r, Work work) {
  profiler::StartCall(r.comm, r.stream, &work.task);
  const ncclResult_t result = GroupAdd(r.comm, r.stream, work);
  profiler::StopCall(&work.task);
  return result;
}

ncclResult_t AddTransfer(const Request& r, bool is_send, int peer, const void* base, size_t index) {
  PointToPoint transfer;
  transfer.is_send = is_send;
  transfer.peer = peer;
  transfer.bytes = r.count * DatatypeSize(r.datatype);
  transfer.buffer = static_cast<uint8_t*>(const_cast<void*>(base)) + index * transfer.bytes;
  transfer.task = {.function = is_send ? "Send" : "Recv",
                   .count = r.count,
                   .datatype = r.datatype,
                   .root = peer,
                   .is_message = true};
  return Give(r, transfer);
}

// NCCL makes AlltoAll, Gather and Scatter out of sends and receives.
ncclResult_t AddExchanges(const Request& r) {
  ncclResult_t result = ncclSuccess;
  const bool is_root = r.comm->rank == r.root;
  const auto add = [&](bool is_send, int peer, size_t index) {
    if (result == ncclSuccess) result = AddTransfer(r, is_send, peer, is_send ? r.send : r.receive, index);
  };
  if (r.call == Call::kGather) add(true, r.root, 0);
  for (int peer = 0; peer < r.comm->nranks; ++peer) {
    if (r.call == Call::kAlltoAll || (r.call == Call::kScatter && is_root)) add(true, peer, peer);
    if (r.call == Call::kAlltoAll || (r.call == Call::kGather && is_root)) add(false, peer, peer);
  }
  if (r.call == Call::kScatter) add(false, r.root, 0);
  return result;
}

ncclResult_t AddCollective(const Request& r) {
  if (r.count == 0) return ncclSuccess;
  Collective c;
  if (const ncclResult_t result = Resolve(r, &c.reduction); result != ncclSuccess) return result;
  const bool exchange = r.call == Call::kAlltoAll || r.call == Call::kGather || r.call == Call::kScatter;
  if (exchange && r.comm->nranks > 1) return AddExchanges(r);
  c.send = r.send;
  c.receive = r.receive;
  c.count = r.count;
  c.datatype = r.datatype;
  c.root = r.root;
  if (r.comm->nranks == 1) return LaunchAlone(r.comm, r.stream, c);
  c.function = static_cast<Function>(r.call);
  if (r.call == Call::kBroadcast || r.call == Call::kAllGather) {
    c.count *= DatatypeSize(r.datatype);
    c.datatype = ncclInt8;
  }
  c.task = {.function = r.name, .count = c.count, .datatype = c.datatype, .root = r.root};
  return Give(r, c);
}

static_assert(static_cast<int>(Call::kBroadcast) == static_cast<int>(Function::kBroadcast) &&
              static_cast<int>(Call::kAllReduce) == static_cast<int>(Function::kAllReduce));

ncclResult_t Add(const Request& r) {
  ncclResult_t result = EnsureReady(r.comm);
  if (result == ncclSuccess) result = InjectedResult(r.comm);
  if (result == ncclSuccess) result = CheckArguments(r);
  if (result != ncclSuccess) return result;
  if (r.comm->suspended.load()) {
    Warn("%s: communicator is suspended", r.name);
    return ncclInvalidUsage;
  }
  // Sends and receives of nothing are real: each still waits for its partner.
  if (r.call == Call::kSend) return AddTransfer(r, true, r.root, r.send, 0);
  if (r.call == Call::kRecv) return AddTransfer(r, false, r.root, r.receive, 0);
  return AddCollective(r);
}

ncclResult_t Enqueue(const Request& r) {
  ncclResult_t result = CommCheck(r.comm, r.name, "comm");
  if (result != ncclSuccess) return GroupError(result);
  if (r.comm->revoked.load()) {
    Warn("%s: communicator was revoked", r.name);
    return GroupError(ncclInvalidUsage);
  }
  GroupStart();
  result = Add(r);
  if (result != ncclSuccess && !r.comm->config.blocking) r.comm->async_result.store(result);
  GroupError(result);
  const ncclResult_t end = GroupEnd();
  if (end != ncclSuccess && end != ncclInProgress) return end;
  if (!r.comm->config.blocking) ncclCommGetAsyncError(r.comm, &result);
  return result;
}

}  // namespace
}  // namespace softgpu

using softgpu::ApiCall;
using softgpu::Call;

SOFTGPU_API(ncclResult_t, ncclAllReduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Red(op).Stream(stream);
  return call.Done(
      softgpu::Enqueue({Call::kAllReduce, "AllReduce", sendbuff, recvbuff, count, datatype, op, 0, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclReduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Red(op).Root(root).Stream(stream);
  return call.Done(
      softgpu::Enqueue({Call::kReduce, "Reduce", sendbuff, recvbuff, count, datatype, op, root, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclBroadcast,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Root(root).Stream(stream);
  return call.Done(softgpu::Enqueue(
      {Call::kBroadcast, "Broadcast", sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclBcast,
            (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, buff, buff).Root(root).Stream(stream);
  return call.Done(ncclBroadcast(buff, buff, count, datatype, root, comm, stream));
}

SOFTGPU_API(ncclResult_t, ncclReduceScatter,
            (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(recvcount, datatype, sendbuff, recvbuff).Red(op).Stream(stream);
  return call.Done(softgpu::Enqueue(
      {Call::kReduceScatter, "ReduceScatter", sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclAllGather,
            (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
             cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(sendcount, datatype, sendbuff, recvbuff).Stream(stream);
  return call.Done(softgpu::Enqueue(
      {Call::kAllGather, "AllGather", sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclAlltoAll,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
             cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Stream(stream);
  return call.Done(
      softgpu::Enqueue({Call::kAlltoAll, "AlltoAll", sendbuff, recvbuff, count, datatype, ncclSum, 0, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclGather,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Root(root).Stream(stream);
  return call.Done(
      softgpu::Enqueue({Call::kGather, "Gather", sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclScatter,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Root(root).Stream(stream);
  return call.Done(
      softgpu::Enqueue({Call::kScatter, "Scatter", sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclSend,
            (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
             cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, nullptr).Peer(peer).Stream(stream);
  return call.Done(
      softgpu::Enqueue({Call::kSend, "Send", sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream}));
}

SOFTGPU_API(ncclResult_t, ncclRecv,
            (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, nullptr, recvbuff).Peer(peer).Stream(stream);
  return call.Done(
      softgpu::Enqueue({Call::kRecv, "Recv", nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream}));
}
