// The names of what ncclwatch itself puts into a run directory, a folder of evidence or a recording. All else there is
// the user's.
#pragma once

#include <string_view>

namespace ncclwatch::rundir {

bool IsOwnFile(std::string_view name);
bool IsOwnFolder(std::string_view name);  // everything in it is ncclwatch's
// A file of every run, which says nothing of how the run went.
bool IsRoutineFile(std::string_view name);

}  // namespace ncclwatch::rundir
