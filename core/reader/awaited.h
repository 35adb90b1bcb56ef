// Of MPI's operations with requests: which of them somebody waits for at this moment. Those bind their rank; the others
// go on by themselves.
#pragma once

#include "core/reader/image.h"

namespace ncclwatch::reader {

void MarkAwaited(BoxImage* image);

}  // namespace ncclwatch::reader
