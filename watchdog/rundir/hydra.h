// Hydra, MPICH's launcher: of itself and its mpiexec the environment of a rank says nothing, the command line of its
// proxy on the node does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "watchdog/rundir/launcher.h"

namespace ncclwatch::rundir {

// Where mpiexec listens for its proxies, "host:port", the same on all nodes of the job; in what the lookup below
// answers.
inline constexpr char kHydraPort[] = "HYDRA_CONTROL_PORT";

// Of a command line as /proc has it; empty if it is none of a proxy of Hydra's.
std::string HydraPortIn(std::string_view command_line);

// `environment`, and kHydraPort where an ancestor of `pid` is such a proxy.
Lookup WithHydra(Lookup environment, std::int32_t pid, const Patience& patience = {});

}  // namespace ncclwatch::rundir
