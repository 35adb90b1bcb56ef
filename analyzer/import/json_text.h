// JSON into the same values as a pickle. Read as a stream: nothing but the tree is kept.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/import/value.h"

namespace ncclwatch::analyzer::import {

bool LooksLikeJsonObject(std::string_view bytes);

// The reason why it cannot be read, empty if *root is set.
std::string ParseJson(std::string_view bytes, Tree* tree, ValueId* root);

}  // namespace ncclwatch::analyzer::import
