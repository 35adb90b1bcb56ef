#pragma once

#include "tests/softgpu/cuda/driver/registry.h"
#include "tests/softgpu/cuda/driver/stream.h"

namespace softgpu {

Registry<Stream>& Streams();

}  // namespace softgpu
