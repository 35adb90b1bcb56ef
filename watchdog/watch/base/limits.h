// NCCLWATCH_TIMEOUT: what the user said, or what the job itself taught.
#pragma once

#include <cstdint>
#include <optional>

#include "core/model/snapshot.h"

namespace ncclwatch::watch {

// The limits for a job whose longest wait that ended by itself was this long. A user's timeout is both limits.
diagnosis::Limits LimitsFor(std::optional<double> timeout_s, std::int64_t longest_wait_ns);

}  // namespace ncclwatch::watch
