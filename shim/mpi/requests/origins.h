// NCCLWATCH_MPI_CHECKS=buffers: whether the program changes what an access to a window sends (MPI_Put, accumulates,
// what is compared) before the access is complete on this rank: by a fence, MPI_Win_complete, an unlock, a flush, a
// local one too, or its request. Those that end accesses look before MPI is asked: the program may not write yet.
#pragma once

#include <cstdint>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/requests/footprint.h"

namespace ncclwatch::shim::mpi {

// What one access uses on this rank. Nothing is watched unless all that it sends is in few pieces.
class OriginBuffers {
 public:
  static constexpr int kMost = 2;

  explicit OriginBuffers(Call& call) : call_(call) {}
  void Add(Use use, const void* buffer, std::uint64_t count, MPI_Datatype type);
  // The access has been begun, on rank `target` of the window that the call is attached to.
  void Watch(int target) const;

 private:
  Call& call_;
  Piece sent_[kMost];
  Piece result_;
  int pieces_ = 0;
  bool missed_ = false;
};

// The access of this record is over, as its request tells.
void EndOrigin(Call& ends, std::uint64_t slot);
// All those on the window that the call is attached to, or on one rank of it, are over once MPI has done the call.
void EndOrigins(Call& ends);
void EndOriginsAt(Call& ends, int target);
// The window is gone.
void ForgetOrigins(const Call& free);

}  // namespace ncclwatch::shim::mpi
