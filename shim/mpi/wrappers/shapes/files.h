// Files, as far as their ranks call together: opened, closed, and read and written by all. How much each one reads or
// writes is its own affair.
#pragma once

#include <concepts>

#include "shim/mpi/communicators/communicators.h"
#include "shim/mpi/communicators/files.h"
#include "shim/mpi/core/misuse.h"
#include "shim/mpi/record/arrays.h"
#include "shim/mpi/record/record.h"
#include "shim/mpi/requests/requests.h"
#include "shim/mpi/wrappers/shapes/arguments.h"

namespace ncclwatch::shim::mpi::shapes {

struct FileOpen {
  template <Function, class Real, class... A>
  static int Intercept(Call& call, Real real, MPI_Comm comm, A... arguments) {
    const std::uint32_t made = BeginCreateCommObject(call, comm, {Origin::kFile, format::kCommFile});
    const int result = real(comm, arguments...);
    EndOpening(call, made, result, Last(arguments...));
    return result;
  }
};

struct FileClose {
  template <Function, class Real>
  static int Intercept(Call& call, Real real, MPI_File* file) {
    const MPI_File before = Given(file, MPI_FILE_NULL);
    if (before == MPI_FILE_NULL) Report(call, {.wrong = Wrong::kNullObject});
    AttachFile(call, before);
    EnterCollective(call);
    BeginFreeCommObject(call);
    const int result = real(file);
    EndClosing(call, before, result);
    return result;
  }
};

struct FileCollective {
  template <Function function, class Real, class... A>
  static int Intercept(Call& call, Real real, MPI_File file, A... arguments) {
    AttachFile(call, file);
    Describe(call, arguments...);
    EnterCollective(call);
    const int result = real(file, arguments...);
    if constexpr (LeavesRequest<A...>())
      if (result == MPI_SUCCESS) ForgetRequest(call, *Last(arguments...));
    LeaveCollective(call, result);
    return result;
  }

 private:
  template <class... A>
  static constexpr bool LeavesRequest() {
    return std::same_as<std::tuple_element_t<sizeof...(A), std::tuple<void, A...>>, MPI_Request*>;
  }
  static void Describe(Call&, ...) {}
  template <std::integral Count, class... A>
  static void Describe(Call& call, const void*, Count count, MPI_Datatype type, A...) {
    AmountOfOne(call, static_cast<std::uint64_t>(count), type);
  }
  template <std::integral Count, class... A>
  static void Describe(Call& call, MPI_Offset, const void*, Count count, MPI_Datatype type, A...) {
    AmountOfOne(call, static_cast<std::uint64_t>(count), type);
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
