// What of a rank is compared with that of the others.
#pragma once

#include <map>
#include <string>

#include "analyzer/doctor/checks/machine.h"

namespace ncclwatch::doctor {

// "NCCL version", "kernel", ... as they are on this host; versions of libraries.
std::map<std::string, std::string> VersionsOf(const Machine& machine);
// Of NCCL, the network and PyTorch, that have to be the same on all ranks; nothing that holds a secret.
std::map<std::string, std::string> ComparedVariables(const Machine& machine);

}  // namespace ncclwatch::doctor
