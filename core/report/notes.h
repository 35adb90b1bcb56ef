// What a diagnosis did not see, or cannot know: never silently blind.
#pragma once

#include <string>
#include <vector>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// All ranks live and have been inside calls of MPI for longer than the longer limit: "all 4 ranks have ..."; else
// empty.
std::string StandstillOfAll(const View& view);
// What was not seen and could show a fault.
void AddMissing(const View& view, std::vector<std::string>* missing);
void AddNotes(const View& view, std::vector<std::string>* notes);

}  // namespace ncclwatch::diagnosis
