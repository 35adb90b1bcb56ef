// Where the process stands between MPI_Init and MPI_Finalize.
#pragma once

#include <atomic>
#include <cstdint>

namespace ncclwatch::shim::mpi {

// kUnseen: MPI runs without an MPI_Init that was seen, or in sessions. What is called then is passed on.
enum class Phase : std::uint8_t { kNone = 0, kUnseen = 1, kRunning = 2, kOver = 3 };
extern std::atomic<Phase> phase;

inline bool HasBegun() { return phase.load(std::memory_order_relaxed) >= Phase::kRunning; }
// Whether MPI does not run at all. Asks MPI itself, once.
bool IsOutside();
// MPI_Session_init where MPI_Init was not called: says that nothing of it is watched.
void BeginSession();

}  // namespace ncclwatch::shim::mpi
