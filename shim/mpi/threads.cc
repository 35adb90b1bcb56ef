#include "shim/mpi/threads.h"

#include "shim/mpi/real.h"

namespace ncclwatch::shim::mpi {

constinit std::atomic<int> thread_level{MPI_THREAD_SINGLE};

void LearnThreads() {
  int level = MPI_THREAD_SINGLE;
  auto* ask = NCCLWATCH_ASK(MPI_Query_thread);
  if (!ask || ask(&level) != MPI_SUCCESS) return;
  thread_level.store(level, std::memory_order_relaxed);
  if (level == MPI_THREAD_MULTIPLE) threaded.store(true, std::memory_order_relaxed);
}

void NoteOtherCaller(const Thread& thread) {
  const Thread* nobody = nullptr;
  if (!first_caller.compare_exchange_strong(nobody, &thread)) threaded.store(true, std::memory_order_relaxed);
}

}  // namespace ncclwatch::shim::mpi
