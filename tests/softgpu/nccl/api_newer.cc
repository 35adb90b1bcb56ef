// Functions of NCCL 2.29 to 2.32. Where the build's nccl.h lacks them they are declared here.
#include <cstring>

#include "create.h"
#include "group.h"
#include "log.h"
#include "nccl_header.h"
#include "status.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 29, 7)
typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;
#define NCCL_SUSPEND_MEM 0x01
#endif

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 31, 0)
// Only what every version of the structure begins with.
typedef struct ncclCollConfig {
  size_t size;
  unsigned int magic;
  unsigned int version;
} ncclCollConfig_t;
#endif

using softgpu::ApiCall;
using softgpu::CommCheck;
using softgpu::EnsureReady;
using softgpu::GroupError;
using softgpu::Warn;

namespace {

constexpr unsigned kNewerConfigMagic = 0xcafebeef;

ncclResult_t CheckConfig(const ncclCollConfig_t* config) {
  if (!config || config->magic == kNewerConfigMagic) return ncclSuccess;
  Warn("ncclCollConfig_t argument not initialized via NCCL_COLLCONFIG_INITIALIZER");
  return GroupError(ncclInvalidArgument);
}

}  // namespace

SOFTGPU_API(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId)) {
  ApiCall call(__func__);
  call.Comm(comm);
  ncclResult_t result = CommCheck(comm, "ncclCommGetUniqueId", "comm");
  if (result == ncclSuccess) result = EnsureReady(comm);
  if (result == ncclSuccess) result = softgpu::PointerCheck(uniqueId, "CommGetUniqueId", "uniqueId");
  if (result == ncclSuccess) *uniqueId = softgpu::GrowId(comm);
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommGrow,
            (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
             ncclConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("nranks", nRanks).Extra("rank", rank).Enter();
  if (!newcomm) return call.Done(ncclInvalidArgument);
  *newcomm = nullptr;
  if (nRanks <= 0 || (comm && comm->magic == softgpu::kCommMagic && nRanks <= comm->nranks)) {
    Warn("ncclCommGrow: total ranks %d is not more than the current ranks", nRanks);
    return call.Done(ncclInvalidArgument);
  }
  softgpu::GroupStart();
  const ncclResult_t result = softgpu::Grow(comm, nRanks, uniqueId, rank, newcomm, config);
  GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  return call.Done(end != ncclSuccess && end != ncclInProgress ? end : result);
}

SOFTGPU_API(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("flags", flags);
  ncclResult_t result = CommCheck(comm, "ncclCommSuspend", "comm");
  if (result == ncclSuccess) result = EnsureReady(comm);
  if (result == ncclSuccess && (flags != NCCL_SUSPEND_MEM || comm->suspended.exchange(true))) {
    result = ncclInvalidArgument;
  }
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommResume, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm);
  ncclResult_t result = CommCheck(comm, "ncclCommResume", "comm");
  if (result == ncclSuccess && !comm->suspended.exchange(false)) result = ncclInvalidUsage;
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("stat", stat);
  ncclResult_t result = CommCheck(comm, "ncclCommMemStats", "comm");
  if (result == ncclSuccess) result = softgpu::PointerCheck(value, "ncclCommMemStats", "value");
  if (result == ncclSuccess && (stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal))
    result = ncclInvalidArgument;
  // softgpu keeps its buffers in shared memory of the host: there is no device memory to tell of.
  if (result == ncclSuccess) *value = stat == ncclStatGpuMemSuspended ? comm->suspended.load() : 0;
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclAllReduceConfig,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Red(op).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream));
}

SOFTGPU_API(ncclResult_t, ncclBroadcastConfig,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Root(root).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream));
}

SOFTGPU_API(ncclResult_t, ncclReduceConfig,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Red(op).Root(root).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream));
}

SOFTGPU_API(ncclResult_t, ncclAllGatherConfig,
            (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(sendcount, datatype, sendbuff, recvbuff).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream));
}

SOFTGPU_API(ncclResult_t, ncclReduceScatterConfig,
            (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(recvcount, datatype, sendbuff, recvbuff).Red(op).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream));
}

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 3)
extern "C" {
ncclResult_t ncclAlltoAll(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
ncclResult_t ncclGather(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t ncclScatter(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
}
#endif

SOFTGPU_API(ncclResult_t, ncclAlltoAllConfig,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream));
}

SOFTGPU_API(ncclResult_t, ncclGatherConfig,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Root(root).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream));
}

SOFTGPU_API(ncclResult_t, ncclScatterConfig,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream, const ncclCollConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Data(count, datatype, sendbuff, recvbuff).Root(root).Stream(stream);
  if (const ncclResult_t result = CheckConfig(config); result != ncclSuccess) return call.Done(result);
  return call.Done(ncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream));
}
