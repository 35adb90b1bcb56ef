// One look at the machine's error counters, into a file beside the black boxes (core/reader/beside/machine.h).
#pragma once

#include <string>

#include "analyzer/doctor/checks/machine.h"

namespace ncclwatch::doctor {

// Reads the file, adds what has changed since, and puts a new one in its place. Empty, or why not.
std::string SaveCounters(const Machine& machine, const std::string& path);

}  // namespace ncclwatch::doctor
