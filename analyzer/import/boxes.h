// The dumps of one job together as black boxes, which the diagnosis takes as any others.
#pragma once

#include <vector>

#include "analyzer/import/dump.h"

namespace ncclwatch::analyzer::import {

// Adds a box for each dump, and notes on what the dumps cannot tell. Dumps that claim the rank of another become
// failures.
void AddBoxes(std::vector<Dump> dumps, reader::RunImage* run);

}  // namespace ncclwatch::analyzer::import
