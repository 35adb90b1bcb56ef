// One OTF2 archive, read in this process.
#pragma once

#include <absl/functional/function_ref.h>

#include <string>

#include "analyzer/import/base/trace.h"

namespace ncclwatch::analyzer::import::otf2 {

// `reads`: the name of each file before it is read.
void ReadArchive(const std::string& anchor, absl::FunctionRef<void(const std::string&)> reads, TakeTrace take,
                 Imported* imported);

}  // namespace ncclwatch::analyzer::import::otf2
