// Frames of processes that died of a signal, from the samples that they left behind their black boxes.
#pragma once

#include <string>

#include "core/reader/box.h"

namespace ncclwatch::analyzer {

// Into the images, where nobody has done so yet. The files stay as they are.
void AddCrashFrames(reader::RunImage* run);

// Into the box itself, whose sample is then cut off: its file is completed where every reader looks. Boxes without a
// sample stay as they are. Only a box of the caller's own. Empty, or in one line why not.
std::string KeepCrashFrames(const std::string& box);
// Of all boxes in the directory.
void KeepAllCrashFrames(const std::string& directory);

}  // namespace ncclwatch::analyzer
