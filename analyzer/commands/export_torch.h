// `ncclwatch export --to torch-fr`.
#pragma once

#include <string>
#include <vector>

#include "analyzer/console/command.h"

namespace ncclwatch::analyzer {

// Writes the dumps of the job in these paths into a folder. The exit status.
int ExportToTorch(const Command& self, const std::vector<std::string>& paths, const std::string& into, bool json);

}  // namespace ncclwatch::analyzer
