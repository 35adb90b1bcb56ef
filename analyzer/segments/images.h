// Processes without a black box, as their newest segments show them: the box is gone, or never was (a replay on a
// model).
#pragma once

#include <string>

#include "core/reader/box.h"

namespace ncclwatch::analyzer {

// Of the directory's segments; adds to the boxes of `run` those processes that it has not.
// Likewise what `import` noted on the traces that they come from.
void AddFromSegments(const std::string& directory, reader::RunImage* run);

}  // namespace ncclwatch::analyzer
