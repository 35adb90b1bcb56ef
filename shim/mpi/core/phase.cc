#include "shim/mpi/core/phase.h"

#include <cstdlib>
#include <exception>
#include <optional>
#include <string>

#include "shim/base/keep_errno.h"
#include "shim/mpi/core/real.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::shim::mpi {

constinit std::atomic<Phase> phase{Phase::kNone};

bool IsOutside() {
  const Phase now = phase.load(std::memory_order_relaxed);
  if (now != Phase::kNone) return now == Phase::kOver;
  int begun = 0;
  auto* ask = NCCLWATCH_REAL(MPI_Initialized);
  if (ask && ask(&begun) == MPI_SUCCESS && !begun) return true;
  phase.store(Phase::kUnseen, std::memory_order_relaxed);
  return false;
}

namespace {

// One process of a node is enough.
bool SpeaksForNode() {
  const rundir::Place place = rundir::PlaceFrom([](std::string_view name) -> std::optional<std::string_view> {
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string_view>(value) : std::nullopt;
  });
  return place.local_rank <= 0;
}

}  // namespace

void BeginSession() {
  const KeepErrno keep;
  if (phase.exchange(Phase::kUnseen, std::memory_order_relaxed) == Phase::kUnseen) return;
  try {
    if (SpeaksForNode()) log::host::Warn("MPI_Session_init: calls made without MPI_Init are not watched");
  } catch (const std::exception&) {  // no memory: unsaid
  }
}

}  // namespace ncclwatch::shim::mpi
