// What is done around each call of MPI, by the shape of its arguments (a column of mpi.def): Around() describes the
// call, records it, passes it on and records what came of it.
#pragma once

#include "shim/crash_handlers/signals.h"
#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/core/phase.h"
#include "shim/mpi/objects/checks.h"
#include "shim/mpi/objects/datatypes.h"
#include "shim/mpi/objects/objects.h"
#include "shim/mpi/record/record.h"
#include "shim/mpi/requests/buffers.h"
#include "shim/mpi/wrappers/finalize_report.h"
#include "shim/mpi/wrappers/shapes/collectives.h"
#include "shim/mpi/wrappers/shapes/communicators.h"
#include "shim/mpi/wrappers/shapes/files.h"
#include "shim/mpi/wrappers/shapes/messages.h"
#include "shim/mpi/wrappers/shapes/objects.h"
#include "shim/mpi/wrappers/shapes/requests.h"
#include "shim/mpi/wrappers/shapes/windows.h"

namespace ncclwatch::shim::mpi::shapes {

struct Init {
  template <Function, class Real, class... A>
  static int Intercept(Call& call, Real real, A... arguments) {
    if (HasBegun()) {
      Report(call, {.wrong = Wrong::kInitAgain});
      return Noted(call, real(arguments...));
    }
    phase.store(Phase::kRunning, std::memory_order_relaxed);
    BeginWorld(call.box);
    EnterOther(call);
    LendFatalSignals();
    const int result = real(arguments...);
    TakeFatalSignalsBack();
    if (result == MPI_SUCCESS) LearnPredefined();
    if (result == MPI_SUCCESS) LearnThreads();
    if (result == MPI_SUCCESS) LearnHighestTag();
    if (call.box.watches_buffers) open_buffers.KeepMany();
    EndWorld(call.box, result);
    Leave(call, result);
    return result;
  }
};
// Recorded, and no more is said of it.
struct Plain {
  template <Function function, class Real, class... A>
  static int Intercept(Call& call, Real real, A... arguments) {
    if constexpr (IsPartitioned(function)) NoteUnseenMessages(call.box);
    EnterOther(call);
    const int result = real(arguments...);
    if (result == MPI_SUCCESS) {
      if constexpr (MakesRequest(function)) ForgetRequest(call, *Last(arguments...));
      if constexpr (MakesCommunicator(function)) LoseSight(ObjectKind::kCommunicator);
    }
    Leave(call, result);
    return result;
  }

 private:
  // Of which nothing is known but that a handle may have come again.
  static constexpr bool MakesRequest(Function function) {
    const std::string_view name = functions::FullName(functions::WithSmallCounts(function));
    return name.starts_with("MPI_File_i") || name == "MPI_Grequest_start" || name == "MPI_Psend_init" ||
           name == "MPI_Precv_init";
  }
  static constexpr bool MakesCommunicator(Function function) {
    return functions::Find(function)->family == functions::Family::kCreation;
  }
};
// What is left at MPI_Finalize may be freed in there, by functions of the application for attributes of MPI_COMM_SELF.
inline constinit std::atomic<bool> freed_by_callbacks{false};
struct Finalize {
  template <Function, class Real>
  static int Intercept(Call& call, Real real) {
    FreeKeptOnes(call);
    const bool later = freed_by_callbacks.load(std::memory_order_relaxed);
    if (!later) ReportLeft(call);
    EnterOther(call);
    const int result = real();
    if (result == MPI_SUCCESS) phase.store(Phase::kOver, std::memory_order_relaxed);
    if (later && result == MPI_SUCCESS) ReportLeft(call);
    TakeBackUncertain(call.box);
    Leave(call, result);
    return result;
  }
};
struct Abort {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_Comm comm, int code) {
    Attach(call, comm);
    call.count = static_cast<std::uint64_t>(code);
    EnterOther(call);
    return real(comm, code);
  }
};
// What MPI does in it on its own account is not the application's; of the call itself nothing is kept.
struct Silent {
  template <Function function, class Real, class... A>
  static int Intercept(Call&, Real real, A... arguments) {
    if constexpr (function == Function::MPI_Comm_create_keyval || function == Function::MPI_Keyval_create)
      NoteAtEnd(arguments...);
    return real(arguments...);
  }

 private:
  template <class Copy, class Delete, class... A>
  static void NoteAtEnd(Copy, Delete at_end, A...) {
    const auto address = reinterpret_cast<std::uint64_t>(at_end);
    if (address != 0 && !IsMpisOwn(address)) freed_by_callbacks.store(true, std::memory_order_relaxed);
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
