#include "core/calls/mpi_types.h"

#include "ncclwatch/format/record.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {

namespace {

// Of two elements each, MPI_DOUBLE_INT: as if made by the program.
bool IsPairType(std::uint16_t dtype) { return (dtype >= 100 && dtype <= 105) || (dtype >= 127 && dtype <= 129); }

}  // namespace

bool IsBasicType(std::uint16_t dtype) {
  return dtype != functions::kDerivedType && dtype != format::kNoType && !IsPairType(dtype);
}

bool IsFloatingType(std::uint16_t dtype) {
  return (dtype >= 75 && dtype <= 77) || (dtype >= 90 && dtype <= 92) || (dtype >= 97 && dtype <= 99) ||
         (dtype >= 113 && dtype <= 116) || (dtype >= 121 && dtype <= 126);
}

bool AreAliases(std::uint16_t a, std::uint64_t a_bytes, std::uint16_t b, std::uint64_t b_bytes) {
  return IsBasicType(a) && IsBasicType(b) && IsFloatingType(a) == IsFloatingType(b) && a_bytes != 0 &&
         a_bytes == b_bytes;
}

}  // namespace ncclwatch::diagnosis
