// The wrappers themselves: MPI_Foo and PMPI_Foo, one of each a row. Fortran's functions call one or the other.
#include "shim/mpi/hook.h"

#include "shim/export.h"

// mpi.h warns of functions that it will drop; callers of them are served all the same.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using ncclwatch::functions::Function;
namespace shapes = ncclwatch::shim::mpi::shapes;

// In the wrapper itself, so that the addresses are those of the application's call.
#define NCCLWATCH_HERE(name)                                                                           \
  {                                                                                                    \
    reinterpret_cast<std::uint64_t>(__builtin_return_address(0)),                                      \
        reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)), ncclwatch::shim::mpi::Name::name \
  }
#define NCCLWATCH_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__

extern "C" {
#define HOOK(number, name, family, shape, parameters, arguments)                           \
  NCCLWATCH_EXPORT int name parameters {                                                   \
    return ncclwatch::shim::mpi::Hook<Function::name, shapes::shape, int parameters>::Run( \
        NCCLWATCH_HERE(kPlain) NCCLWATCH_UNPACK arguments);                                \
  }                                                                                        \
  NCCLWATCH_EXPORT int P##name parameters {                                                \
    return ncclwatch::shim::mpi::Hook<Function::name, shapes::shape, int parameters>::Run( \
        NCCLWATCH_HERE(kProfiled) NCCLWATCH_UNPACK arguments);                             \
  }
#include "mpi_here.def"  // the rows of mpi.def that this MPI declares
#undef HOOK
}
