// When a job that stood still began to end: before that instant nothing of it had been taken down yet.
#pragma once

#include <cstdint>
#include <optional>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// The first end of a process, or the first abort by one that has ended since without having gone on. None: nobody has
// ended, or those who are left go on, or are getting over it.
std::optional<std::int64_t> FirstEnd(const View& view);

// When the process last began something that one does who means to go on: giving up a communicator is not. 0: never.
std::int64_t LastWork(const Process& process);

}  // namespace ncclwatch::diagnosis
