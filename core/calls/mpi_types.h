// Basic datatypes of MPI, as far as two sides of a transfer must agree about them.
#pragma once

#include <cstdint>

namespace ncclwatch::diagnosis {

// MPI_BYTE and MPI_PACKED (functions/mpi_types.def).
inline constexpr std::uint8_t kByteType = 67, kPackedType = 80;

bool IsBasicType(std::uint16_t dtype);
bool IsFloatingType(std::uint16_t dtype);
// Names of what is one type on this machine, MPI_INT and MPI_INT32_T: the standard tells them apart, and nothing comes
// of it. bytes: of one element of each.
bool AreAliases(std::uint16_t a, std::uint64_t a_bytes, std::uint16_t b, std::uint64_t b_bytes);

}  // namespace ncclwatch::diagnosis
