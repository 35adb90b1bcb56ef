// A recording in memory: one image for each process, with all its calls.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

// By rank. What is lost is missing in them. Out of range: there are more calls than `most`. Of about 200 bytes a call.
absl::StatusOr<std::vector<reader::BoxImage>> WholeBoxes(const Recording& recording, std::uint64_t most);

}  // namespace ncclwatch::analyzer
