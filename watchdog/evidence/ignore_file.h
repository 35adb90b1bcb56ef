// The file that NCCLWATCH_IGNORE names.
#pragma once

#include <string>
#include <vector>

#include "core/model/ignore.h"

namespace ncclwatch::evidence {

// `wrong`: what is amiss, a line each. An empty path names no file.
std::vector<diagnosis::IgnoreLine> ReadIgnoreFile(const std::string& path, std::vector<std::string>* wrong);

}  // namespace ncclwatch::evidence
