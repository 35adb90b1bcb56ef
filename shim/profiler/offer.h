// NCCL's profiler interface without a setting. If NCCL_PROFILER_PLUGIN is not set, NCCL opens "libnccl-profiler.so".
// The loader gives it a library of that SONAME if the process has one: ncclwatch-profiler.so, opened here by its path.
// So no variable changes, in this process or in its children.
#pragma once

#include <cstdint>

#include "shim/black_box/box.h"

namespace ncclwatch::shim::profiler {

// Before each communicator of that library is made; the first one counts. A user's plugin of that name is left alone.
void Offer(const Box& box, std::uint32_t library);

}  // namespace ncclwatch::shim::profiler
