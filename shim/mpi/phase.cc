#include "shim/mpi/phase.h"

#include "shim/mpi/real.h"

namespace ncclwatch::shim::mpi {

constinit std::atomic<Phase> phase{Phase::kNone};

bool IsOutside() {
  const Phase now = phase.load(std::memory_order_relaxed);
  if (now != Phase::kNone) return now == Phase::kOver;
  int begun = 0;
  auto* ask = NCCLWATCH_ASK(MPI_Initialized);
  if (ask && ask(&begun) == MPI_SUCCESS && !begun) return true;
  phase.store(Phase::kUnseen, std::memory_order_relaxed);
  return false;
}

}  // namespace ncclwatch::shim::mpi
