// What is asked of the arguments of every shape.
#pragma once

#include <string_view>
#include <tuple>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::shim::mpi::shapes {

using functions::Function;

// MPI_Isend, not MPI_Init: those that leave a request as their last argument.
constexpr bool IsNonBlocking(Function function) {
  const std::string_view name = functions::FullName(function);
  return name.starts_with("MPI_I") && name.size() > 5 && name[5] >= 'a' && name[5] <= 'z';
}
// MPI_Send_init: makes a request, of which MPI_Start makes a call, which is what is recorded.
constexpr bool IsPersistent(Function function) {
  return functions::FullName(functions::WithSmallCounts(function)).ends_with("_init");
}

// The messages of a request that this makes are not followed.
constexpr bool IsPartitioned(Function function) {
  return function == Function::MPI_Psend_init || function == Function::MPI_Precv_init;
}

// What the application points to, which MPI may be about to refuse: null must not be our undoing.
template <class T>
T Given(const T* place, T otherwise) {
  return place ? *place : otherwise;
}
inline bool IsSet(const int* flag) { return flag && *flag; }

template <class... A>
decltype(auto) Last(A&... arguments) {
  return std::get<sizeof...(A) - 1>(std::tie(arguments...));
}

}  // namespace ncclwatch::shim::mpi::shapes
