// missing_finalize: a rank that ended by itself between MPI_Init and MPI_Finalize, and kept nobody waiting.
#include <algorithm>

#include "watchdog/diagnosis/deaths.h"
#include "watchdog/diagnosis/explain.h"
#include "watchdog/diagnosis/text.h"

namespace ncclwatch::diagnosis {
namespace {

bool IsNamed(const std::vector<Finding>& findings, int rank) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank);
  });
}

}  // namespace

std::vector<Finding> FindMissingFinalize(const View& view, const std::vector<Finding>& others) {
  std::vector<int> nodes;
  std::int64_t began = INT64_MAX;
  bool certain = true;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    const Process& process = view.process(view.nodes[n]);
    if (!process.fate.ended() || !LeftMpiOpen(*process.box) || IsNamed(others, view.nodes[n].rank)) continue;
    if (process.fate.polite()) continue;  // ended by a signal that somebody sent, or by ncclwatch itself
    nodes.push_back(static_cast<int>(n));
    began = std::min(began, EndedAt(process));
    certain = certain && process.fate.what == format::Observed::kGone;
  }
  if (nodes.empty()) return {};
  Finding finding;
  finding.kind = Kind::kMissingFinalize;
  finding.certainty = certain ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, RanksOf(view, nodes), &finding);
  finding.began_at_ns = ToRealtime(view, began);
  const Process& first = view.process(view.nodes[nodes.front()]);
  finding.summary = Capital(Ranks(finding.culprits)) +
                    (nodes.size() == 1 ? " (" + ProcessText(view, first) + ") has ended" : " have ended") +
                    " without MPI_Finalize, with status " + std::to_string(first.box->last_words.exit_status) + ".";
  for (std::size_t i = 0; i < std::min<std::size_t>(nodes.size(), 8); ++i)
    finding.evidence.push_back(Ranks({view.nodes[nodes[i]].rank}) + ": " + WhereText(view, view.nodes[nodes[i]]));
  finding.next_steps = {
      "find the way out of the program that goes past MPI_Finalize: an exit() in a library, an early "
      "return, an exception"};
  return {std::move(finding)};
}

}  // namespace ncclwatch::diagnosis
