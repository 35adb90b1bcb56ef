// point_to_point_mismatch by what a rank did before: it has sent to another rank than in all its steps, once too often,
// or not at all, and that is why the ranks that a finding names wait for one another. Habits are no proof.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "core/rules/departed.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

bool Names(const std::vector<int>& ranks, int rank) { return std::binary_search(ranks.begin(), ranks.end(), rank); }

// It is known to be in a call, or will make none any more.
bool IsHeldUp(const View& view, const Node& node) {
  if (HasComeToFinalize(view, node) || view.process(node).outcome.ended()) return true;
  if (node.last != nullptr && node.last->returned_ns == 0) return true;
  return std::any_of(node.memberships.begin(), node.memberships.end(), [&](const auto& at) {
    const Member& member = view.member(at);
    const auto outstanding = [&](const reader::Call* call) { return member.Outstanding(*call); };
    return std::any_of(member.messages.begin(), member.messages.end(), outstanding) ||
           std::any_of(member.calls.begin(), member.calls.end(), outstanding);
  });
}

// The one that is missed may only be late.
bool IsLate(const View& view, int rank) {
  const auto at = view.node_of_rank.find(rank);
  return at == view.node_of_rank.end() || !IsHeldUp(view, view.nodes[static_cast<std::size_t>(at->second)]);
}

bool IsEndOf(const View& view, const Departed& departed, int rank) {
  return std::any_of(departed.explained.begin(), departed.explained.end(), [&](const Unmatched& message) {
    return view.nodes[static_cast<std::size_t>(message.owner->node)].rank == rank ||
           view.nodes[static_cast<std::size_t>(message.peer->node)].rank == rank;
  });
}

// What holds up the ranks of the finding is what the departed one did.
bool IsCauseOf(const View& view, const Departed& departed, const Finding& finding) {
  const int rank = view.nodes[static_cast<std::size_t>(departed.node)].rank;
  // A rank of a cycle has left out what it would do once it is free.
  if (finding.kind == Kind::kDeadlock && departed.what.how == Break::How::kLeftOut) return false;
  if (Names(finding.culprits, rank)) return finding.kind != Kind::kMissingParticipant || !IsLate(view, rank);
  if (finding.kind == Kind::kDeadlock || !Names(finding.victims, rank)) return false;
  return std::all_of(finding.culprits.begin(), finding.culprits.end(),
                     [&](int culprit) { return IsEndOf(view, departed, culprit) && !IsLate(view, culprit); });
}

Finding Explain(const Facts& facts, const Departed& departed, const Finding& found) {
  const View& view = facts.view;
  Finding finding;
  finding.kind = Kind::kPointToPointMismatch;
  finding.certainty = std::min(found.certainty, departed.others.empty() ? Certainty::kSuspected : Certainty::kLikely);
  AddCulprits(view, {view.nodes[static_cast<std::size_t>(departed.node)].rank}, &finding);
  AddVictims(view, facts.graph, {departed.node}, &finding);
  const CallOn& what = departed.what.made ? *departed.what.made : *departed.what.usual;
  finding.communicator = DescribeComm(view.comms[static_cast<std::size_t>(what.comm)]);
  if (departed.what.made) finding.position = what.call.position;
  finding.calls = DepartedCalls(view, departed);
  finding.began_at_ns = found.began_at_ns;
  finding.summary = DepartedText(view, departed);
  finding.evidence = DepartedEvidence(view, departed);
  finding.evidence.push_back(found.summary);
  finding.next_steps = {
      fmt::format("see what made {} choose another peer, communicator or number of messages in this step",
                  Ranks(finding.culprits))};
  return finding;
}

}  // namespace

void ExplainByHabits(const Facts& facts, std::vector<Finding>* findings) {
  const View& view = facts.view;
  const std::vector<Unmatched> messages = FindUnmatched(view);
  if (messages.empty()) return;
  const std::optional<Departed> departed = FindDeparted(view, messages, /*resized=*/false);
  if (!departed) return;
  for (Finding& finding : *findings) {
    const bool may = finding.kind == Kind::kDeadlock || finding.kind == Kind::kMissingParticipant ||
                     finding.kind == Kind::kPointToPointMismatch;
    if (may && IsCauseOf(view, *departed, finding)) finding = Explain(facts, *departed, finding);
  }
}

}  // namespace ncclwatch::diagnosis
