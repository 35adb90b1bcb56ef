// The file that NCCLWATCH_TOPOLOGY names.
#pragma once

#include <string>

#include "core/slow/topology.h"

namespace ncclwatch::evidence {

// `wrong` says what is amiss, if anything is.
diagnosis::Topology ReadTopology(const std::string& path, std::string* wrong);

}  // namespace ncclwatch::evidence
