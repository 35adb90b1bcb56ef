// The module that plays recorded calls of MPI, for the MPI that this rank is started by.
#pragma once

#include <absl/status/status.h>

#include "analyzer/player/base/play.h"

namespace ncclwatch::analyzer {

absl::Status PlayMpi(player::Script* script, player::Listener* listener);

}  // namespace ncclwatch::analyzer
