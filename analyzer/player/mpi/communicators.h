// Makes the recorded communicators again.
#pragma once

#include "analyzer/player/mpi/work.h"

namespace ncclwatch::player {

// Once MPI has begun. Communicators that no call of the list makes, as in a part of a recording, are made of their
// members; every rank does so in one order.
void BeginCommunicators(Stage& stage);
void MakeCommunicator(Stage& stage, const Call& call);
void FreeCommunicator(Stage& stage, const Call& call);

}  // namespace ncclwatch::player
