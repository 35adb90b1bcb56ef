// Which files are dumps of torch's flight recorder, and reading many of them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/reader/box.h"

namespace ncclwatch::analyzer::import {

// By its first bytes. A black box is none.
bool IsDump(const std::string& path);
// Those in a directory: what ends in a rank and begins like a pickle or a JSON object.
std::vector<std::string> DumpFiles(const std::string& directory);

// Adds a box or a failure for each, and notes. `done` is called with how many have been read.
void ReadDumps(const std::vector<std::string>& files, const std::function<void(std::size_t)>& done,
               reader::RunImage* run);

}  // namespace ncclwatch::analyzer::import
