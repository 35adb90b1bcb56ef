// What a process itself has changed in its memory of a window between two calls of MPI_Win_fence
// (NCCLWATCH_MPI_CHECKS=buffers): runs of changed bytes, beside the record of the second one (parts.h), as parts that
// say nothing of any rank. Others' accesses may be among them: whoever reads the black boxes of all ranks can tell.
#pragma once

#include <cstdint>

#include "ncclwatch/format/parts.h"

namespace ncclwatch::format {

inline constexpr std::uint64_t kMostStoredBytes = std::uint64_t{1} << 26;  // of all windows whose memory is compared
inline constexpr std::uint32_t kMostStores = 128;                          // runs between two fences: more are not told

struct Stored {
  std::uint32_t begin = 0;  // from the beginning of this rank's memory, in bytes
  std::uint32_t bytes = 0;
};
constexpr Part PartOf(const Stored& stored) {
  return {.what = 0, .dtype = 0, .element = 0, .bytes = std::uint64_t{stored.begin} << 32 | stored.bytes};
}
constexpr Stored StoredOf(const Part& part) {
  return {static_cast<std::uint32_t>(part.bytes >> 32), static_cast<std::uint32_t>(part.bytes)};
}
static_assert(kMostStores <= kMostParts && kMostStoredBytes <= UINT32_MAX);

}  // namespace ncclwatch::format
