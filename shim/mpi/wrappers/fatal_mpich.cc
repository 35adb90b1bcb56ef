// MPICH, before it ends the job over an error, asks its launcher to kill all ranks, itself among them: who was first is
// not to be seen from outside, and often nothing of its own runs any more. So the rank notes that it ends before MPICH
// does anything about it, in the function through which each call of MPI returns an error.
#include "shim/mpi/core/abi.h"

#ifndef OPEN_MPI
#include <atomic>
#include <cstdint>
#include <cstring>

#include "shim/base/export.h"
#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/mpi/core/error_handlers.h"
#include "shim/mpi/core/phase.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/core/threads.h"
#include "shim/process/exit.h"

namespace ncclwatch::shim::mpi {
namespace {

// Every object of MPICH begins with its handle, in which bits 26 to 29 tell its kind.
enum class Kind : std::uint32_t { kComm = 1, kWin = 8 };

bool HandleOf(const void* object, Kind kind, int* handle) {
  if (!object) return false;
  std::memcpy(handle, object, sizeof *handle);
  const auto bits = static_cast<std::uint32_t>(*handle);
  return bits >> 30 != 0 && ((bits >> 26) & 0xf) == static_cast<std::uint32_t>(kind);
}

// Not before MPI_Init is through, nor under MPI_THREAD_MULTIPLE: the call that returns the error holds MPICH's lock,
// and a question that takes it a second time would end the process.
bool MayAsk() {
  int initialized = 0;
  if (thread_level.load(std::memory_order_relaxed) >= MPI_THREAD_MULTIPLE) return false;
  auto* ask = NCCLWATCH_REAL(MPI_Initialized);
  return ask && ask(&initialized) == MPI_SUCCESS && initialized;
}

bool Ends(const void* object, Kind kind) {
  if (!MayAsk()) return false;
  int handle = 0;
  if (HandleOf(object, kind, &handle))
    return kind == Kind::kComm ? !TellsProgramOfComm(handle) : !TellsProgramOfWindow(handle);
  // On which of the two an error of no communicator is reported is a matter of the version.
  return !object && !TellsProgramOfComm(MPI_COMM_WORLD) && !TellsProgramOfComm(MPI_COMM_SELF);
}

using Words = std::uint64_t[3];  // what other versions may pass behind the three arguments that all have
using Return = int (*)(void*, const char*, int, std::uint64_t, std::uint64_t, std::uint64_t);

// The loader is asked once: a program that is told of its errors may make many.
Return RealOf(const char* name, Kind kind) {
  static constinit std::atomic<void*> known_of_comm{nullptr}, known_of_window{nullptr};
  std::atomic<void*>& known = kind == Kind::kComm ? known_of_comm : known_of_window;
  if (!known.load(std::memory_order_relaxed)) known.store(FindRealNamed(name), std::memory_order_relaxed);
  return reinterpret_cast<Return>(known.load(std::memory_order_relaxed));
}

int Pass(const char* name, Kind kind, void* object, const char* function, int error, const Words& more) {
  const Return real = RealOf(name, kind);
  if (phase.load(std::memory_order_relaxed) == Phase::kRunning && IsOurAbi() && CurrentBox()) {
    const KeepErrno keep;
    static thread_local bool asking __attribute__((tls_model("initial-exec"))) = false;
    if (!asking) {
      asking = true;
      // Of MPI's own code, whoever comes here: some functions jump, so that the return address is the application's.
      if (Ends(object, kind)) BeforeEnd(reinterpret_cast<std::uint64_t>(real), ClassOf(error), true);
      asking = false;
    }
  }
  return real ? real(object, function, error, more[0], more[1], more[2]) : error;
}

}  // namespace
}  // namespace ncclwatch::shim::mpi

#define NCCLWATCH_ERROR_RETURN(name, kind)                                                                             \
  extern "C" NCCLWATCH_EXPORT int name(void* object, const char* function, int error, std::uint64_t w3,                \
                                       std::uint64_t w4, std::uint64_t w5) {                                           \
    return ncclwatch::shim::mpi::Pass(#name, ncclwatch::shim::mpi::Kind::kind, object, function, error, {w3, w4, w5}); \
  }
NCCLWATCH_ERROR_RETURN(MPIR_Err_return_comm, kComm)
NCCLWATCH_ERROR_RETURN(MPIR_Err_return_win, kWin)
#endif
