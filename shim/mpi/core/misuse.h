// Says what is wrong with a call by the rules that hold for one process alone: in the black box, and of the first ones
// a line on stderr, before MPI is asked, which may end the process over it.
#pragma once

#include <cstdint>

#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

using format::Wrong;

struct Charge {
  Wrong wrong{};
  std::int64_t value = 0;  // as the text of misuses.def has them
  std::int64_t limit = 0;
  std::uint64_t made_at = 0;  // of the object or operation: return address of the call `made_by`
  functions::Function made_by{};
  bool ends_process = false;  // MPI is ending it over this, and must not be asked anything
};
// Never on the way of a call that is right.
[[gnu::cold, gnu::noinline]] void Report(Call& call, const Charge& charge);
// What came of the call that was reported: one that MPI refuses and the program lives on is no fault of the job.
[[gnu::cold, gnu::noinline]] void NoteOutcome(const Call& call, int result);
// Of a call that leaves no record: record.h's Leave() does it for the others.
inline int Noted(const Call& call, int result) {
  if (call.misuse) [[unlikely]]
    NoteOutcome(call, result);
  return result;
}
// All entries of one sort turn out to be untrue.
[[gnu::cold]] void TakeBack(Box& box, Wrong wrong);

}  // namespace ncclwatch::shim::mpi
