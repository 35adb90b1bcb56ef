// The lives of the objects that a program makes and must free, by kind and handle: what is left at MPI_Finalize, and
// what is used once it is gone. Datatypes and requests have more to tell, and maps of their own.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/mpi/core/abi.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/core/handle_map.h"

namespace ncclwatch::shim::mpi {

enum class ObjectKind : std::uint8_t { kCommunicator, kGroup, kOperator, kWindow, kFile, kDatatype, kRequest };
inline constexpr std::size_t kObjectKinds = 7;
inline constexpr std::size_t kOwnMaps = static_cast<std::size_t>(ObjectKind::kDatatype);  // kinds with a map of lives

struct Life {
  std::uint64_t made_at = 0;   // return address of the call that made it, 0: it was there before
  std::uint64_t freed_at = 0;  // ... that freed it, 0: it is alive
  std::uint32_t made_by = 0;   // functions::Function
  std::uint32_t freed_by = 0;
  std::uint32_t references = 0;  // the same handle may be given out several times, each to be freed
};

extern HandleMap<Life> lives[kOwnMaps];

// Some objects of this kind came or went where no wrapper sees it: nothing is said of their lives any more.
void LoseSight(ObjectKind kind);
void LoseSightOfAll();
bool InSight(ObjectKind kind);

// Freed objects are kept, to tell who uses them, until their handles come again. Where handles are addresses those may
// be others each time: no more than so many at once.
class FreedOnes {
 public:
  bool KeepOneMore() {
    if (kept_.fetch_add(1, std::memory_order_relaxed) < kMost) return true;
    CameAgain();
    return false;
  }
  void CameAgain() { kept_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr std::int32_t kMost = 4096;
  std::atomic<std::int32_t> kept_{0};
};

void NoteMade(const Call& call, ObjectKind kind, std::uint64_t handle);
void NoteFreed(const Call& call, ObjectKind kind, std::uint64_t handle);
// Whether it is one that was freed, as far as can be known.
bool WasFreed(ObjectKind kind, std::uint64_t handle, Life* life);

// It was made, is not freed, and may be asked about: MPI would end the job over a question about a bad handle.
bool IsAlive(ObjectKind kind, std::uint64_t handle);

}  // namespace ncclwatch::shim::mpi
