// Where the culprits stood, from stacks that were taken once the verdict was out: quoted, never judged by. A verdict is
// published without them and told again with them, so this only adds: what was said stays as it was.
#pragma once

#include <string>
#include <vector>

#include "core/model/finding.h"
#include "core/model/snapshot.h"
#include "core/reader/stacks.h"

namespace ncclwatch::diagnosis {

// Takes those of `all` that were taken for the verdict which the snapshot is about.
void UseStacks(const std::vector<reader::VerdictStacks>& all, Snapshot* snapshot);

// For every living culprit whose process is among `stacks`: Culprit::where, a line or two in front of the evidence, and
// the others behind it.
void AddWhere(const std::vector<reader::ProcessStacks>& stacks, Diagnosis* diagnosis);

// Those lines alone, of one finding: "rank 2 stands in next_batch (train.py:57), called from main (train.py:91)".
std::vector<std::string> WhereLines(const Finding& finding);
// ... of all findings, each once.
std::vector<std::string> WhereLines(const Diagnosis& diagnosis);

}  // namespace ncclwatch::diagnosis
