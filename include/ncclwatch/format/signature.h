// The signature of a message of MPI: a hash of the sequence of basic types in it. Equal sequences give equal signatures
// however the types were built: 4 x MPI_INT is 1 x a vector of 4 MPI_INT.
#pragma once

#include <cstdint>

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::format {

// 0: the sequence is not known.
inline constexpr std::uint32_t kEmptySignature = 1;  // of no elements

inline std::uint32_t SignatureOfSequence(std::uint64_t what, std::uint64_t elements) {
  const auto signature = static_cast<std::uint32_t>(Mix(what, elements));
  return signature ? signature : 2;
}

// Of elements of one type, by its number (functions/types.h).
inline std::uint32_t SignatureOfBasic(std::uint8_t number, std::uint64_t elements) {
  return elements ? SignatureOfSequence(number, elements) : kEmptySignature;
}

}  // namespace ncclwatch::format
