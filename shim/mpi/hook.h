// The one body of all wrappers of MPI.
#pragma once

#include <type_traits>
#include <utility>

#include "shim/lifecycle/process.h"
#include "shim/mpi/buffers.h"
#include "shim/mpi/call.h"
#include "shim/mpi/communicators.h"
#include "shim/mpi/misuse.h"
#include "shim/mpi/objects.h"
#include "shim/mpi/phase.h"
#include "shim/mpi/real.h"
#include "shim/mpi/shapes.h"
#include "shim/mpi/threads.h"
#include "shim/recorder/put.h"

namespace ncclwatch::shim::mpi {

// Where the application calls: the wrapper's return address, and its frame.
struct Here {
  std::uint64_t site;
  std::uintptr_t frame;
  Name name;
};

// A call from inside MPI, or from a tool that serves a call in progress on this thread.
inline bool IsInner(const Thread& thread, const Here& here) {
  if (thread.frame == 0 || here.frame >= thread.frame) [[likely]]
    return false;
  return IsKnownWay({here.frame, here.site}, {thread.frame, thread.site}) || IsMpisOwn(here.site) ||
         StillInCall(thread, {here.frame, here.site});
}

// What a tool does inside of it is its share of the messages that its record tells of. What callbacks of MPI_Finalize
// do comes after all that is compared.
inline bool TellsOfMessages(std::uint32_t function) {
  using functions::Family;
  const functions::FunctionInfo* info = functions::Find(static_cast<functions::Function>(function));
  if (info == nullptr) return true;
  return info->family == Family::kPointToPoint || info->family == Family::kProbe ||
         info->family == Family::kCompletion || info->family == Family::kRequest ||
         info->function == functions::Function::MPI_Finalize;
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
      if constexpr (kChangesLives || kFamily == Family::kPointToPoint)
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
    // One by one: read in one piece they would wait for the two stores that have just put them there.
    Put(thread.frame, here.frame);
    Put(thread.site, here.site);
    Put(thread.function, static_cast<std::uint32_t>(function));
    Call call(*box, thread, function, here.site);
    NoteCaller(thread, call);
    const int result = Shape::template Around<function>(call, real, arguments...);
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
    if constexpr (kFamily == Family::kPointToPoint || kFamily == Family::kCompletion)
      if (box && !TellsOfMessages(thread.function)) NoteUnseenMessages(*box);
    if constexpr (kFamily == Family::kCompletion)
      if (AnyShadow()) return Inside(thread, here, real, arguments...);
    if constexpr (kEndsCommunicator) {
      const std::uint32_t ends =
          box ? TakeOut(*box, shapes::Given(shapes::Last(arguments...), MPI_COMM_NULL)) : format::kNoCommunicator;
      const int result = real(arguments...);
      if (result == MPI_SUCCESS && ends != format::kNoCommunicator) EndTakenOut(*box, ends);
      return result;
    }
    return real(arguments...);
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
