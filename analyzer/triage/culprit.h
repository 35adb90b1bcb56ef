// Whose failure it is, if the line of a cause does not say: by the lines around it, and by who waited for whom. Pure.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/triage/evidence.h"
#include "analyzer/triage/finding.h"

namespace ncclwatch::analyzer {

// What is known when the ranks of a finding are asked for. `echoes`: all that were found.
struct Circumstances {
  const std::vector<Rule>& rules;
  const std::vector<ScannedFile>& files;
  const Evidence& evidence;
  const std::vector<TriageFinding>& echoes;
};

// The cause names no rank: it may be that of the first end, or the one for which all others waited.
void NameRank(const Circumstances& known, TriageFinding* cause);
// Of ranks that waited: those who did not come, or timed out earlier. Else, `silent`: who wrote nothing more.
void NameAbsent(const Circumstances& known, const std::vector<int>& silent, TriageFinding* wait);
// Ranks that called another collective than most; nullopt: none did, as far as time-outs say.
std::optional<TriageFinding> OddCallFinding(const Circumstances& known);

}  // namespace ncclwatch::analyzer
