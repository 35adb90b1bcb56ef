// A box's contents on their way from a node to the hub: everything that a diagnosis looks at, small. Calls are told by
// what differs from the call before them on the same communicator, chains only where they cannot be computed, GPU marks
// only where they are not what the tickets say. Pure; nothing here trusts a byte.
//
// The leader state does not travel (the hub judges), nor does the path.
#pragma once

#include <cstdint>

#include "core/nodes/bytes.h"
#include "core/reader/image.h"

namespace ncclwatch::nodes {

// Leaves the newest calls, and all those of one communicator (by identity; 0: none). The image then says that its
// history is not whole.
void KeepCalls(std::uint64_t newest, std::uint64_t communicator, reader::BoxImage* image);

void WriteImage(const reader::BoxImage& image, Writer* to);
// False, and *image is worth nothing, if the bytes are not an image.
bool ReadImage(Reader* from, reader::BoxImage* image);
// The same in three steps, of which the second is left to the caller: `calls` calls, read by one CallMemory.
bool ReadBeforeCalls(Reader* from, reader::BoxImage* image, std::uint64_t* calls);
// `mpi`: one of them was of MPI. The image has those with kHasParts by now.
bool ReadBehindCalls(Reader* from, bool mpi, reader::BoxImage* image);

// Parts of an image that summaries tell too.
void WriteObservation(const reader::Observation& seen, Writer* to);
reader::Observation ReadObservation(Reader* from);

}  // namespace ncclwatch::nodes
