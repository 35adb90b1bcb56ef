// How a process ended, and what it told of that before: by the processes alone, without the waits between them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// It has communicators of MPI, also inside MPI_Finalize and after it.
bool SpeaksMpi(const reader::BoxImage& box);

// The first MPI_Abort that a process has called; null: none. What its launcher does then to it and to the others, in
// which order, says nothing any more.
const reader::Call* AbortOf(const reader::BoxImage& box);

// ProcessOutcome::followed of those that were killed after another had ended, or had said that it would.
void MarkFollowers(std::vector<Process>* processes);

// It has called MPI_Init, and neither MPI_Finalize nor MPI_Abort.
bool IsBetweenInitAndFinalize(const reader::BoxImage& box);
// It ended by itself, and had called MPI_Init and not MPI_Finalize.
bool LeftMpiOpen(const reader::BoxImage& box);
// ... or crashes between the two, and has said so.
bool SaysItEnds(const reader::BoxImage& box);
// A rank of NCCL alone that has said that it ends by a fault of its own: an exit status, an exception, a fatal signal.
bool SaysItFailed(const reader::BoxImage& box);
bool SomebodyLives(const View& view);
// Somebody else was alive so much later than this one was seen gone.
bool SomebodyOutlived(const View& view, const Process& process, std::int64_t by_ns);
// When a gone process began to end.
std::int64_t EndedAt(const Process& process);

bool Killed(const Process& process);  // by SIGKILL
// It has told itself when it began to end.
bool SaysWhen(const Process& process);
// Gone, in a way that makes its launcher end the others.
bool TakesOthersAlong(const Process& process);
// So close that one may have ended for the other.
bool EndedNear(const Process& a, const Process& b);
// The first was alive after the second had ended.
bool KnownLater(const Process& later, const Process& than);

}  // namespace ncclwatch::diagnosis
