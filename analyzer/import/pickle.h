// A reader of pickles that hold nothing but data, as torch's C++ pickler and Python's protocols 2 to 5 write it. It
// builds values and runs nothing: whatever would import a name or call something is refused by its name.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/import/value.h"

namespace ncclwatch::analyzer::import {

// Bytes that a pickle of protocol 2 or later begins with.
bool LooksLikePickle(std::string_view bytes);

// The reason why it cannot be read, empty if *root is set. Strings of the tree lie in `bytes`.
std::string ParsePickle(std::string_view bytes, Tree* tree, ValueId* root);

}  // namespace ncclwatch::analyzer::import
