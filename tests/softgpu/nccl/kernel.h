// What NCCL's kernels do, as functions that run on a stream of softgpu's driver.
#ifndef SOFTGPU_NCCL_KERNEL_H_
#define SOFTGPU_NCCL_KERNEL_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm.h"
#include "profiler/tell.h"
#include "reduce.h"

namespace softgpu {

enum class Function : uint32_t { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce };

// A collective, its arguments settled. For kBroadcast and kAllGather `count` is in bytes and `datatype` int8, as NCCL
// itself turns them into moving bytes. `count` is what the caller gave: per rank for kAllGather and kReduceScatter.
struct Collective {
  Function function = Function::kBroadcast;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  int datatype = 0;
  int root = 0;
  Reduction reduction;
  profiler::Task task;
};

struct PointToPoint {
  bool is_send = false;
  int peer = 0;
  void* buffer = nullptr;
  size_t bytes = 0;
  profiler::Task task;
};

// All that one outermost group gives one communicator: one kernel.
struct Work {
  ncclComm* comm = nullptr;
  std::vector<CUstream> streams;  // in order of first use; the kernel occupies all of them
  std::vector<Collective> collectives;
  std::vector<PointToPoint> transfers;
};

// Enqueues the work. Collectives run before transfers, larger ones first, those of equal shape in the order of calls;
// all transfers run concurrently.
ncclResult_t Launch(Work work);

// A collective of a communicator with one rank: a copy (and multiplication), in stream order only.
ncclResult_t LaunchAlone(ncclComm* comm, CUstream stream, const Collective& collective);

// Bodies, called on the stream. False if the communicator was aborted, which is the only way out of a mismatch.
bool RunCollective(ncclComm* comm, const Collective& collective);
bool RunTransfers(ncclComm* comm, const std::vector<PointToPoint>& transfers);

// Sleeps until the communicator is aborted; looks after the peers meanwhile. Always false.
bool StayStuck(ncclComm* comm);

// Called now and then by whatever waits: sets ncclRemoteError if a peer's process is gone and
// SOFTGPU_NCCL_PEER_ERROR=1.
void LookAfterPeers(ncclComm* comm);

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_KERNEL_H_
