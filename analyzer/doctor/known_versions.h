// The check `known-bad-versions`: reported faults of the versions here that another check shows.
#pragma once

#include <vector>

#include "analyzer/doctor/checks/machine.h"
#include "analyzer/doctor/ranks/across.h"

namespace ncclwatch::doctor {

// `report`: of this rank so far; checks that it lacks run.
Result KnownBadVersions(const Machine& machine, const Report& report);

}  // namespace ncclwatch::doctor
