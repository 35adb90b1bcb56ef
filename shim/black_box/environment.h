// What the box says of the process's environment (format/environment.h).
#pragma once

#include "shim/black_box/box.h"

namespace ncclwatch::shim {

struct OwnVersions {
  const char* mpi = nullptr;  // what the library calls itself
  int cuda = 0;               // that the driver supports, 12040 for 12.4
};

// Once, when the first communicator is made: the library has read its variables by then, or reads them now, in this
// thread. What the program sets later counts no more.
void NoteEnvironment(Box& box, const OwnVersions& versions);

}  // namespace ncclwatch::shim
