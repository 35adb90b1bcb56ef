// The wrappers themselves: MPI_Foo and PMPI_Foo, one of each a row. Fortran's functions call one or the other.
#include "shim/mpi/wrappers/hook.h"

#include "shim/base/export.h"

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

// No function of MPI has more arguments, and all of them are whole numbers or pointers: a word each, as both
// processors' calling conventions pass them. What lies behind the last argument is only read where it is passed on
// unseen.
#define NCCLWATCH_WORDS(word)                                                                                   \
  word w0, word w1, word w2, word w3, word w4, word w5, word w6, word w7, word w8, word w9, word w10, word w11, \
      word w12, word w13
#define NCCLWATCH_WRAPPER(name, prefix, which, shape, parameters)                                       \
  NCCLWATCH_EXPORT int ncclwatch_##prefix##name(NCCLWATCH_WORDS(std::uint64_t)) __asm__(#prefix #name); \
  int ncclwatch_##prefix##name(NCCLWATCH_WORDS(std::uint64_t)) {                                        \
    return ncclwatch::shim::mpi::Hook<Function::name, shapes::shape, int parameters>::Enter(            \
        NCCLWATCH_HERE(which), w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13);             \
  }

extern "C" {
#define HOOK(number, name, family, shape, parameters, arguments) \
  NCCLWATCH_WRAPPER(name, , kPlain, shape, parameters)           \
  NCCLWATCH_WRAPPER(name, P, kProfiled, shape, parameters)
#include "mpi_here.def"  // the rows of mpi.def that this MPI declares
#undef HOOK
}
