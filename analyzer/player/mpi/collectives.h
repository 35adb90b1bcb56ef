// Plays recorded collectives of MPI.
#pragma once

#include "analyzer/player/mpi/work.h"

namespace ncclwatch::player {

// Takes the call over.
void PlayCollective(Stage& stage, Call& call);

}  // namespace ncclwatch::player
