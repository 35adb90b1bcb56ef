// missing_finalize: a rank that ended by itself between MPI_Init and MPI_Finalize, and kept nobody waiting;
// library_error where it was inside a call of MPI.
#include <algorithm>

#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"
#include "core/view/process_end.h"

namespace ncclwatch::diagnosis {
namespace {

bool IsNamed(const std::vector<Finding>& findings, int rank) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank);
  });
}

// The call of MPI that it was in: MPI ends a process there over an error, or a handler of the program's does.
bool EndedInside(const View& view, const Node& node) {
  return node.last != nullptr && functions::IsMpi(node.last->function) && node.last->returned_ns == 0 &&
         !IsPolling(*node.last) && OneThread(view.process(node));
}

std::string Summary(const View& view, const std::vector<int>& nodes, const Finding& finding) {
  const Node& node = view.nodes[nodes.front()];
  const Process& process = view.process(node);
  const bool one = nodes.size() == 1;
  std::string text = Capital(Ranks(finding.culprits));
  if (one) text += " (" + ProcessText(view, process) + ")";
  const std::string status = ", with status " + std::to_string(process.box->last_words.exit_status) + ".";
  if (finding.kind == Kind::kMissingFinalize)
    return text + (one ? " has" : " have") + " ended without MPI_Finalize" + status;
  return text + (one ? " was" : " were") + " ended inside " + CallText(*node.last) + status;
}

Finding Explain(const View& view, const std::vector<int>& nodes, Kind kind) {
  Finding finding;
  finding.kind = kind;
  const bool seen = std::all_of(nodes.begin(), nodes.end(), [&](int node) {
    return view.process(view.nodes[node]).outcome.what == format::Observed::kGone;
  });
  finding.certainty = seen && kind == Kind::kMissingFinalize ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, RanksOf(view, nodes), &finding);
  std::int64_t began = INT64_MAX;
  for (const int node : nodes) began = std::min(began, EndedAt(view.process(view.nodes[node])));
  finding.began_at_ns = ToRealtime(view, began);
  finding.summary = Summary(view, nodes, finding);
  for (std::size_t i = 0; i < std::min<std::size_t>(nodes.size(), 8); ++i)
    finding.evidence.push_back(Ranks({view.nodes[nodes[i]].rank}) + ": " + WhereText(view, view.nodes[nodes[i]]));
  if (kind == Kind::kMissingFinalize) {
    finding.next_steps = {
        "find the way out of the program that bypasses MPI_Finalize: an exit() in a library, an early "
        "return, an exception"};
  } else {
    finding.evidence.emplace_back(
        "MPI ends a process inside a call because of an error, which it prints on standard error; or an error handler "
        "of "
        "the program prevented that, or ended the process itself");
    finding.next_steps = {"read the MPI error in the job's output: its class, and the call that it names"};
  }
  return finding;
}

}  // namespace

std::vector<Finding> FindEndsWithoutFinalize(const Facts& facts) {
  const View& view = facts.view;
  const std::vector<Finding>& others = facts.findings;
  std::vector<int> inside, outside;
  for (std::size_t n = 0; n < view.nodes.size(); ++n) {
    const Node& node = view.nodes[n];
    const Process& process = view.process(node);
    if (!process.outcome.ended() || !LeftMpiOpen(*process.box) || IsNamed(others, node.rank)) continue;
    if (process.outcome.polite()) continue;  // ended by a signal that somebody sent, or by ncclwatch itself
    (EndedInside(view, node) ? inside : outside).push_back(static_cast<int>(n));
  }
  std::vector<Finding> findings;
  if (!inside.empty()) findings.push_back(Explain(view, inside, Kind::kLibraryError));
  if (!outside.empty()) findings.push_back(Explain(view, outside, Kind::kMissingFinalize));
  return findings;
}

}  // namespace ncclwatch::diagnosis
