// The one body of all wrappers: stamp, describe, call on, stamp again.
#pragma once

#include <type_traits>
#include <utility>

#include "shim/base/keep_errno.h"
#include "shim/base/process.h"
#include "shim/base/thread.h"
#include "shim/exit_report/errors.h"
#include "shim/hooks/describe.h"
#include "shim/hooks/refuse.h"
#include "shim/process/rendezvous.h"
#include "shim/profiler/plugin.h"
#include "shim/recorder/communicators.h"
#include "shim/recorder/record.h"
#include "shim/recorder/starts.h"
#include "shim/resolve/callers.h"
#include "shim/resolve/libraries.h"

namespace ncclwatch::shim {

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
