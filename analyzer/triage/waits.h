// Who was waited for: what time-outs say of the operation in which each rank waited, and who is missing from them.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "analyzer/triage/finding.h"

namespace ncclwatch::analyzer {

// Ranks that called another operation than most ranks at the same place of the same group.
struct OddCall {
  std::vector<int> ranks;        // ascending
  const Match* first = nullptr;  // the line of one of them
  std::string theirs, others;    // "ALLREDUCE of 43000 elements"
};
std::optional<OddCall> OddCallOf(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files);

// Ranks that others name as absent in the lines below a match: "Missing ranks:", then "3: [grad.0]".
std::vector<int> RanksBelow(const std::vector<ScannedFile>& files, const Match& match);

// Ranks that timed out in an earlier operation of a group than most of its ranks did.
std::vector<int> LaggingRanks(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files);

// Ranks of the job that are not among `waited`, if they are fewer: those for whom the others waited.
std::vector<int> MissingFrom(const std::vector<ScannedFile>& files, const std::vector<int>& waited);

}  // namespace ncclwatch::analyzer
