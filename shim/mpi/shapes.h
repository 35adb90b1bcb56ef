// What is done around each call of MPI, by the shape of its arguments (a column of mpi.def): Around() describes the
// call, records it, passes it on and records what came of it.
#pragma once

#include "shim/mpi/communicators.h"
#include "shim/mpi/datatypes.h"
#include "shim/mpi/record.h"
#include "shim/mpi/shapes/collectives.h"
#include "shim/mpi/shapes/communicators.h"
#include "shim/mpi/shapes/messages.h"
#include "shim/mpi/shapes/requests.h"

namespace ncclwatch::shim::mpi::shapes {

struct TypeMakes {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, A... arguments) {
    const int result = real(arguments...);
    if (result == MPI_SUCCESS) LearnDatatype(*Last(arguments...), call.site);
    return result;
  }
};
struct TypeCommit {
  template <Function, class Real>
  static int Around(Call&, Real real, MPI_Datatype* type) {
    const int result = real(type);
    if (result == MPI_SUCCESS) CommitDatatype(*type);
    return result;
  }
};
struct TypeFree {
  template <Function, class Real>
  static int Around(Call&, Real real, MPI_Datatype* type) {
    const MPI_Datatype before = *type;
    ForgetDatatype(before);
    return real(type);
  }
};

struct Init {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, A... arguments) {
    BeginWorld(call.box);
    EnterOther(call);
    const int result = real(arguments...);
    if (result == MPI_SUCCESS) LearnPredefined();
    if (result == MPI_SUCCESS) LearnThreads();
    EndWorld(call.box, result);
    Leave(call, result);
    return result;
  }
};
// Recorded, and no more is said of it.
struct Plain {
  template <Function, class Real, class... A>
  static int Around(Call& call, Real real, A... arguments) {
    EnterOther(call);
    const int result = real(arguments...);
    Leave(call, result);
    return result;
  }
};
using Finalize = Plain;
struct Abort {
  template <Function, class Real>
  static int Around(Call& call, Real real, MPI_Comm comm, int code) {
    Attach(call, comm);
    call.count = static_cast<std::uint64_t>(code);
    EnterOther(call);
    return real(comm, code);
  }
};
// What MPI does in it on its own account is not the application's; of the call itself nothing is kept.
struct Silent {
  template <Function, class Real, class... A>
  static int Around(Call&, Real real, A... arguments) {
    return real(arguments...);
  }
};

}  // namespace ncclwatch::shim::mpi::shapes
