// What calls get once the job is being ended (process/abort.h): the real functions are not called any more on
// communicators that may be gone.
#pragma once

#include <type_traits>

#include "shim/black_box/groups.h"
#include "shim/hooks/describe.h"
#include "shim/process/abort.h"

namespace ncclwatch::shim {

// Ends of a communicator: they succeed where it has been ended already, and are the application's own where not.
template <functions::Function function>
inline constexpr bool kEnds =
    function == functions::Function::ncclCommDestroy || function == functions::Function::ncclCommAbort ||
    function == functions::Function::ncclCommFinalize || function == functions::Function::ncclCommRevoke;
// Giving back what belongs to a communicator.
template <functions::Function function>
inline constexpr bool kGivesBack =
    function == functions::Function::ncclDevCommDestroy || function == functions::Function::ncclRedOpDestroy ||
    function == functions::Function::ncclCommDeregister || function == functions::Function::ncclCommWindowDeregister;

// After the call was recorded as entered, in place of the real one.
template <functions::Function function, class R, class... P>
R Refuse(Box& box, const Call& call, R (*real)(P...), P... arguments) {
  constexpr functions::Family kFamily = functions::Find(function)->family;
  if constexpr (kEnds<function>) {
    return EndedByUs(box, AsBits(FirstOf<ncclComm_t>(arguments...))) ? ncclSuccess : real(arguments...);
  } else if constexpr (kGivesBack<function> || function == functions::Function::ncclGroupStart) {
    return ncclSuccess;
  } else if constexpr (kFamily == functions::Family::kGroup) {
    // Ends are made in groups too: those are not to fail.
    const bool worked = call.closes && (!call.closing || call.closing->failed || call.closing->operations > 0);
    return worked ? CutShort(call.library) : ncclSuccess;
  } else if constexpr (kFamily == functions::Family::kMemory && !kHas<ncclComm_t, P...>) {
    return real(arguments...);
  } else {
    if constexpr (kFamily == functions::Family::kCreation) {
      const int made = function == functions::Function::ncclCommInitAll ? call.creation->size : 1;
      for (int i = 0; i < made && call.creation->out; ++i) call.creation->out[i] = nullptr;
    }
    return CutShort(call.library);
  }
}

// The answer to a question about a communicator that is gone. False: it is not, and may be asked. Without a
// communicator NCCL tells the last error of the process, which is then ours.
template <functions::Function function, class R, class... P>
bool AnswerInstead(const Box& box, std::uint32_t library, R* answer, P... arguments) {
  const ncclComm_t comm = FirstOf<ncclComm_t>(arguments...);
  const bool of_process = function == functions::Function::ncclGetLastError && !comm;
  if (!of_process && !EndedByUs(box, AsBits(comm))) return false;
  if constexpr (function == functions::Function::ncclCommGetAsyncError) {
    if (auto* state = FirstOf<ncclResult_t*>(arguments...)) *state = CutShort(library);
    *answer = ncclSuccess;
  } else if constexpr (std::is_same_v<R, ncclResult_t>) {
    *answer = ncclInvalidUsage;
  } else if constexpr (std::is_same_v<R, const char*>) {
    *answer = WhyEnded();
  } else {
    *answer = R{};
  }
  return true;
}

}  // namespace ncclwatch::shim
