// The list of one rank, from a recording.
#pragma once

#include <memory>

#include "analyzer/player/base/play.h"
#include "analyzer/replay/program.h"

namespace ncclwatch::analyzer {

// `rank` is of the program. The program outlives it. With `loops`, all but the making and freeing of communicators is
// played so many times.
std::unique_ptr<player::Script> ScriptOf(const RecordedProgram& program, int rank, int loops);

// How many ranks have a list; they come first in the program.
int PlayingRanks(const RecordedProgram& program);

}  // namespace ncclwatch::analyzer
