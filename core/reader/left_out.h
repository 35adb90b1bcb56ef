// What a sifted image has left in its file, read after all.
#pragma once

#include <optional>

#include "core/reader/image.h"

namespace ncclwatch::reader {

// The calls of the ring that the image has left out, by slot. Empty if the file is not there any more, or another
// one's.
std::vector<Call> ReadLeftOut(const BoxImage& image);

// Puts them back. What the ring has lost since the image was taken is lost: the image is as one of a shorter ring then.
void PutBack(BoxImage* image);

// The collective at one position of one communicator of the image, found in a few steps. None if it is not there.
std::optional<Call> ReadCollective(const BoxImage& image, const Communicator& communicator, std::uint64_t position);

}  // namespace ncclwatch::reader
