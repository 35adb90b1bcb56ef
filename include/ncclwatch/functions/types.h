// Datatypes and reductions by number, without the libraries' headers: NCCL's as it counts them (ncclDataType_t,
// ncclRedOp_t; stable since 2.10), MPI's from 64 on (mpi_types.def).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace ncclwatch::functions {

struct DatatypeInfo {
  std::string_view name;  // as the documented JSON says it
  std::size_t bytes;
};

inline constexpr DatatypeInfo kDatatypes[] = {
    {"int8", 1},    {"uint8", 1},   {"int32", 4},   {"uint32", 4},   {"int64", 8},       {"uint64", 8},
    {"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2}, {"float8_e4m3", 1}, {"float8_e5m2", 1},
};
inline constexpr std::string_view kReductions[] = {"sum", "prod", "max", "min", "avg"};
// ncclResult_t.
inline constexpr std::string_view kResultNames[] = {"success",        "unhandled CUDA error", "system error",
                                                    "internal error", "invalid argument",     "invalid usage",
                                                    "remote error",   "in progress",          "timeout"};

struct NumberedName {
  std::uint8_t number;
  std::string_view name;
};
inline constexpr NumberedName kMpiDatatypes[] = {
#define DATATYPE(number, name) {number, #name},
#include "ncclwatch/functions/mpi_types.def"
};
inline constexpr NumberedName kMpiOperators[] = {
#define OPERATOR(number, name) {number, #name},
#include "ncclwatch/functions/mpi_types.def"
};
inline constexpr std::uint8_t kDerivedType = 0xfd;  // of MPI: made of basic types that are not all the same

template <std::size_t kCount>
constexpr std::string_view NameIn(const NumberedName (&names)[kCount], std::uint8_t number) {
  for (const NumberedName& each : names)
    if (each.number == number) return each.name;
  return "?";
}

// 0 for a number that NCCL does not define.
constexpr std::size_t DatatypeBytes(std::uint8_t dtype) {
  return dtype < std::size(kDatatypes) ? kDatatypes[dtype].bytes : 0;
}
constexpr std::string_view DatatypeName(std::uint8_t dtype) {
  if (dtype == kDerivedType) return "derived";
  return dtype < std::size(kDatatypes) ? kDatatypes[dtype].name : NameIn(kMpiDatatypes, dtype);
}
// Of a predefined one.
constexpr std::string_view ReductionName(std::uint8_t reduction) {
  return reduction < std::size(kReductions) ? kReductions[reduction] : NameIn(kMpiOperators, reduction);
}

}  // namespace ncclwatch::functions
