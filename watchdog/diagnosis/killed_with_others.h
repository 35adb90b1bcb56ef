// MPI's launchers kill all other ranks as soon as one of them is gone without MPI_Finalize, MPICH's within
// milliseconds: which SIGKILL was the first of several, and which only followed. Pure.
#pragma once

#include <optional>
#include <vector>

#include "watchdog/diagnosis/deaths.h"

namespace ncclwatch::diagnosis {

// It has communicators of MPI, also inside MPI_Finalize and after it.
bool SpeaksMpi(const reader::BoxImage& box);

// The first MPI_Abort that a process has called; null: none. What its launcher does then to it and to the others, in
// which order, says nothing any more.
const reader::Call* AbortOf(const reader::BoxImage& box);

// Fate::followed of those that were killed after another had ended, or had said that it would.
void MarkFollowers(std::vector<Process>* processes);

// It was killed with others, and may have been one of those that only followed. Certain: it was not.
std::optional<Certainty> FirstOfTheKilled(const View& view, const Death& death);

// `first`, and all that were killed beside it so that nobody can tell which of them was first.
std::vector<const Death*> Inseparable(const View& view, const std::vector<Death>& deaths, const Death& first);

}  // namespace ncclwatch::diagnosis
