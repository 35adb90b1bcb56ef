// What a call of MPI says of single ranks, beside its record: the amounts of v- and w-variants for each rank, the
// members of a group. A ring of entries of 16 bytes; entry number n, counted from 0 and for ever, is in slot
// n % Section::count. A record with kHasParts has the number of its first entry, a PartsHead; the parts follow.
//
// Life: the writer takes numbers, stores the head's commit = 0, a release fence, the parts, `sum`, and commit = number
// + 1 (release), all before its record is committed. A reader that finds commit == number + 1 before and after its
// copy, and the sum of what it has copied, has them whole; else others have come in their place.
#pragma once

#include <atomic>
#include <cstdint>

#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::format {

inline constexpr std::uint32_t kPartCapacity = 16384;
inline constexpr std::uint32_t kMostParts = 4094;  // of one call; those of a larger one are not kept

struct Part {
  std::uint32_t what;     // of an amount its signature, 0: not known; of a member its rank in the parent
  std::uint16_t dtype;    // of an amount
  std::uint16_t element;  // bytes of one, where all of its elements are of one basic type
  std::uint64_t bytes;    // of an amount
};
static_assert(sizeof(Part) == 16);

struct PartsHead {
  std::atomic<std::uint64_t> commit;  // number + 1 when whole
  std::uint16_t sends;                // what goes to each rank, or, of one, to the root
  std::uint16_t receives;             // behind them: what comes from each, or from the root; or the members
  std::uint32_t sum;                  // PartsSum() of all
};
static_assert(sizeof(PartsHead) == sizeof(Part));

constexpr std::uint64_t PartsSum(std::uint64_t sum, const Part& part) {
  return Mix(Mix(sum, (std::uint64_t{part.element} << 48) | (std::uint64_t{part.dtype} << 32) | part.what), part.bytes);
}
constexpr std::uint64_t PartsSum(std::uint16_t sends, std::uint16_t receives) {
  return (std::uint64_t{sends} << 16) | receives;
}

}  // namespace ncclwatch::format
