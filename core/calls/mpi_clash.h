// Whether a message of MPI fits a receive.
#pragma once

#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

// kBytes: of other basic types by name alone.
enum class Clash { kNone, kTooLong, kTypes, kBytes };
Clash ClashOf(const reader::Call& send, const reader::Call& receive);

}  // namespace ncclwatch::diagnosis
