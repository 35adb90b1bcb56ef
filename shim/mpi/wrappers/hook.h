// The one body of all wrappers of MPI.
#pragma once

#include <algorithm>
#include <atomic>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shim/base/process.h"
#include "shim/base/put.h"
#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/core/call.h"
#include "shim/mpi/core/fortran_site.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/core/phase.h"
#include "shim/mpi/core/real.h"
#include "shim/mpi/core/threads.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/requests/buffers.h"
#include "shim/mpi/requests/requests.h"
#include "shim/mpi/wrappers/shapes.h"

namespace ncclwatch::shim::mpi {

// Where the application calls: the wrapper's return address, and its frame.
struct Here {
  std::uint64_t site;
  std::uintptr_t frame;
  Name name;
};

// Of the call as a record has it.
inline std::uint64_t SiteOf(const Here& here) {
  return here.name == Name::kPlain ? here.site : BehindFortran({here.frame, here.site});
}

// A call from inside MPI, or from a tool that serves a call in progress on this thread.
inline bool IsInner(const Thread& thread, const Here& here) {
  if (thread.frame == 0 || here.frame >= thread.frame) [[likely]]
    return false;
  return IsKnownUnwindPath({here.frame, here.site}, {thread.frame, thread.site}) || IsMpisOwn(here.site) ||
         StillInCall(thread, {here.frame, here.site});
}

// MPI calls functions of the application in completions too: MPI_Grequest_start has named them.
inline constinit std::atomic<bool> completes_by_callback{false};

// What a tool does inside of it is its share of the messages that its record tells of. What callbacks of MPI_Finalize
// do comes after all that is compared, and what tools do in MPI_Init before it.
inline bool TellsOfMessages(std::uint32_t function) {
  using functions::Family;
  using functions::Function;
  const functions::FunctionInfo* info = functions::Find(static_cast<Function>(function));
  if (info == nullptr) return true;
  switch (info->family) {
    case Family::kPointToPoint:
    case Family::kProbe: return true;
    case Family::kCompletion:
    case Family::kRequest: return !completes_by_callback.load(std::memory_order_relaxed);
    default:
      return info->function == Function::MPI_Finalize || info->function == Function::MPI_Init ||
             info->function == Function::MPI_Init_thread;
  }
}

template <functions::Function function, class Shape, class Signature>
struct Hook;

template <functions::Function function, class Shape, class... P>
struct Hook<function, Shape, int(P...)> {
  using Real = int (*)(P...);

  // The arguments as they came, whatever the types that the caller's mpi.h has for them: another MPI's handles are
  // pointers where ours are ints, and would lose half of their bits.
  template <class... Words>
  [[gnu::always_inline]] static int Enter(const Here& here, Words... words) {
    static_assert(sizeof...(P) <= sizeof...(Words));
    if (abi.load(std::memory_order_relaxed) != Abi::kOurs) [[unlikely]]
      return EnterUnsure(here, words...);
    const std::uint64_t all[] = {words...};
    return Unpack(here, all, std::index_sequence_for<P...>{});
  }

  // One copy for both names of a function. The arguments come first: they stay where the caller has put them.
  [[gnu::noinline]] static int Run(P... arguments, const Here& here) {
    auto* real = reinterpret_cast<Real>(mpi::Real(function, here.name));
    if (!real) [[unlikely]]
      return NoSuchFunction(function);
    Thread& thread = current_thread;
    if (IsInner(thread, here)) {
      // A tool, or the application in a callback of MPI.
      if constexpr (kChangesLives || kMovesMessages)
        if (!IsMpisOwn(here.site)) return Unseen(thread, here, real, arguments...);
      if constexpr (kFamily == Family::kCompletion)
        if (AnyShadow()) [[unlikely]]
          return Inside(thread, here, real, arguments...);
      return real(arguments...);
    }
    if constexpr (kBegins) {
      FirstUse(0);
    } else if (phase.load(std::memory_order_relaxed) != Phase::kRunning) [[unlikely]] {
      return Outside(here, real, arguments...);
    }
    Box* box = CurrentBox();
    if (!box) return real(arguments...);
    if constexpr (function == functions::Function::MPI_Grequest_start)
      completes_by_callback.store(true, std::memory_order_relaxed);
    // One by one: read in one piece they would wait for the two stores that have just put them there.
    Put(thread.frame, here.frame);
    Put(thread.site, here.site);
    Put(thread.function, static_cast<std::uint32_t>(function));
    Call call(*box, thread, function, SiteOf(here));
    NoteCaller(thread, call);
    const int result = Shape::template Intercept<function>(call, real, arguments...);
    if (freed_requests.load(std::memory_order_relaxed) != 0) [[unlikely]]
      PollFreed(call);
    thread.frame = 0;
    return result;
  }

 private:
  // At the first call, or under another MPI.
  template <class... Words>
  [[gnu::cold, gnu::noinline]] static int EnterUnsure(const Here& here, Words... words) {
    if (IsOurAbi()) {
      const std::uint64_t all[] = {words...};
      return Unpack(here, all, std::index_sequence_for<P...>{});
    }
    auto* real = reinterpret_cast<int (*)(Words...)>(mpi::Real(function, here.name));
    return real ? real(words...) : NoSuchFunction(function);
  }

  // Before MPI_Init or after MPI_Finalize.
  [[gnu::cold, gnu::noinline]] static int Outside(const Here& here, Real real, P... arguments) {
    if constexpr (function == functions::Function::MPI_Session_init) BeginSession();
    if constexpr (kNeedsMpi) {
      Thread& thread = current_thread;
      Box* const box = IsOutside() ? FirstUse(0) : nullptr;
      if (box) {
        Call call(*box, thread, function, here.site);
        Report(call, {.wrong = phase.load() == Phase::kOver ? Wrong::kAfterFinalize : Wrong::kBeforeInit});
        return Noted(call, real(arguments...));
      }
    }
    return real(arguments...);
  }

  // Of a tool, or of the application in a callback.
  [[gnu::cold, gnu::noinline]] static int Unseen(Thread& thread, const Here& here, Real real, P... arguments) {
    Box* const box = CurrentBox();
    if constexpr (kChangesLives) LoseSightOfAll();
    if constexpr (kMovesMessages)
      if (box && !TellsOfMessages(thread.function) && AreKnown(*box, arguments...)) NoteUnseenMessages(*box);
    if constexpr (kFamily == Family::kCompletion)
      if (AnyShadow()) return Inside(thread, here, real, arguments...);
    if constexpr (kEndsCommunicator) {
      const std::uint32_t ends =
          box ? Unregister(*box, shapes::Given(shapes::Last(arguments...), MPI_COMM_NULL)) : format::kNoCommunicator;
      const int result = real(arguments...);
      if (ends != format::kNoCommunicator) EndUnregister(*box, ends, result);
      return result;
    }
    return real(arguments...);
  }

  // A tool has communicators and requests of its own, of which nothing is compared.
  [[gnu::cold, gnu::noinline]] static bool AreKnown(const Box& box, P... arguments) {
    if constexpr (kStarts || kFamily == Family::kCompletion) {
      const MPI_Request* const all = RequestsOf(arguments...);
      Request request;
      return std::any_of(all, all + (all ? std::max(CountOf(arguments...), 0) : 0),
                         [&](MPI_Request one) { return requests.Find(Bits(one), &request); });
    } else if constexpr (CommunicatorAt() < sizeof...(P)) {
      return box.handles.Find(Bits(std::get<CommunicatorAt()>(std::tie(arguments...)))) != format::kNoCommunicator;
    } else {
      return true;  // of a matched probe
    }
  }
  static constexpr std::size_t CommunicatorAt() {
    using functions::Function;
    switch (functions::WithSmallCounts(function)) {
      case Function::MPI_Mrecv:
      case Function::MPI_Imrecv: return sizeof...(P);
      case Function::MPI_Mprobe:
      case Function::MPI_Improbe: return 2;
      case Function::MPI_Sendrecv:
      case Function::MPI_Isendrecv: return 10;
      case Function::MPI_Sendrecv_replace:
      case Function::MPI_Isendrecv_replace: return 7;
      default: return 5;
    }
  }

  static const MPI_Request* RequestsOf(int, const MPI_Request* all, ...) { return all; }
  static const MPI_Request* RequestsOf(const MPI_Request* one, ...) { return one; }
  static int CountOf(int count, ...) { return count; }
  static int CountOf(const MPI_Request*, ...) { return 1; }
  [[gnu::cold, gnu::noinline]] static int Inside(Thread& thread, const Here& here, Real real, P... arguments) {
    Box* const box = CurrentBox();
    if (!box) return real(arguments...);
    EndsInside ends(CountOf(arguments...), RequestsOf(arguments...));
    const int result = real(arguments...);
    Call call(*box, thread, function, here.site);
    ends.After(call);
    return result;
  }

  template <class T>
  static T As(std::uint64_t word) {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<T>(word);
    else
      return static_cast<T>(word);
  }
  template <std::size_t... at>
  [[gnu::always_inline]] static int Unpack(const Here& here, const std::uint64_t* words, std::index_sequence<at...>) {
    static_cast<void>(words);
    return Run(As<P>(words[at])..., here);
  }

  using Family = functions::Family;
  static constexpr Family kFamily = functions::Find(function)->family;
  static constexpr bool kBegins =
      function == functions::Function::MPI_Init || function == functions::Function::MPI_Init_thread;
  static constexpr bool kNeedsMpi =
      function == functions::Function::MPI_Finalize || kFamily == Family::kCollective || kFamily == Family::kRooted ||
      kFamily == Family::kPointToPoint || kFamily == Family::kProbe || kFamily == Family::kCompletion ||
      kFamily == Family::kLifecycle || kFamily == Family::kOneSided || kFamily == Family::kWindow ||
      kFamily == Family::kFile || kFamily == Family::kDatatype;
  static constexpr bool kStarts =
      function == functions::Function::MPI_Start || function == functions::Function::MPI_Startall;
  // A probe that matches takes the message.
  static constexpr bool kMovesMessages = kFamily == Family::kPointToPoint || kFamily == Family::kCompletion ||
                                         kStarts || function == functions::Function::MPI_Mprobe ||
                                         function == functions::Function::MPI_Improbe;
  static constexpr bool kEndsCommunicator =
      function == functions::Function::MPI_Comm_free || function == functions::Function::MPI_Comm_disconnect;
  static constexpr bool kChangesLives =
      shapes::IsNonBlocking(function) || shapes::IsPersistent(function) || kFamily == Family::kCompletion ||
      kFamily == Family::kRequest || kFamily == Family::kCreation || kFamily == Family::kLifecycle ||
      kFamily == Family::kDatatype || kFamily == Family::kObject || kFamily == Family::kWindow ||
      functions::FullName(function).starts_with("MPI_File_") ||
      functions::FullName(function).starts_with("MPI_Buffer_") || kFamily == Family::kOneSided ||
      function == functions::Function::MPI_Win_fence || function == functions::Function::MPI_Win_free;
};

}  // namespace ncclwatch::shim::mpi
