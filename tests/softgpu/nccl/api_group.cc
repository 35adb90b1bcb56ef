// Groups, user-made reductions, and the functions that tell something.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "group.h"
#include "log.h"
#include "nccl_header.h"
#include "status.h"

using softgpu::ApiCall;
using softgpu::Warn;

namespace {

constexpr unsigned kSimInfoMagic = 0x74685283;
// A made-up cost of a simulated group: softgpu has no model of a network.
constexpr float kSimulatedMicroseconds = 1.0f;

// SOFTGPU_NCCL_VERSION: the version to report, as 2.27.3 or as NCCL's number 22703.
int ReportedVersion() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  const char* text = getenv("SOFTGPU_NCCL_VERSION");
  const int parts = text ? std::sscanf(text, "%d.%d.%d", &major, &minor, &patch) : 0;
  if (parts == 3)
    return major <= 2 && minor <= 8 ? major * 1000 + minor * 100 + patch : major * 10000 + minor * 100 + patch;
  return parts == 1 && major > 1000 ? major : 22809;
}

}  // namespace

SOFTGPU_API(ncclResult_t, ncclGroupStart, ()) {
  ApiCall call(__func__);
  softgpu::GroupStart();
  return call.Done(ncclSuccess);
}

SOFTGPU_API(ncclResult_t, ncclGroupEnd, ()) {
  ApiCall call(__func__);
  call.Enter();
  return call.Done(softgpu::GroupEnd());
}

SOFTGPU_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo)) {
  ApiCall call(__func__);
  call.Enter();
  if (simInfo && softgpu::GroupDepth() == 1 && simInfo->magic != kSimInfoMagic) {
    Warn("ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
    softgpu::GroupError(ncclInvalidArgument);
  }
  const ncclResult_t result = softgpu::GroupEnd(simInfo != nullptr);
  if (simInfo && result == ncclSuccess) simInfo->estimatedTime = kSimulatedMicroseconds;
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclRedOpCreatePreMulSum,
            (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
             ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("datatype", datatype).Extra("residence", residence);
  ncclResult_t result = softgpu::CommCheck(comm, "ncclRedOpCreatePreMulSum", "comm");
  if (result == ncclSuccess) result = softgpu::EnsureReady(comm);
  if (result != ncclSuccess) return call.Done(result);
  const size_t size = softgpu::DatatypeSize(datatype);
  if (residence == ncclScalarHostImmediate && size == 0) return call.Done(ncclInternalError);
  softgpu::UserReduction made;
  made.used = true;
  made.datatype = datatype;
  made.reduction.kind = softgpu::ReductionKind::kPreMulSum;
  if (residence == ncclScalarHostImmediate) {
    std::memcpy(&made.reduction.scalar, scalar, size);
  } else {
    made.reduction.scalar_address = scalar;
  }
  int index = 0;
  {
    const std::lock_guard lock(comm->mutex);
    while (index < static_cast<int>(comm->reductions.size()) && comm->reductions[index].used) ++index;
    if (index == static_cast<int>(comm->reductions.size())) comm->reductions.emplace_back();
    comm->reductions[index] = made;
  }
  *op = softgpu::MangleReduction(comm, softgpu::kNumBuiltinOps + index);
  call.Red(*op);
  return call.Done(ncclSuccess);
}

SOFTGPU_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).Red(op);
  if (static_cast<int>(op) >= 0 && static_cast<int>(op) < softgpu::kNumBuiltinOps) {
    Warn("ncclRedOpDestroy : operator is a NCCL builtin.");
    return call.Done(ncclInvalidArgument);
  }
  if (static_cast<int>(op) < 0) {
    Warn("ncclRedOpDestroy :  operator is garbage.");
    return call.Done(ncclInvalidArgument);
  }
  if (!comm) {
    Warn("ncclRedOpDestroy : invalid communicator passed.");
    return call.Done(ncclInvalidArgument);
  }
  const int index = static_cast<int>(softgpu::MangleReduction(comm, op)) - softgpu::kNumBuiltinOps;
  const std::lock_guard lock(comm->mutex);
  if (index < 0 || index >= static_cast<int>(comm->reductions.size()) || !comm->reductions[index].used) {
    Warn("ncclRedOpDestroy : operator unknown to this communicator.");
    return call.Done(ncclInvalidArgument);
  }
  comm->reductions[index].used = false;
  return call.Done(ncclSuccess);
}

SOFTGPU_API(ncclResult_t, ncclGetVersion, (int* version)) {
  ApiCall call(__func__);
  if (!version) return call.Done(ncclInvalidArgument);
  *version = ReportedVersion();
  return call.Done(ncclSuccess);
}

SOFTGPU_API(const char*, ncclGetErrorString, (ncclResult_t code)) {
  ApiCall call(__func__);
  call.Extra("code", code).DoneWithoutResult();
  switch (static_cast<int>(code)) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

SOFTGPU_API(const char*, ncclGetLastError, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).DoneWithoutResult();
  return softgpu::LastError();
}

#undef ncclResetDebugInit
#undef pncclResetDebugInit
SOFTGPU_API(void, ncclResetDebugInit, ()) {
  ApiCall call(__func__);
  call.DoneWithoutResult();
}
