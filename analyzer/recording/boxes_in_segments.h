// Black boxes of a recording whose segments hold all that the boxes do.
#pragma once

#include <string>

namespace ncclwatch::analyzer {

// Removes them: a box is as large as its ring, however few calls the job has made. For jobs that ended well: what is
// found about a crash later stands in its box only.
void RemoveBoxesInSegments(const std::string& recording);

}  // namespace ncclwatch::analyzer
