// Which way the data of a collective of MPI goes: who cannot go on without whom, whatever MPI does.
#pragma once

#include "ncclwatch/functions/function.h"

namespace ncclwatch::diagnosis {

enum class Flow { kFromRoot, kToRoot, kAll };

// Of calls on one group: between two, kAll says nothing.
Flow FlowOf(functions::Function function);

}  // namespace ncclwatch::diagnosis
