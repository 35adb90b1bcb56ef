// The memory of a collective: what this rank sends, room for what it gets, and how that is checked.
#pragma once

#include "analyzer/player/mpi/work.h"

namespace ncclwatch::player {

// `function`: the blocking variant. False: it cannot be played, and why stands in the stage.
bool Prepare(Stage& stage, functions::Function function, Work* work);

}  // namespace ncclwatch::player
