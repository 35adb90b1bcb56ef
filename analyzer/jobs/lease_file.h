// The switch in a run directory's lease by which all its processes are told to watch or not (format/lease.h).
#pragma once

#include <string>

namespace ncclwatch::analyzer {

// Empty if it is set now; else why it could not be, in one line.
std::string SwitchWatching(const std::string& directory, bool on);

}  // namespace ncclwatch::analyzer
