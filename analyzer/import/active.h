// Dumps of the calls that were under way alone (torch's include_only_active, Megatron's default). What is not in such a
// dump is over: a rank without an entry is idle, not unknown, and the recorder's ring has not wrapped.
#pragma once

#include <vector>

#include "analyzer/import/boxes.h"
#include "analyzer/import/dump.h"

namespace ncclwatch::analyzer::import {

// True if all dumps of the job are of that sort: none has a call that is over, and records of some are missing.
bool AreActiveOnly(const std::vector<Dump>& dumps);

// Fills in how far each rank has come in each group: by pg_status, or by what the others still wait for. The
// communicators have their identities already.
void SetProgressOfActiveOnly(std::vector<Dump>* dumps);

}  // namespace ncclwatch::analyzer::import
