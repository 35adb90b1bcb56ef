// Windows, their epochs, and accesses to the memory of others.
#pragma once

#include "shim/mpi/communicators/stores.h"
#include "shim/mpi/communicators/windows.h"
#include "shim/mpi/core/own_memory.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/record/record.h"
#include "shim/mpi/requests/buffers.h"
#include "shim/mpi/requests/completion.h"
#include "shim/mpi/requests/footprint.h"
#include "shim/mpi/requests/origins.h"
#include "shim/mpi/requests/requests.h"
#include "shim/mpi/wrappers/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

template <class Shape>
struct MakesWindow {
  template <Function function, class Real, class... A>
  static int Intercept(Call& call, Real real, A... arguments) {
    constexpr bool kShared = functions::WithSmallCounts(function) == Function::MPI_Win_allocate_shared;
    std::uint32_t made;
    const auto [comm, unit, bytes, base, info] = Shape::Of(arguments...);
    if (const std::int64_t least = std::min<std::int64_t>(bytes, unit); least < 0)
      Report(call, {.wrong = Wrong::kNegativeLength, .value = least});
    else if (Shape::kHasMemory && !Shape::kMakesMemory && !base && bytes > 0)
      Report(call, {.wrong = Wrong::kNullBuffer});
    BeginWindow(call, comm, unit, Shape::kHasMemory ? bytes : -1, &made);
    const int result = real(arguments...);
    if (result == MPI_SUCCESS && call.box.watches_buffers)
      NoteWindowMemory(Bits(*Last(arguments...)), Shape::kMakesMemory ? *static_cast<void* const*>(base) : base,
                       Shape::kHasMemory ? bytes : -1, kShared);
    EndWindow(call, made, result, Last(arguments...), info);
    return result;
  }

 protected:
  struct Whose {
    MPI_Comm comm;
    std::int64_t unit;
    std::int64_t bytes;
    const void* base;
    MPI_Info info;
  };
  static constexpr bool kHasMemory = true, kMakesMemory = false;
};
struct WinCreate : MakesWindow<WinCreate> {
  static Whose Of(void* base, MPI_Aint bytes, auto unit, MPI_Info info, MPI_Comm comm, MPI_Win*) {
    return {comm, unit, bytes, base, info};
  }
};
struct WinAllocate : MakesWindow<WinAllocate> {
  static Whose Of(MPI_Aint bytes, auto unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win*) {
    return {comm, unit, bytes, base, info};
  }
  static constexpr bool kMakesMemory = true;
};
// Its memory comes and goes.
struct WinCreateDynamic : MakesWindow<WinCreateDynamic> {
  static Whose Of(MPI_Info info, MPI_Comm comm, MPI_Win*) { return {comm, 1, 0, nullptr, info}; }
  static constexpr bool kHasMemory = false;
};

struct WinFree {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Win* handle) {
    const MPI_Win before = Given(handle, MPI_WIN_NULL);
    Window window;
    if (before == MPI_WIN_NULL)
      Report(call, {.wrong = Wrong::kNullObject});
    else if (AttachWindow(call, before, &window))
      CheckFree(call, window);
    EnterCollective(call);
    BeginFreeCommObject(call);
    if (call.box.watches_buffers) ForgetMemory(before);
    const int result = real(handle);
    open_buffers.RemoveOneSided();
    EndFreeingWindow(call, before, result);
    if (result == MPI_SUCCESS && call.box.watches_buffers) {
      ForgetWindowMemory(Bits(before));
      ForgetOrigins(call);
    }
    return result;
  }
};
struct WinFence {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int assertion, MPI_Win handle) {
    Window window;
    if (AttachWindow(call, handle, &window)) {
      CheckFence(call, window, assertion);
      EndOrigins(call);
      if (call.box.watches_buffers) [[unlikely]]
        TellStores(call, handle);
    }
    EnterCollective(call);
    const int result = real(assertion, handle);
    if (result == MPI_SUCCESS) {
      NoteFence(call, handle, assertion);
      if (call.box.watches_buffers && (assertion & MPI_MODE_NOSUCCEED) == 0) [[unlikely]]
        KeepMemory(call, handle);
    }
    open_buffers.RemoveOneSided();
    LeaveCollective(call, result);
    return result;
  }
};

// Checked, recorded, passed on, noted.
template <class Check, class Real, class Note>
int Synchronize(Call& call, MPI_Win handle, const Check& check, const Real& real, const Note& note) {
  Window window;
  if (AttachWindow(call, handle, &window)) check(window);
  EnterOther(call);
  const int result = real();
  if (result == MPI_SUCCESS) note();
  open_buffers.RemoveOneSided();  // it may be what ends them
  Leave(call, result);
  return result;
}

struct WinStart {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Group group, int assertion, MPI_Win handle) {
    std::vector<int> named;
    bool known = false;
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          CheckStart(call, window, group);
          known = TellNamed(call, handle, group, &named);
        },
        [&] { return real(group, assertion, handle); }, [&] { NoteStart(call, handle, known, named); });
  }
};
struct WinComplete {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Win handle) {
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          if (!window.started()) Report(call, {.wrong = Wrong::kNotStarted});
          EndOrigins(call);
        },
        [&] { return real(handle); }, [&] { NoteComplete(handle); });
  }
};
struct WinPost {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Group group, int assertion, MPI_Win handle) {
    std::vector<int> named;
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          CheckPost(call, window, group);
          TellNamed(call, handle, group, &named);
        },
        [&] { return real(group, assertion, handle); }, [&] { NotePost(call, handle); });
  }
};
struct WinWait {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Win handle) {
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          if (!window.posted()) Report(call, {.wrong = Wrong::kNotPosted});
        },
        [&] { return real(handle); }, [&] { NoteWait(handle); });
  }
};
struct WinTest {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Win handle, int* flag) {
    Window window;
    if (AttachWindow(call, handle, &window) && !window.posted()) Report(call, {.wrong = Wrong::kNotPosted});
    const int result = real(handle, flag);
    if (result == MPI_SUCCESS && IsSet(flag)) NoteWait(handle);
    NoteTest(call, result, result != MPI_SUCCESS || IsSet(flag));
    return Noted(call, result);
  }
};

struct WinLock {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int type, int target, int assertion, MPI_Win handle) {
    call.root = target;
    call.tag = static_cast<std::int32_t>(type == MPI_LOCK_EXCLUSIVE ? format::AccessEpoch::kExclusive
                                                                    : format::AccessEpoch::kShared);
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          CheckTarget(call, target);
          CheckLock(call, window, target);
        },
        [&] { return real(type, target, assertion, handle); }, [&] { NoteLock(call, handle, target, type); });
  }
};
struct WinUnlock {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int target, MPI_Win handle) {
    call.root = target;
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          CheckTarget(call, target);
          CheckUnlock(call, window, target);
          EndOriginsAt(call, target);
        },
        [&] { return real(target, handle); }, [&] { NoteUnlock(handle, target); });
  }
};
struct WinLockAll {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int assertion, MPI_Win handle) {
    return Synchronize(
        call, handle, [&](const Window& window) { CheckLockAll(call, window); },
        [&] { return real(assertion, handle); }, [&] { NoteLockAll(call, handle); });
  }
};
struct WinUnlockAll {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Win handle) {
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          if (!window.all_locked) Report(call, {.wrong = Wrong::kNotAllLocked});
          EndOrigins(call);
        },
        [&] { return real(handle); }, [&] { NoteUnlockAll(handle); });
  }
};
// MPI_Win_flush_local too: a get is over when it is over here.
struct WinFlush {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, int target, MPI_Win handle) {
    call.root = target;
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          CheckTarget(call, target);
          CheckFlush(call, window, target);
          EndOriginsAt(call, target);
        },
        [&] { return real(target, handle); }, [&] { NoteFlush(handle); });
  }
};
struct WinFlushAll {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Win handle) {
    return Synchronize(
        call, handle,
        [&](const Window& window) {
          CheckFlushAll(call, window);
          EndOrigins(call);
        },
        [&] { return real(handle); }, [&] { NoteFlush(handle); });
  }
};

// MPI_Rput, not MPI_Put.
constexpr bool LeavesRequest(Function function) { return functions::FullName(function).starts_with("MPI_R"); }

struct Access {
 protected:
  struct Data {
    std::uint64_t bytes;
    std::uint8_t dtype;
    bool predefined;
  };
  template <class Count>
  static Data Describe(Call& call, Count count, MPI_Datatype type) {
    CheckCount(call, count);
    Amount(call, static_cast<std::uint64_t>(count), type);
    const bool predefined = IsPredefined(type);
    if (!predefined) call.bytes = 0;  // there may be gaps in it
    return {call.bytes, call.dtype, predefined};
  }
  // Both ends stand in the one call.
  static void CheckAlike(Call& call, const Data& own, const Data& target) {
    if (!own.predefined || !target.predefined) return;
    if (own.bytes == target.bytes && (own.bytes == 0 || Alike(own.dtype, target.dtype))) [[likely]]
      return;
    Report(call, {.wrong = Wrong::kUnlikeTarget,
                  .value = static_cast<std::int64_t>(own.bytes),
                  .limit = static_cast<std::int64_t>(target.bytes)});
  }
  // touch(footprint or origin buffers): the memory of this rank that the access is about.
  template <Function function, class Touch, class Real, class... A>
  static int Pass(Call& call, int target, MPI_Aint displacement, MPI_Win handle, const Touch& touch, Real real,
                  A... arguments) {
    DescribeAccess(call, handle, target, displacement, LeavesRequest(function));
    Footprint touched(call);
    if (target != MPI_PROC_NULL) touch(touched);
    if constexpr (LeavesRequest(function)) call.flags |= format::kRequest;
    EnterOther(call);
    const int result = real(arguments...);
    if (result == MPI_SUCCESS) {
      touched.Open(true);
      if (call.box.watches_buffers) [[unlikely]]
        Watch(call, target, touch);
      if constexpr (LeavesRequest(function)) OpenRequest(call, *Last(arguments...), false, false, false);
    }
    Leave(call, result);
    return result;
  }

 private:
  template <class Touch>
  [[gnu::cold, gnu::noinline]] static void Watch(Call& call, int target, const Touch& touch) {
    OriginBuffers origin(call);
    touch(origin);
    origin.Watch(target);
  }
};
struct Put : Access {
  template <Function function, class Real, class Origin, class Count, class... A>
  static int Intercept(Call& call, Real real, Origin* origin, Count origin_count, MPI_Datatype origin_type, int target,
                       MPI_Aint displacement, Count count, MPI_Datatype type, MPI_Win window, A... more) {
    const Data own = Describe(call, origin_count, origin_type);
    if (target != MPI_PROC_NULL) CheckBuffer(call, origin, own.bytes, origin_type);
    CheckAlike(call, own, Describe(call, count, type));
    constexpr Use use = std::is_const_v<Origin> ? Use::kRead : Use::kWritten;
    const auto touch = [&](auto& touched) { touched.Add(use, origin, Unsigned(origin_count), origin_type); };
    return Pass<function>(call, target, displacement, window, touch, real, origin, origin_count, origin_type, target,
                          displacement, count, type, window, more...);
  }
};
struct Accumulate : Access {
  template <Function function, class Real, class Count, class... A>
  static int Intercept(Call& call, Real real, const void* origin, Count origin_count, MPI_Datatype origin_type,
                       int target, MPI_Aint displacement, Count count, MPI_Datatype type, MPI_Op op, MPI_Win window,
                       A... more) {
    const Data own = Describe(call, origin_count, origin_type);
    if (target != MPI_PROC_NULL) CheckBuffer(call, origin, own.bytes, origin_type);
    CheckAlike(call, own, Describe(call, count, type));
    call.reduction = ReductionOf(op);
    CheckPredefinedOperator(call, op);
    const auto touch = [&](auto& touched) { touched.Add(Use::kRead, origin, Unsigned(origin_count), origin_type); };
    return Pass<function>(call, target, displacement, window, touch, real, origin, origin_count, origin_type, target,
                          displacement, count, type, op, window, more...);
  }
};
struct GetAccumulate : Access {
  template <Function function, class Real, class Count, class... A>
  static int Intercept(Call& call, Real real, const void* origin, Count origin_count, MPI_Datatype origin_type,
                       void* result, Count result_count, MPI_Datatype result_type, int target, MPI_Aint displacement,
                       Count count, MPI_Datatype type, MPI_Op op, MPI_Win window, A... more) {
    if (op != MPI_NO_OP) Describe(call, origin_count, origin_type);
    const Data result_data = Describe(call, result_count, result_type);
    CheckAlike(call, result_data, Describe(call, count, type));
    call.reduction = ReductionOf(op);
    CheckPredefinedOperator(call, op);
    const auto touch = [&](auto& touched) {
      if (op != MPI_NO_OP) touched.Add(Use::kRead, origin, Unsigned(origin_count), origin_type);
      touched.Add(Use::kWritten, result, Unsigned(result_count), result_type);
    };
    return Pass<function>(call, target, displacement, window, touch, real, origin, origin_count, origin_type, result,
                          result_count, result_type, target, displacement, count, type, op, window, more...);
  }
};
struct FetchAndOp : Access {
  template <Function function, class Real>
  static int Intercept(Call& call, Real real, const void* origin, void* result, MPI_Datatype type, int target,
                       MPI_Aint displacement, MPI_Op op, MPI_Win window) {
    Describe(call, 1, type);
    call.reduction = ReductionOf(op);
    CheckPredefinedOperator(call, op);
    const auto touch = [&](auto& touched) {
      if (op != MPI_NO_OP) touched.Add(Use::kRead, origin, 1, type);
      touched.Add(Use::kWritten, result, 1, type);
    };
    return Pass<function>(call, target, displacement, window, touch, real, origin, result, type, target, displacement,
                          op, window);
  }
};
struct CompareAndSwap : Access {
  template <Function function, class Real>
  static int Intercept(Call& call, Real real, const void* origin, const void* compared, void* result, MPI_Datatype type,
                       int target, MPI_Aint displacement, MPI_Win window) {
    Describe(call, 1, type);
    const auto touch = [&](auto& touched) {
      touched.Add(Use::kRead, origin, 1, type);
      touched.Add(Use::kRead, compared, 1, type);
      touched.Add(Use::kWritten, result, 1, type);
    };
    return Pass<function>(call, target, displacement, window, touch, real, origin, compared, result, type, target,
                          displacement, window);
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
