// JSON into the same values as a pickle. Read as a stream: nothing but the tree is kept.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "analyzer/import/value.h"

namespace ncclwatch::analyzer::import {

bool LooksLikeJsonObject(std::string_view bytes);

// The outermost value, or why it cannot be read.
absl::StatusOr<ValueId> ParseJson(std::string_view bytes, Tree* tree);

}  // namespace ncclwatch::analyzer::import
