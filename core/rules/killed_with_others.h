// MPI's launchers kill all other ranks as soon as one of them is gone without MPI_Finalize, MPICH's within
// milliseconds: which SIGKILL was the first of several, and which only followed. Pure.
#pragma once

#include <optional>
#include <vector>

#include "core/rules/deaths.h"

namespace ncclwatch::diagnosis {

// It was killed with others, and may have been one of those that only followed. Certain: it was not.
std::optional<Certainty> FirstOfTheKilled(const View& view, const Death& death);

// `first`, and all that were killed beside it so that nobody can tell which of them was first.
std::vector<const Death*> Inseparable(const View& view, const std::vector<Death>& deaths, const Death& first);

}  // namespace ncclwatch::diagnosis
