// The host side of NCCL's device API (2.28). softgpu runs no device code, so device communicators are refused as by
// NCCL on a machine without symmetric memory; teams are told as for one node.
//
// Declared here and not taken from nccl_device.h, which only newer packages have. Structures that are never looked into
// are left incomplete.
#include "comm.h"
#include "log.h"
#include "nccl_header.h"
#include "status.h"

using softgpu::ApiCall;

extern "C" {
struct ncclTeam {
  int nRanks, rank, stride;
};
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
struct ncclLLA2AHandle;
}

namespace {

ncclResult_t Refuse() {
  softgpu::Warn("Communicator does not support symmetric memory!");
  return ncclInvalidUsage;
}

ncclTeam World(ncclComm_t comm) { return {comm->nranks, comm->rank, 1}; }

}  // namespace

SOFTGPU_API(ncclResult_t, ncclDevCommCreate, (ncclComm_t comm, const ncclDevCommRequirements*, ncclDevComm*)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(Refuse());
}

SOFTGPU_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const ncclDevComm*)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(Refuse());
}

SOFTGPU_API(ncclTeam, ncclTeamWorld, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).DoneWithoutResult();
  return World(comm);
}

SOFTGPU_API(ncclTeam, ncclTeamLsa, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).DoneWithoutResult();
  return World(comm);
}

SOFTGPU_API(ncclTeam, ncclTeamRail, (ncclComm_t comm)) {
  ApiCall call(__func__);
  call.Comm(comm).DoneWithoutResult();
  return {1, 0, comm->nranks};
}

SOFTGPU_API(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam team, int rank)) {
  ApiCall call(__func__);
  call.Comm(comm).DoneWithoutResult();
  return comm->rank + (rank - team.rank) * team.stride;
}

SOFTGPU_API(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam team, int rank)) {
  ApiCall call(__func__);
  call.Comm(comm).DoneWithoutResult();
  return comm->rank + (rank - team.rank) * team.stride;
}

SOFTGPU_API(ncclResult_t, ncclLsaBarrierCreateRequirement,
            (ncclTeam, int, ncclLsaBarrierHandle*, ncclDevResourceRequirements*)) {
  ApiCall call(__func__);
  return call.Done(Refuse());
}

SOFTGPU_API(ncclResult_t, ncclGinBarrierCreateRequirement,
            (ncclComm_t comm, ncclTeam, int, ncclGinBarrierHandle*, uint32_t, ncclDevResourceRequirements*)) {
  ApiCall call(__func__);
  call.Comm(comm);
  return call.Done(Refuse());
}

SOFTGPU_API(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize)) {
  ApiCall call(__func__);
  call.DoneWithoutResult();
  constexpr int kSlotBytes = 16;
  return maxElts * ((maxEltSize + kSlotBytes - 1) / kSlotBytes);
}

SOFTGPU_API(ncclResult_t, ncclLLA2ACreateRequirement, (int, int, ncclLLA2AHandle*, ncclDevResourceRequirements*)) {
  ApiCall call(__func__);
  return call.Done(Refuse());
}
