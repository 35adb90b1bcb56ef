// Making, ending and asking communicators.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/random.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "create.h"
#include "driver.h"
#include "group.h"
#include "log.h"
#include "nccl_header.h"
#include "status.h"

using softgpu::ApiCall;
using softgpu::CommCheck;
using softgpu::EnsureReady;
using softgpu::GroupError;
using softgpu::PointerCheck;
using softgpu::Warn;

namespace {

constexpr uint64_t kMagicOfEnvironmentId = 0x0280028002800280ULL;

// NCCL_COMM_ID: host:port. All ids are then equal, and communicators are told apart by the order of creation.
bool AddressFromText(const std::string& text, sockaddr_in* address) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(text.substr(0, colon).c_str(), text.substr(colon + 1).c_str(), &hints, &found) != 0) return false;
  std::memcpy(address, found->ai_addr, sizeof *address);
  freeaddrinfo(found);
  return true;
}

// Of the first interface that is up and leads somewhere; docker's bridges only where there is no other, as NCCL
// chooses.
in_addr OwnAddress() {
  in_addr address{htonl(INADDR_LOOPBACK)};
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return address;
  bool found = false;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    const bool usable = (one->ifa_flags & IFF_UP) && !(one->ifa_flags & IFF_LOOPBACK);
    if (!usable || !one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    const bool bridge = std::strncmp(one->ifa_name, "docker", 6) == 0;
    if (found && bridge) continue;
    sockaddr_in in{};
    std::memcpy(&in, one->ifa_addr, sizeof in);
    address = in.sin_addr;
    found = true;
    if (!bridge) break;
  }
  freeifaddrs(all);
  return address;
}

// Magic, then a socket address, then zeros, as NCCL lays it out. Nobody listens at the address.
ncclResult_t MakeUniqueId(ncclUniqueId* id) {
  uint64_t magic = kMagicOfEnvironmentId;
  sockaddr_in address{};
  if (const char* text = getenv("NCCL_COMM_ID"); text && *text) {
    if (!AddressFromText(text, &address)) {
      Warn("Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or [<ipv6>]:<port> or <hostname>:<port>");
      return ncclInvalidArgument;
    }
  } else {
    uint16_t port = 0;
    if (getrandom(&magic, sizeof magic, 0) != sizeof magic || getrandom(&port, sizeof port, 0) != sizeof port) {
      return ncclSystemError;
    }
    address.sin_family = AF_INET;
    address.sin_port = static_cast<uint16_t>(port | htons(0x8000));
    address.sin_addr = OwnAddress();
  }
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &magic, sizeof magic);
  std::memcpy(id->internal + sizeof magic, &address, sizeof address);
  return ncclSuccess;
}

const ncclConfig_t& DefaultConfig() {
  static const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}

// ncclCommInitRankConfig and ncclCommInitRankScalable.
ncclResult_t InitInGroup(ncclComm_t* newcomm, int nranks, int rank, int nids, const ncclUniqueId* ids,
                         const ncclConfig_t* config) {
  softgpu::GroupStart();
  int device = 0;
  ncclResult_t result = ncclUnhandledCudaError;
  if (softgpu::CurrentDevice(&device)) {
    result = softgpu::InitRank({newcomm, nranks, rank, nids, ids, device, config ? config : &DefaultConfig()});
  }
  GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  if (end != ncclSuccess && end != ncclInProgress) return end;
  if (newcomm && *newcomm && result == ncclSuccess && !(*newcomm)->config.blocking) {
    ncclCommGetAsyncError(*newcomm, &result);
  }
  return result;
}

ncclResult_t CheckDevices(int ndev, const int* devices) {
  int total = 0;
  if (!softgpu::GetDriver() || softgpu::GetDriver()->device_count(&total) != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  std::vector<bool> used(total);
  for (int i = 0; devices && i < ndev; ++i) {
    if (devices[i] < 0 || devices[i] >= total) {
      Warn("Invalid device %d (totalnDev=%d)", devices[i], total);
      return ncclInvalidArgument;
    }
    if (used[devices[i]]) return ncclInvalidUsage;
    used[devices[i]] = true;
  }
  // Without a list NCCL finds out when it selects the device.
  return !devices && ndev > total ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t InitAll(ncclComm_t* comms, int ndev, const int* devices) {
  ncclResult_t result = PointerCheck(comms, "CommInitAll", "comms");
  if (result == ncclSuccess && ndev < 0) {
    Warn("Invalid device count requested : %d", ndev);
    result = ncclInvalidArgument;
  }
  if (result == ncclSuccess) result = CheckDevices(ndev, devices);
  ncclUniqueId id;
  if (result == ncclSuccess) result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return result;
  softgpu::GroupStart();
  for (int i = 0; i < ndev; ++i) {
    softgpu::InitRank({comms + i, ndev, i, 1, &id, devices ? devices[i] : i, &DefaultConfig()});
  }
  return softgpu::GroupEnd();
}

ncclResult_t Finalize(ncclComm_t comm) {
  ncclResult_t result = EnsureReady(comm);
  if (result == ncclSuccess && comm->finalize_called.exchange(true)) result = ncclInvalidArgument;
  if (result != ncclSuccess) return result;
  return softgpu::GroupRun(comm, [comm] {
    softgpu::WaitQuiescent(comm);
    return ncclSuccess;
  });
}

ncclResult_t EndComm(ncclComm_t comm, bool abort) {
  softgpu::GroupStart();
  if (abort) softgpu::SetAbort(comm, 1);
  comm->destroying.store(true);
  ncclResult_t result = EnsureReady(comm);
  if (result == ncclSuccess) {
    result = softgpu::GroupRun(comm, [comm] {
      softgpu::Reclaim(comm);
      return ncclSuccess;
    });
  }
  GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  return end != ncclSuccess && end != ncclInProgress ? end : result;
}

ncclResult_t Revoke(ncclComm_t comm) {
  softgpu::GroupStart();
  softgpu::SetAbort(comm, 1);
  comm->revoked.store(true);
  EnsureReady(comm);
  comm->finalize_called.store(true);
  ncclResult_t result = softgpu::GroupRun(comm, [comm] {
    softgpu::WaitForKernels(comm);
    softgpu::SetAbort(comm, 0);
    comm->async_result.store(ncclSuccess);
    return ncclSuccess;
  });
  GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  if (end != ncclSuccess && end != ncclInProgress) return end;
  if (!comm->config.blocking) ncclCommGetAsyncError(comm, &result);
  return result;
}

}  // namespace

SOFTGPU_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId)) {
  ApiCall call(__func__);
  ncclResult_t result = PointerCheck(uniqueId, "GetUniqueId", "out");
  if (result == ncclSuccess) result = MakeUniqueId(uniqueId);
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommInitRank, (ncclComm_t * newcomm, int nranks, ncclUniqueId commId, int myrank)) {
  ApiCall call(__func__);
  call.Extra("nranks", nranks).Extra("rank", myrank).Enter();
  int device = 0;
  if (!softgpu::CurrentDevice(&device)) return call.Done(ncclUnhandledCudaError);
  const ncclResult_t result = softgpu::InitRank({newcomm, nranks, myrank, 1, &commId, device, &DefaultConfig()});
  if (result == ncclSuccess) call.Comm(*newcomm);
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommInitRankConfig,
            (ncclComm_t * newcomm, int nranks, ncclUniqueId commId, int myrank, ncclConfig_t* config)) {
  ApiCall call(__func__);
  call.Extra("nranks", nranks).Extra("rank", myrank).Enter();
  const ncclResult_t result = InitInGroup(newcomm, nranks, myrank, 1, &commId, config);
  if (result == ncclSuccess || result == ncclInProgress) call.Comm(*newcomm);
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommInitRankScalable,
            (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config)) {
  ApiCall call(__func__);
  call.Extra("nranks", nranks).Extra("rank", myrank).Extra("nId", nId).Enter();
  const ncclResult_t result = InitInGroup(newcomm, nranks, myrank, nId, commIds, config);
  if (result == ncclSuccess || result == ncclInProgress) call.Comm(*newcomm);
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int ndev, const int* devlist)) {
  ApiCall call(__func__);
  call.Extra("ndev", ndev).Enter();
  return call.Done(InitAll(comms, ndev, devlist));
}

SOFTGPU_API(ncclResult_t, ncclCommSplit,
            (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("color", color).Extra("key", key).Enter();
  softgpu::GroupStart();
  const ncclResult_t result = softgpu::Split(comm, color, key, newcomm, config);
  GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  return call.Done(end != ncclSuccess && end != ncclInProgress ? end : result);
}

SOFTGPU_API(ncclResult_t, ncclCommShrink,
            (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config,
             int shrinkFlags)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("excluded", excludeRanksCount).Extra("flags", shrinkFlags).Enter();
  softgpu::GroupStart();
  const ncclResult_t result = softgpu::Shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  return call.Done(end != ncclSuccess && end != ncclInProgress ? end : result);
}

SOFTGPU_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).Enter();
  if (!comm) return call.Done(ncclSuccess);
  softgpu::GroupStart();
  ncclResult_t result = CommCheck(comm, "CommFinalize", "comm");
  const bool valid = result == ncclSuccess;
  if (valid) result = Finalize(comm);
  if (valid && result != ncclSuccess && !comm->config.blocking) comm->async_result.store(result);
  GroupError(result);
  const ncclResult_t end = softgpu::GroupEnd();
  if (end != ncclSuccess && end != ncclInProgress) return call.Done(end);
  if (valid && !comm->config.blocking) ncclCommGetAsyncError(comm, &result);
  return call.Done(result);
}

SOFTGPU_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).Enter();
  if (!comm) return call.Done(ncclSuccess);
  if (comm->magic != softgpu::kCommMagic) {
    Warn("comm %p has already been destroyed", static_cast<void*>(comm));
    return call.Done(ncclInvalidArgument);
  }
  if (const ncclResult_t result = CommCheck(comm, "CommDestroy", "comm"); result != ncclSuccess) {
    return call.Done(result);
  }
  return call.Done(EndComm(comm, false));
}

SOFTGPU_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).Enter();
  if (!comm) return call.Done(ncclSuccess);
  if (const ncclResult_t result = CommCheck(comm, "CommAbort", "comm"); result != ncclSuccess) return call.Done(result);
  return call.Done(EndComm(comm, true));
}

SOFTGPU_API(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags)) {
  ApiCall call(__func__);
  call.Comm(comm).Extra("flags", revokeFlags).Enter();
  if (!comm) return call.Done(ncclSuccess);
  if (const ncclResult_t result = CommCheck(comm, "CommRevoke", "comm"); result != ncclSuccess)
    return call.Done(result);
  if (revokeFlags != NCCL_REVOKE_DEFAULT || comm->destroying.load() || comm->finalize_called.load() ||
      comm->revoked.load()) {
    return call.Done(ncclInvalidArgument);
  }
  return call.Done(Revoke(comm));
}

SOFTGPU_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  ApiCall call(__func__);
  call.Comm(comm);
  ncclResult_t result = CommCheck(comm, "ncclGetAsyncError", "comm");
  if (result == ncclSuccess) result = PointerCheck(asyncError, "ncclGetAsyncError", "asyncError");
  if (result != ncclSuccess) return call.Done(result);
  *asyncError = static_cast<ncclResult_t>(comm->async_result.load());
  if (*asyncError == ncclSuccess) softgpu::FinishBackground(comm);
  call.Extra("async", *asyncError);
  return call.Done(ncclSuccess);
}

namespace {

ncclResult_t Query(const char* function, const char* name, ncclComm_t comm, int* out, int ncclComm::*member) {
  ncclResult_t result = CommCheck(comm, function, "comm");
  if (result == ncclSuccess) result = PointerCheck(out, function, name);
  if (result == ncclSuccess) result = EnsureReady(comm);
  if (result == ncclSuccess) *out = comm->*member;
  return result;
}

}  // namespace

SOFTGPU_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(Query("CommCount", "count", comm, count, &ncclComm::nranks));
}

SOFTGPU_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(Query("CommCuDevice", "devid", comm, device, &ncclComm::device));
}

SOFTGPU_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(Query("CommUserRank", "rank", comm, rank, &ncclComm::rank));
}
