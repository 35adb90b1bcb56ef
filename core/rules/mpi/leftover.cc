// point_to_point_mismatch of MPI, once all have called MPI_Finalize: messages that were sent and never received. MPI
// wants every message received by then, and loses what a buffer has kept without a word.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "core/mpi/channels.h"
#include "core/rules/rules.h"
#include "core/view/mpi_ended.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

struct LeftOver {
  const Channel* channel = nullptr;
  const Call* send = nullptr;  // the first of them
  std::size_t messages = 0;    // on the communicator
};

bool IsLeft(const Channels& channels, const Call& send) {
  return (send.flags & (format::kCancelled | format::kNoPartner)) == 0 && !channels.MayBeReceived(&send);
}

LeftOver LeftOn(const View& view, const Channels& channels, int comm) {
  LeftOver left;
  for (const auto& [key, channel] : channels.all()) {
    if (std::get<0>(key) != comm || channel.sender == nullptr || channel.receiver == nullptr) continue;
    if (!channel.known || !AllKnown(*channel.receiver)) continue;
    for (const Call* send : channel.under_way) {
      if (!IsLeft(channels, *send)) continue;
      ++left.messages;
      const auto at = [&](const Channel& of, const Call& call) { return view.process(*of.sender).At(call.entered_ns); };
      if (left.send != nullptr && at(*left.channel, *left.send) <= at(channel, *send)) continue;
      left.channel = &channel;
      left.send = send;
    }
  }
  return left;
}

Finding Explain(const View& view, const CommView& comm, const LeftOver& left) {
  const Member &sender = *left.channel->sender, &receiver = *left.channel->receiver;
  Finding finding;
  finding.kind = Kind::kPointToPointMismatch;
  finding.certainty = Certainty::kLikely;
  std::vector<int> ranks;
  for (const Member* member : {&sender, &receiver})
    if (member->node >= 0) ranks.push_back(view.nodes[member->node].rank);
  AddCulprits(view, SortedUnique(ranks), &finding);
  finding.communicator = DescribeComm(comm);
  finding.position = left.send->position;
  CallSummary sent = DescribeCall(view, comm, sender, left.send->position, left.send);
  sent.state = CallState::kReturned;
  finding.calls = {sent};
  finding.began_at_ns = ToRealtime(view, view.process(sender).At(left.send->entered_ns));
  const std::string to = Ranks({receiver.node >= 0 ? view.nodes[receiver.node].rank : -1}), from = Ranks(sent.ranks);
  finding.summary =
      fmt::format("{} has sent {} (tag {}) to {} on {}, which never received it: all ranks have called MPI_Finalize.",
                  Capital(from), DataText(*left.send), left.send->tag, to, CommText(comm));
  finding.evidence = {from + ": " + CallText(*left.send) +
                      (left.send->site != 0 ? ", called from " + SiteText(view, view.process(sender), left.send->site)
                                            : std::string())};
  if (left.messages > 1)
    finding.evidence.push_back(std::to_string(left.messages) + " messages on this communicator were not received");
  finding.evidence.emplace_back(
      "this is harmless while MPI keeps the message in a buffer; with another MPI, or a larger message, its sender "
      "waits forever");
  finding.next_steps = {"receive the message before MPI_Finalize, or do not send it"};
  return finding;
}

}  // namespace

std::vector<Finding> FindLeftOverMessages(const Facts& facts) {
  const View& view = facts.view;
  if (std::any_of(view.processes.begin(), view.processes.end(), HasIncompleteHistory)) return {};
  std::vector<Finding> findings;
  const Channels channels(view);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    if (!comm.comparable || !SpeaksMpi(comm) || comm.members.size() < comm.size) continue;
    const LeftOver left = LeftOn(view, channels, static_cast<int>(c));
    if (left.send != nullptr) findings.push_back(Explain(view, comm, left));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.began_at_ns < b.began_at_ns; });
  return findings;
}

}  // namespace ncclwatch::diagnosis
