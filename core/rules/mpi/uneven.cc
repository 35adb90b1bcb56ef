// missing_participant of MPI, once all have left MPI_Finalize: a collective that some ranks of a communicator never
// called, and for which nobody had to wait. A broadcast may leave its root before anybody has come to it. Where most of
// them never called it, it is an order_mismatch of the others.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

bool AllSeen(const CommView& comm) {
  return comm.comparable && !comm.sizes_differ && comm.members.size() == comm.size &&
         std::all_of(comm.members.begin(), comm.members.end(), [](const Member& member) {
           return member.node >= 0 && member.rank_known() && member.failed == nullptr;
         });
}

// When the first rank called it.
std::int64_t BeganAt(const View& view, const CommView& comm, const Member& most, std::uint64_t position) {
  std::int64_t began = INT64_MAX;
  for (const Member& member : comm.members)
    if (const Call* call = member.entered > position ? member.At(position) : nullptr)
      began = std::min(began, view.process(member).At(call->entered_ns));
  return began != INT64_MAX ? began : view.process(most).At(most.comm->last.entered_ns);
}

std::optional<Finding> Explain(const View& view, const CommView& comm) {
  const auto fewer = [](const Member& a, const Member& b) { return a.entered < b.entered; };
  const auto [least, most] = std::minmax_element(comm.members.begin(), comm.members.end(), fewer);
  if (least->entered == most->entered) return std::nullopt;
  std::vector<int> absent, present;  // nodes
  for (const Member& member : comm.members)
    (member.entered == least->entered ? absent : present).push_back(member.node);
  const bool one_more = absent.size() > present.size();
  Finding finding;
  finding.kind = one_more ? Kind::kOrderMismatch : Kind::kMissingParticipant;
  finding.certainty = Certainty::kCertain;
  AddCulprits(view, RanksOf(view, one_more ? present : absent), &finding);
  finding.communicator = DescribeComm(comm);
  finding.position = least->entered;
  finding.began_at_ns = ToRealtime(view, BeganAt(view, comm, *most, least->entered));
  finding.calls = DescribeCalls(view, comm, least->entered);
  const std::string what = "collective " + std::to_string(least->entered) + " of " + CommText(comm);
  const std::string never = Ranks(RanksOf(view, absent)), did = Ranks(RanksOf(view, present));
  finding.summary = one_more ? fmt::format("{} called {}, which {} never did: all ranks have left MPI_Finalize.",
                                           Capital(did), what, never)
                             : fmt::format("{} never called {}, which {} did: all ranks have left MPI_Finalize.",
                                           Capital(never), what, did);
  for (const CallSummary& call : finding.calls)
    if (call.op) finding.evidence.push_back(Ranks(call.ranks) + ": " + CallText(call));
  finding.evidence.emplace_back(
      "no rank had to wait for it in this run; with another MPI, or more data, the ranks that call it wait forever, or "
      "take the next collective for it");
  finding.next_steps = {"let all ranks of the communicator make the same collectives, or none of them"};
  return finding;
}

}  // namespace

std::vector<Finding> FindUnevenCollectives(const Facts& facts) {
  const View& view = facts.view;
  if (std::any_of(view.processes.begin(), view.processes.end(), HasIncompleteHistory)) return {};
  // A callback that MPI_Finalize calls may still call MPI.
  const auto has_left = [](const Process& process) { return HasLeftFinalize(*process.box); };
  if (!std::all_of(view.processes.begin(), view.processes.end(), has_left)) return {};
  std::vector<Finding> findings;
  for (const CommView& comm : view.comms)
    if (SpeaksMpi(comm) && AllSeen(comm))
      if (std::optional<Finding> finding = Explain(view, comm)) findings.push_back(std::move(*finding));
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.began_at_ns < b.began_at_ns; });
  return findings;
}

}  // namespace ncclwatch::diagnosis
