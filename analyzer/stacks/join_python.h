// Python frames into a thread's native stack: the interpreter's own loop gives way to what it runs.
#pragma once

#include <vector>

#include "analyzer/stacks/base/stack.h"
#include "analyzer/stacks/python/python.h"

namespace ncclwatch::stacks {

// Each frame of the interpreter's loop in C is replaced by the Python frames that it runs; what finds no place (frames
// that could not be unwound) comes last.
void JoinPython(const std::vector<python::Frame>& python, std::vector<Frame>* frames);

// Of all threads, by their ids.
void JoinPython(const python::Stacks& python, std::vector<Thread>* threads);

}  // namespace ncclwatch::stacks
