// A single communicator of a box that is followed.
#pragma once

#include <cstdint>
#include <optional>

#include "watchdog/reader/box.h"

namespace ncclwatch::reader {

// A copy of an entry of the box's table. None: nobody's, just being given to another one, or damaged.
std::optional<Communicator> CommunicatorNow(const MappedBox& box, std::uint32_t index);

}  // namespace ncclwatch::reader
