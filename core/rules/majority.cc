// point_to_point_mismatch of one rank that has left out an exchange of messages: it waits in a collective that none of
// the others has made, and all of them wait for its messages, and for nothing else. The majority is likely right.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/model/text.h"
#include "core/rules/describe.h"
#include "core/rules/rules.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::uint32_t kFewestRanks = 3;  // of two, either may be wrong

std::vector<const Wait*> WaitsOf(const WaitGraph& graph, const Member& member) {
  std::vector<const Wait*> waits;
  for (const int index : graph.out[static_cast<std::size_t>(member.node)])
    waits.push_back(&graph.waits[static_cast<std::size_t>(index)]);
  return waits;
}

// One member waits in a collective, and each of the others for messages of this member.
struct Exchange {
  const Wait* skips = nullptr;
  std::vector<const Wait*> waits;
};

std::optional<Exchange> ExchangeOf(const View& view, const WaitGraph& graph, int comm_index) {
  const CommView& comm = view.comms[static_cast<std::size_t>(comm_index)];
  if (comm.size < kFewestRanks || comm.members.size() != comm.size) return std::nullopt;
  Exchange exchange;
  for (const Member& member : comm.members) {
    if (member.node < 0) return std::nullopt;
    const std::vector<const Wait*> waits = WaitsOf(graph, member);
    const auto here = [&](const Wait* wait) {
      return wait->comm == comm_index && wait->what == waits.front()->what && wait->call != nullptr;
    };
    if (waits.empty() || !std::all_of(waits.begin(), waits.end(), here)) return std::nullopt;
    if (waits.front()->what == WaitFor::kMessage) {
      exchange.waits.insert(exchange.waits.end(), waits.begin(), waits.end());
    } else if (waits.front()->what == WaitFor::kCollective && exchange.skips == nullptr) {
      exchange.skips = waits.front();
    } else {
      return std::nullopt;
    }
  }
  if (exchange.skips == nullptr) return std::nullopt;
  const bool only_it = std::all_of(exchange.waits.begin(), exchange.waits.end(),
                                   [&](const Wait* wait) { return wait->other == exchange.skips->waiter; });
  return only_it ? std::optional(exchange) : std::nullopt;
}

Finding Explain(const Facts& facts, const Exchange& exchange, const Finding& found) {
  const View& view = facts.view;
  const Wait& skips = *exchange.skips;
  const CommView& comm = view.comms[static_cast<std::size_t>(skips.comm)];
  Finding finding;
  finding.kind = Kind::kPointToPointMismatch;
  finding.certainty = std::min(found.certainty, Certainty::kLikely);
  AddCulprits(view, {view.nodes[static_cast<std::size_t>(skips.waiter)].rank}, &finding);
  for (const Wait* wait : exchange.waits)
    finding.victims.push_back(view.nodes[static_cast<std::size_t>(wait->waiter)].rank);
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.communicator = DescribeComm(comm);
  finding.position = skips.call->position;
  const auto member = [&](const Wait& wait) -> const Member& {
    return comm.members[static_cast<std::size_t>(wait.member)];
  };
  finding.calls.push_back(DescribeCall(view, comm, member(skips), skips.call->position, skips.call));
  for (const Wait* wait : exchange.waits) {
    CallSummary call = DescribeCall(view, comm, member(*wait), wait->position, wait->call);
    call.state = wait->call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
    Merge(std::move(call), &finding.calls);
  }
  finding.began_at_ns = found.began_at_ns;
  const std::string who = Ranks(finding.culprits), others = Ranks(finding.victims);
  finding.summary =
      fmt::format("{} called {}, collective {} of {}, and has made none of the messages that {} wait for.",
                  Capital(who), CallText(*skips.call), skips.call->position, CommText(comm), others);
  finding.evidence = {
      fmt::format("{} wait only for messages to and from {}: those among themselves have met", others, who),
      found.summary};
  finding.next_steps = {fmt::format(
      "see why {} left out the exchange before this call: an early return where there is nothing to send", who)};
  return finding;
}

}  // namespace

void ExplainByMajority(const Facts& facts, std::vector<Finding>* findings) {
  for (Finding& finding : *findings) {
    if (finding.kind != Kind::kDeadlock || finding.certainty == Certainty::kCertain || !finding.communicator) continue;
    for (std::size_t i = 0; i < facts.view.comms.size(); ++i) {
      if (facts.view.comms[i].id != finding.communicator->id) continue;
      if (const auto exchange = ExchangeOf(facts.view, facts.graph, static_cast<int>(i)))
        finding = Explain(facts, *exchange, finding);
      break;
    }
  }
}

}  // namespace ncclwatch::diagnosis
