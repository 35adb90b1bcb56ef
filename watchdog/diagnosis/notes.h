// What a diagnosis did not see, or cannot know: never silently blind.
#pragma once

#include <string>
#include <vector>

#include "watchdog/diagnosis/view.h"

namespace ncclwatch::diagnosis {

void AddNotes(const View& view, std::vector<std::string>* notes);

}  // namespace ncclwatch::diagnosis
