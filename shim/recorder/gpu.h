// Which GPU a communicator runs on, by the names under which operators know it.
#pragma once

#include <cstdint>

#include "shim/black_box/box.h"

namespace ncclwatch::shim {

// Once the communicator's device is known. Asks the driver, which NCCL has initialized by then, and makes no context.
void NameGpu(Box& box, std::uint32_t index);

}  // namespace ncclwatch::shim
