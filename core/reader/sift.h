// What the image of one box of thousands keeps of its ring: the newest calls, and of the older ones all that is not
// routine. Routine is a collective, message, group or query that NCCL took, that has returned, that is over on the GPU
// where that is marked, and whose group is closed. Of messages the first with each peer is kept, and each that has
// another size than the one before, up to kMostSizes.
#pragma once

#include "core/reader/box.h"

namespace ncclwatch::reader {

inline constexpr std::uint64_t kMostSizes = 512;

// Fills in calls, first_slot, torn, left_out and what belongs to it; head and communicators are there.
void Prefilter(const MappedBox& box, std::uint64_t newest, BoxImage* image);

}  // namespace ncclwatch::reader
