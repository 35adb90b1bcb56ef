// The one body of all wrappers of MPI.
#pragma once

#include "shim/lifecycle/abort.h"
#include "shim/lifecycle/process.h"
#include "shim/mpi/call.h"
#include "shim/mpi/real.h"
#include "shim/mpi/shapes.h"

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
  return IsMpisOwn(here.site) || StillInCall(thread);
}

template <functions::Function function, class Shape, class Signature>
struct Hook;

template <functions::Function function, class Shape, class... P>
struct Hook<function, Shape, int(P...)> {
  using Real = int (*)(P...);

  // One copy for both names of a function.
  [[gnu::noinline]] static int Run(const Here& here, P... arguments) {
    auto* real = reinterpret_cast<Real>(mpi::Real(function, here.name));
    if (!real) [[unlikely]]
      return NoSuchFunction(function);
    Thread& thread = current_thread;
    if (IsInner(thread, here)) return real(arguments...);
    Box* box = CurrentBox();
    if constexpr (kBegins)
      if (IsOurAbi()) box = FirstUse(0);
    if (!box) return real(arguments...);
    thread.frame = here.frame;
    thread.site = here.site;
    Call call{.box = *box, .thread = thread};
    call.function = function;
    call.site = here.site;
    const int result = Shape::template Around<function>(call, real, arguments...);
    thread.frame = 0;
    return result;
  }

 private:
  static constexpr bool kBegins =
      function == functions::Function::MPI_Init || function == functions::Function::MPI_Init_thread;
};

}  // namespace ncclwatch::shim::mpi
