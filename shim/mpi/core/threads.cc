#include "shim/mpi/core/threads.h"

#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/real.h"

namespace ncclwatch::shim::mpi {

constinit std::atomic<int> thread_level{MPI_THREAD_SINGLE};

namespace {

// What of MPI may be called by any thread, and MPI_Abort, which ends it from wherever, are not meant.
bool TakesPart(functions::Function function) {
  using functions::Family;
  switch (functions::Find(function)->family) {
    case Family::kCollective:
    case Family::kRooted:
    case Family::kPointToPoint:
    case Family::kProbe:
    case Family::kCompletion:
    case Family::kRequest:
    case Family::kCreation:
    case Family::kOneSided:
    case Family::kWindow:
    case Family::kFile: return true;
    default: return function == functions::Function::MPI_Finalize;
  }
}

}  // namespace

void LearnThreads() {
  int level = MPI_THREAD_SINGLE;
  auto* ask = NCCLWATCH_REAL(MPI_Query_thread);
  if (!ask || ask(&level) != MPI_SUCCESS) return;
  thread_level.store(level, std::memory_order_relaxed);
  if (level == MPI_THREAD_MULTIPLE) threaded.store(true, std::memory_order_relaxed);
}

void NoteOtherCaller(Call& call) {
  const Thread* nobody = nullptr;
  if (!first_caller.load(std::memory_order_relaxed) && first_caller.compare_exchange_strong(nobody, &call.thread))
    return;
  threaded.store(true, std::memory_order_relaxed);
  if (thread_level.load(std::memory_order_relaxed) <= MPI_THREAD_FUNNELED && TakesPart(call.function) &&
      !IsMpisOwn(NativeOf(call.box, call.site)))
    Report(call, {.wrong = Wrong::kNotMainThread});
}

}  // namespace ncclwatch::shim::mpi
