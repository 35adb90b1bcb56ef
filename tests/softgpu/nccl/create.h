// Making communicators: from a unique id, and from other communicators.
#ifndef SOFTGPU_NCCL_CREATE_H_
#define SOFTGPU_NCCL_CREATE_H_

#include <vector>

#include "comm.h"

namespace softgpu {

struct Newcomer {
  ncclComm_t* handle;
  int nranks;
  int rank;
  int ids;
  const ncclUniqueId* id;
  int device;
  const void* config;  // ncclConfig_t, not NULL
};

// As NCCL's common part of ncclCommInitRank and its variants: *handle is set at once, the ranks meet now or at the end
// of the group.
ncclResult_t InitRank(const Newcomer& newcomer);

ncclResult_t Split(ncclComm* parent, int color, int key, ncclComm_t* handle, const void* config);

// `excluded` is sorted in place, as NCCL does.
ncclResult_t Shrink(ncclComm* parent, int* excluded, int nexcluded, ncclComm_t* handle, const void* config, int flags);

// The id under which the next ncclCommGrow of `parent` meets its new ranks.
ncclUniqueId GrowId(const ncclComm* parent);
ncclResult_t Grow(ncclComm* parent, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* handle,
                  const void* config);

}  // namespace softgpu

#endif  // SOFTGPU_NCCL_CREATE_H_
