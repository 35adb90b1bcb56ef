// Persistent collectives, numbered in the order in which they are made on a communicator.
#pragma once

#include "shim/mpi/core/call.h"

namespace ncclwatch::shim::mpi {

// A persistent collective that is being made: all ranks of a communicator make theirs in one order, and each may start
// them in an order of its own. Its signature tells which one it is, so that starts of other ones are told apart.
void NumberPersistent(Call& call);
// There is one on the communicator of the call.
bool HasPersistent(const Call& call);

}  // namespace ncclwatch::shim::mpi
