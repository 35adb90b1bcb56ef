// What the dumps of one job cannot tell, in sentences for its diagnosis.
#pragma once

#include <vector>

#include "analyzer/import/membership.h"

namespace ncclwatch::analyzer::import {

void AddNotes(const std::vector<Dump>& dumps, const Membership& membership, reader::RunImage* run);

}  // namespace ncclwatch::analyzer::import
