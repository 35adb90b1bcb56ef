// What a diagnosis did not see, or cannot know: never silently blind.
#pragma once

#include <string>
#include <vector>

#include "watchdog/diagnosis/view/view.h"

namespace ncclwatch::diagnosis {

// All ranks live and have been inside calls of MPI for longer than the longer limit: "all 4 ranks have ..."; else
// empty.
std::string StandstillOfAll(const View& view);
void AddNotes(const View& view, std::vector<std::string>* notes);

}  // namespace ncclwatch::diagnosis
