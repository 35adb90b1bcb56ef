// A reader of pickles that hold nothing but data, as torch's C++ pickler and Python's protocols 2 to 5 write it. It
// builds values and runs nothing: whatever would import a name or call something is refused by its name.
#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "analyzer/import/value.h"

namespace ncclwatch::analyzer::import {

// Bytes that a pickle of protocol 2 or later begins with.
bool LooksLikePickle(std::string_view bytes);

// The outermost value, or why it cannot be read. Strings of the tree lie in `bytes`.
absl::StatusOr<ValueId> ParsePickle(std::string_view bytes, Tree* tree);

}  // namespace ncclwatch::analyzer::import
