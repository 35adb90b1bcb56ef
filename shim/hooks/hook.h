// The one body of all wrappers: stamp, describe, call on, stamp again.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "ncclwatch/format/fingerprint.h"
#include "shim/base/keep_errno.h"
#include "shim/base/nccl_compat.h"
#include "shim/base/process.h"
#include "shim/base/thread.h"
#include "shim/black_box/call.h"
#include "shim/black_box/groups.h"
#include "shim/exit_report/errors.h"
#include "shim/process/abort.h"
#include "shim/process/rendezvous.h"
#include "shim/profiler/offer.h"
#include "shim/profiler/plugin.h"
#include "shim/recorder/communicators.h"
#include "shim/recorder/record.h"
#include "shim/recorder/starts.h"
#include "shim/resolve/callers.h"
#include "shim/resolve/libraries.h"

namespace ncclwatch::shim {

// What a call's arguments say, by family: NCCL gives every argument of a meaning its own type, so that the first
// argument of a type is the one that counts.

template <class T, class First, class... Rest>
constexpr decltype(auto) FirstOf(const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<T, First>) {
    return (first);
  } else {
    static_assert(sizeof...(Rest) > 0, "no argument of this type");
    return FirstOf<T>(rest...);
  }
}
template <class T, class... A>
inline constexpr bool kHas = (std::is_same_v<T, A> || ...);

template <class T>
std::uint64_t AsBits(T* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

constexpr std::uint8_t Reduction(ncclRedOp_t op) {
  const auto number = static_cast<unsigned>(op);
  return number < unsigned{ncclNumOps} ? static_cast<std::uint8_t>(number) : format::kUserReduction;
}

// Everything that a type gives away.
template <class... A>
void DescribeCommon(Call& call, const A&... arguments) {
  if constexpr (kHas<ncclComm_t, A...>) call.communicator = AsBits(FirstOf<ncclComm_t>(arguments...));
  if constexpr (kHas<cudaStream_t, A...>) call.stream = AsBits(FirstOf<cudaStream_t>(arguments...));
  if constexpr (kHas<std::size_t, A...>) call.count = FirstOf<std::size_t>(arguments...);
  if constexpr (kHas<ncclDataType_t, A...>)
    call.dtype = static_cast<std::uint8_t>(FirstOf<ncclDataType_t>(arguments...));
}

template <functions::Family family>
using Of = std::integral_constant<functions::Family, family>;

template <class... A>
void Describe(Of<functions::Family::kCollective>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
  if constexpr (kHas<ncclRedOp_t, A...>) call.reduction = Reduction(FirstOf<ncclRedOp_t>(arguments...));
}
template <class... A>
void Describe(Of<functions::Family::kRooted>, Call& call, const A&... arguments) {
  Describe(Of<functions::Family::kCollective>{}, call, arguments...);
  call.root = FirstOf<int>(arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kPointToPoint>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
  call.root = FirstOf<int>(arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kOneSided>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
  if constexpr (!kHas<ncclWaitSignalDesc_t*, A...>) call.root = FirstOf<int>(arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kGroup>, Call&, const A&...) {}
template <class... A>
void Describe(Of<functions::Family::kLifecycle>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kReduction>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
}
template <class... A>
void Describe(Of<functions::Family::kMemory>, Call& call, const A&... arguments) {
  DescribeCommon(call, arguments...);
}

// Creating calls differ too much for types to tell: one overload a signature.
inline void DescribeCreation(Call&, Creation& made, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                             ncclConfig_t* config = nullptr) {
  made = {.ids = id.internal, .out = reinterpret_cast<void**>(comm), .config = config, .rank = rank, .size = ranks};
}
inline void DescribeCreation(Call&, Creation& made, ncclComm_t* comm, int ranks, int rank, int, ncclUniqueId* ids,
                             ncclConfig_t* config) {
  // NCCL's own hash of the communicator is of the first id alone.
  made = {.ids = ids ? ids->internal : nullptr,
          .out = reinterpret_cast<void**>(comm),
          .config = config,
          .rank = rank,
          .size = ranks};
}
inline void DescribeCreation(Call&, Creation& made, ncclComm_t* comms, int devices, const int* list) {
  made = {.out = reinterpret_cast<void**>(comms), .list = list, .list_count = devices, .size = devices};
}
inline void DescribeCreation(Call& call, Creation& made, ncclComm_t parent, int color, int, ncclComm_t* comm,
                             ncclConfig_t* config) {
  call.communicator = AsBits(parent);
  made = {.out = reinterpret_cast<void**>(comm), .config = config, .color = color};
}
inline void DescribeCreation(Call& call, Creation& made, ncclComm_t parent, int* excluded, int count, ncclComm_t* comm,
                             ncclConfig_t* config, int) {
  call.communicator = AsBits(parent);
  made = {.out = reinterpret_cast<void**>(comm), .config = config, .list = excluded, .list_count = count};
}
inline void DescribeCreation(Call& call, Creation& made, ncclComm_t parent, int ranks, const ncclUniqueId* id, int rank,
                             ncclComm_t* comm, ncclConfig_t* config) {
  call.communicator = AsBits(parent);
  made = {.ids = id ? id->internal : nullptr,
          .out = reinterpret_cast<void**>(comm),
          .config = config,
          .rank = rank,
          .size = ranks};
}

// What calls get once the job is being ended (process/abort.h): the real functions are not called any more on
// communicators that may be gone.

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

constexpr functions::Family FamilyOf(functions::Function function) { return functions::Find(function)->family; }

// What the caller of a function gets that the library does not have.
template <class R>
R Absent(std::uint32_t library, functions::Function function) {
  const ncclResult_t result = resolve::Missing(library, function);
  if constexpr (std::is_same_v<R, ncclResult_t>)
    return result;
  else if constexpr (std::is_same_v<R, const char*>)
    return "ncclwatch: no such function in this NCCL";
  else if constexpr (!std::is_void_v<R>)
    return R{};
}

// A call from inside NCCL (it calls its own exports through the PLT), or from a library that serves a call in progress
// on this thread.
inline bool IsInner(std::uint32_t library, const Thread& thread, std::uint64_t site, std::uintptr_t frame) {
  if (resolve::CallsItself(library, site)) [[unlikely]]
    return true;
  if (thread.frame == 0 || frame >= thread.frame) [[likely]]
    return false;
  return StillInCall(thread, {frame, site});
}

template <functions::Function function, std::uint32_t library, class Signature>
class Hook;

template <functions::Function function, std::uint32_t library, class R, class... P>
class Hook<function, library, R(P...)> {
 public:
  Hook(const void* site, const void* frame)
      : site_(reinterpret_cast<std::uint64_t>(site)), frame_(reinterpret_cast<std::uintptr_t>(frame)) {}
  Hook(std::uint64_t site, std::uintptr_t frame) : site_(site), frame_(frame) {}

  [[gnu::always_inline]] R operator()(P... arguments) const {
    if constexpr (library == 0) {
      if constexpr (kBegins) resolve::Survey(site_);
      if constexpr (function == functions::Function::ncclGetVersion)
        if (!resolve::Knows(site_)) resolve::Survey(site_);
      if (resolve::several.load(std::memory_order_relaxed)) [[unlikely]] {
        const resolve::Own own = resolve::OwnOf(site_, function);
        if (own.real) return reinterpret_cast<Real>(own.real)(arguments...);
        if (own.library == 1) return Hook<function, 1, R(P...)>(site_, frame_)(arguments...);
        if (own.library == 2) return Hook<function, 2, R(P...)>(site_, frame_)(arguments...);
        if (own.library == 3) return Hook<function, 3, R(P...)>(site_, frame_)(arguments...);
      }
    }
    auto* real = reinterpret_cast<Real>(resolve::Real(library, function));
    if (!real) [[unlikely]]
      return Absent<R>(library, function);
    if constexpr (kFamily == functions::Family::kQuery)
      return Query(real, arguments...);
    else
      return Recorded(real, arguments...);
  }

 private:
  using Real = R (*)(P...);
  static constexpr functions::Family kFamily = FamilyOf(function);
  // Calls that come before all others on a library that is new in the process.
  static constexpr bool kBegins =
      kFamily == functions::Family::kCreation || function == functions::Function::ncclGetUniqueId;
  // What may put work on a stream.
  static constexpr bool kLaunches =
      kFamily == functions::Family::kCollective || kFamily == functions::Family::kRooted ||
      kFamily == functions::Family::kPointToPoint || function == functions::Function::ncclGroupEnd;
  static_assert(resolve::kLibraries == 4, "operator() knows four");

  [[gnu::always_inline]] R Query(Real real, P... arguments) const {
    if constexpr (kHas<ncclComm_t, P...>) {
      const Box* box = CurrentBox();
      R answer{};
      if (box && Refusing(*box) && !resolve::CallsItself(library, site_) &&
          AnswerInstead<function>(*box, library, &answer, arguments...)) [[unlikely]]
        return answer;
    }
    if constexpr (function == functions::Function::ncclCommGetAsyncError) {
      const R result = real(arguments...);
      Box* box = CurrentBox();
      if (box && result == ncclSuccess && !resolve::CallsItself(library, site_)) NoteState(*box, arguments...);
      return result;
    } else if constexpr (function == functions::Function::ncclGetUniqueId) {
      const R result = real(arguments...);
      if (result == ncclSuccess && !resolve::CallsItself(library, site_))
        OfferMeetingPlace(library, FirstOf<ncclUniqueId*>(arguments...)->internal);
      return result;
    } else {
      return real(arguments...);
    }
  }

  static void NoteState(Box& box, ncclComm_t comm, const ncclResult_t* state) {
    if (!comm || !state) return;
    const KeepErrno keep;
    if (box.unsettled.load(std::memory_order_relaxed) != 0) AsyncState(box, AsBits(comm), *state);
    if (IsError(*state)) [[unlikely]]
      NoteAsynchronousError(box, AsBits(comm), *state);
  }

  [[gnu::always_inline]] R Recorded(Real real, P... arguments) const {
    Thread& thread = current_thread;
    if (IsInner(library, thread, site_, frame_)) return real(arguments...);
    Box* box = CurrentBox();
    if (!box) [[unlikely]] {
      box = FirstUse(library);
      if (!box) return real(arguments...);
    }
    Call call;
    call.function = function;
    call.family = kFamily;
    call.library = library;
    call.site = site_;
    thread.frame = frame_;
    thread.site = site_;
    const R result = Intercept(*box, thread, call, real, arguments...);
    thread.frame = 0;
    return result;
  }

  // The check comes after the call is on record: who ends the communicators sees the record, or this sees the flag.
  // Both are plain accesses here; the other side makes every processor keep the order (abort.cc).
  [[gnu::always_inline]] R Pass(Box& box, const Call& call, Real real, P... arguments) const {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (box.detours.load(std::memory_order_relaxed) != 0) [[unlikely]]
      return Detoured(box, call, real, arguments...);
    return real(arguments...);
  }

  [[gnu::noinline]] static R Detoured(Box& box, const Call& call, Real real, P... arguments) {
    if constexpr (kLaunches) {
      MarkStarts(box, current_thread, call);
      if (box.detours.load(std::memory_order_relaxed) & kTimesKernels) profiler::Aim(box, current_thread, call);
    }
    if (Refusing(box)) return Refuse<function, R, P...>(box, call, real, arguments...);
    return real(arguments...);
  }

  [[gnu::always_inline]] R Intercept(Box& box, Thread& thread, Call& call, Real real, P... arguments) const {
    if constexpr (kFamily == functions::Family::kCreation) {
      Creation creation;
      DescribeCreation(call, creation, arguments...);
      call.creation = &creation;
      if (creation.ids) NoteMeetingPlace(creation.ids);
      EnterOther(box, thread, call);
      profiler::Offer(box, library);
      const R result = Pass(box, call, real, arguments...);
      LeaveOther(box, thread, call, result);
      return result;
    } else {
      Describe(Of<kFamily>{}, call, arguments...);
      if constexpr (kFamily == functions::Family::kCollective || kFamily == functions::Family::kRooted) {
        call.fingerprint = format::Fingerprint(function, call.count, call.dtype, call.reduction, call.root, 0);
        EnterCollective(box, thread, call);
      } else if constexpr (kFamily == functions::Family::kPointToPoint) {
        EnterPointToPoint(box, thread, call);
      } else {
        EnterOther(box, thread, call);
      }
      const R result = Pass(box, call, real, arguments...);
      if constexpr (kFamily == functions::Family::kCollective || kFamily == functions::Family::kRooted ||
                    kFamily == functions::Family::kPointToPoint)
        LeaveOperation(box, thread, call, result);
      else
        LeaveOther(box, thread, call, result);
      return result;
    }
  }

  std::uint64_t site_;
  std::uintptr_t frame_;
};

}  // namespace ncclwatch::shim
