// The functions of the MPI library in this process, past our wrappers.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "ncclwatch/functions/function.h"
#include "shim/mpi/core/abi.h"

namespace ncclwatch::shim::mpi {

// Under which of its two names a function is called: MPI_Send, that tools put themselves before, or PMPI_Send, the
// library's own. Fortran's functions of Open MPI, and tools, call the second.
enum class Name : std::uint8_t { kPlain = 0, kProfiled = 1 };

extern std::atomic<void*> reals[2][std::size(functions::kRowOf)];

// The next one in load order, or the library's where that came by dlopen(RTLD_LOCAL). Null if there is none.
void* FindReal(functions::Function function, Name name);
inline void* Real(functions::Function function, Name name) {
  void* known =
      reals[static_cast<std::uint8_t>(name)][static_cast<std::uint32_t>(function)].load(std::memory_order_relaxed);
  if (known) [[likely]]
    return known;
  return FindReal(function, name);
}

// A function of the library's own that no table has, past ours of that name. Null if there is none.
void* FindRealNamed(const char* name);

// The library's own function, for questions of ours: Ask(&PMPI_Comm_rank, Function::MPI_Comm_rank)(comm, &rank).
template <class R, class... P>
auto RealFunction(R (*)(P...), functions::Function function) {
  return reinterpret_cast<R (*)(P...)>(Real(function, Name::kProfiled));
}
#define NCCLWATCH_REAL(name) \
  ::ncclwatch::shim::mpi::RealFunction(static_cast<decltype(&P##name)>(nullptr), ::ncclwatch::functions::Function::name)

// MPI's own codes say more than their class does.
int ClassOf(int error);

// Says once that the function is missing; what its caller is told.
int NoSuchFunction(functions::Function function);

// Whether a return address lies in MPI's own code: its library, the parts that it loads, its Fortran layer.
bool IsMpisOwn(std::uint64_t site);
// Whether a module of this name, without its folder, is a part of MPI.
bool IsMpisFile(std::string_view file);
// What the library in this process calls itself, "Open MPI v4.1.4", "MPICH 4.0.2"; of these bytes at most.
inline constexpr int kLibraryText = 128;
bool LibraryText(char (&text)[kLibraryText]);
// Whether it is the one whose mpi.h this was compiled against; said once if it is not. May be asked before MPI_Init.
enum class Abi : std::uint8_t { kNotAsked, kOurs, kOther };
extern std::atomic<Abi> abi;
bool AskAbi();
inline bool IsOurAbi() {
  const Abi known = abi.load(std::memory_order_relaxed);
  return known == Abi::kOurs || (known == Abi::kNotAsked && AskAbi());
}

}  // namespace ncclwatch::shim::mpi
