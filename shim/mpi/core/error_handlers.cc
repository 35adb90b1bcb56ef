#include "shim/mpi/core/error_handlers.h"

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/phase.h"
#include "shim/mpi/core/real.h"

namespace ncclwatch::shim::mpi {
namespace {

bool IsFatal(MPI_Errhandler handler) {
#ifdef MPI_ERRORS_ABORT
  if (handler == MPI_ERRORS_ABORT) return true;
#endif
  return handler == MPI_ERRORS_ARE_FATAL;
}

// One that was got has to be freed, but for MPI's own.
template <class Get, class Object>
bool TellsThrough(Get* get, Object object) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (!get || get(object, &handler) != MPI_SUCCESS || IsFatal(handler)) return false;
  auto* release = NCCLWATCH_REAL(MPI_Errhandler_free);
  if (release && handler != MPI_ERRORS_RETURN && handler != MPI_ERRHANDLER_NULL) release(&handler);
  return true;
}

template <class Handle>
Handle FromBits(std::uint64_t bits) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Handle>(bits);
  else
    return static_cast<Handle>(bits);
}

bool TellsThroughOwn(const Call& call) {
  if (call.index == format::kNoCommunicator) return false;
  format::Communicator& entry = call.box.communicators[call.index];
  const std::uint64_t handle = std::atomic_ref(entry.handle).load(std::memory_order_acquire);
  if (handle == 0) return false;
  if (entry.flags & format::kCommWindow)
    return TellsThrough(NCCLWATCH_REAL(MPI_Win_get_errhandler), FromBits<MPI_Win>(handle));
  if (entry.flags & format::kCommFile)
    return TellsThrough(NCCLWATCH_REAL(MPI_File_get_errhandler), FromBits<MPI_File>(handle));
  return TellsThrough(NCCLWATCH_REAL(MPI_Comm_get_errhandler), FromBits<MPI_Comm>(handle));
}

}  // namespace

bool TellsProgramOfComm(MPI_Comm comm) { return TellsThrough(NCCLWATCH_REAL(MPI_Comm_get_errhandler), comm); }
bool TellsProgramOfWindow(MPI_Win window) { return TellsThrough(NCCLWATCH_REAL(MPI_Win_get_errhandler), window); }

bool TellsProgram(const Call& call) {
  if (phase.load(std::memory_order_relaxed) != Phase::kRunning) return false;
  if (functions::FullName(call.function).starts_with("MPI_File_")) return true;  // by itself, unlike all others
  // Of what belongs to no communicator MPI speaks through one of these two, which of them is a matter of its version.
  auto* get = NCCLWATCH_REAL(MPI_Comm_get_errhandler);
  return TellsThroughOwn(call) || TellsThrough(get, MPI_COMM_WORLD) || TellsThrough(get, MPI_COMM_SELF);
}

}  // namespace ncclwatch::shim::mpi
