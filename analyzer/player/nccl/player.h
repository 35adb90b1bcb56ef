// Plays recorded calls of NCCL, by the libnccl.so.2 and libcuda.so.1 that the dynamic linker finds.
#pragma once

#include <absl/status/status.h>

#include "analyzer/player/base/play.h"

namespace ncclwatch::analyzer {

absl::Status PlayNccl(player::Script* script, player::Listener* listener, int device);

}  // namespace ncclwatch::analyzer
