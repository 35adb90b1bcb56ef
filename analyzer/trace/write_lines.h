// The calls of a recording as lines (lines.h), which several threads write: what `trace` prints as JSON or CSV, and
// what `export --to csv` writes.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyzer/trace/filter.h"
#include "analyzer/trace/lines.h"
#include "analyzer/trace/sites.h"

namespace ncclwatch::analyzer {

// Gives `write` the lines of the wanted calls by time, many at once, on another thread, until it fails. How many they
// were, or its status.
absl::StatusOr<std::uint64_t> WriteLines(
    const Recording& recording, const Filter& filter, LineForm form, Sites* sites,
    std::vector<reader::Failure>* failures,
    absl::FunctionRef<absl::Status(std::string_view text, std::uint64_t lines)> write);

}  // namespace ncclwatch::analyzer
