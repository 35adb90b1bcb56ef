// point_to_point_mismatch of messages of MPI that were received and should not have been: longer than the receive, or
// of other basic types. Which of the two sides is wrong nobody can tell.
#include <fmt/format.h>

#include <algorithm>

#include "core/calls/mpi_clash.h"
#include "core/calls/mpi_message.h"
#include "core/model/text.h"
#include "core/mpi/channels.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

struct Meeting {
  const Channel* channel = nullptr;
  const Call* send = nullptr;
  const Call* receive = nullptr;
  Clash clash{};
  std::int64_t began_ns = 0;
  bool shown = true;  // that they meet
};

CallSummary DescribeSide(const View& view, const CommView& comm, const Member& member, const Call& call) {
  CallSummary summary = DescribeCall(view, comm, member, call.position, &call);
  summary.state = call.BlocksCaller() ? CallState::kEntered : CallState::kReturned;
  return summary;
}

std::string Sentence(const CommView& comm, const Meeting& met, const std::string& from, const std::string& to) {
  const std::string where =
      fmt::format(": message {} in this direction on {}, tag {}.", met.send->position, CommText(comm), met.send->tag);
  if (met.clash == Clash::kTooLong)
    return from + " sends " + std::to_string(met.send->bytes) + " bytes to " + to + ", which has room for " +
           std::to_string(met.receive->bytes) + where;
  return from + " sends " + DataText(*met.send) + " to " + to + ", which receives " + DataText(*met.receive) + where;
}

Finding Explain(const View& view, const CommView& comm, const Meeting& met) {
  Finding finding;
  finding.kind = Kind::kPointToPointMismatch;
  // Bytes are bytes on all machines that run MPI today, and many programs live by that.
  const bool in_order =
      OneThread(view.process(*met.channel->sender)) && OneThread(view.process(*met.channel->receiver));
  // That the two do not fit is certain then too, but not that either of them is wrong.
  const bool of_others = (met.receive->flags & format::kAnySource) != 0 && comm.size > 2;
  const bool certain = met.clash != Clash::kBytes && in_order && met.shown && !of_others;
  finding.certainty = certain ? Certainty::kCertain : Certainty::kLikely;
  std::vector<int> ranks;
  for (const Member* member : {met.channel->sender, met.channel->receiver})
    if (member->node >= 0) ranks.push_back(view.nodes[member->node].rank);
  AddCulprits(view, SortedUnique(ranks), &finding);
  finding.communicator = DescribeComm(comm);
  finding.position = met.send->position;
  finding.calls = {DescribeSide(view, comm, *met.channel->sender, *met.send),
                   DescribeSide(view, comm, *met.channel->receiver, *met.receive)};
  finding.began_at_ns = ToRealtime(view, met.began_ns);
  const std::string from = Ranks(finding.calls[0].ranks), to = Ranks(finding.calls[1].ranks);
  finding.summary = Sentence(comm, met, Capital(from), to);
  finding.evidence = {from + ": " + CallText(*met.send), to + ": " + CallText(*met.receive)};
  if (met.clash == Clash::kTooLong)
    finding.evidence.emplace_back(
        "the receive ends with MPI_ERR_TRUNCATE, which ends the job unless it handles errors");
  else
    finding.evidence.emplace_back(
        "the sequences of basic types differ; MPI silently delivers such a message, and its meaning is undefined");
  if (of_others)
    finding.evidence.push_back("the receive takes messages from any source: another one may have been meant for it");
  finding.next_steps = {"compare how the two ranks compute the count and the datatype of this message"};
  return finding;
}

std::optional<Meeting> FirstClash(const View& view, const Channels& channels, int comm) {
  std::optional<Meeting> first;
  for (const auto& [key, channel] : channels.all()) {
    if (std::get<0>(key) != comm || channel.sender == nullptr || channel.receiver == nullptr) continue;
    // What is about to meet too: a message that is too long ends its receiver inside the call.
    for (const auto* pairs : {&channel.met, &channel.claimed}) {
      for (const auto& [send, receive] : *pairs) {
        const Clash clash = ClashOf(*send, *receive);
        if (clash == Clash::kNone) continue;
        const std::int64_t began = std::max(view.process(*channel.sender).At(send->entered_ns),
                                            view.process(*channel.receiver).At(receive->entered_ns));
        // Of what is still to meet, a receive that the ring has lost may be the first to take it.
        const bool shown = receive->position != format::kNotMatched || channel.receiver->box->first_slot == 0;
        if (!first || began < first->began_ns) first = Meeting{&channel, send, receive, clash, began, shown};
        break;
      }
    }
  }
  return first;
}

// A receive in which its process has ended, and a message that it could take and that is too long for it: of one from
// wildcard, or of any tag, MPI ends the job over that before it is told which message it was.
std::optional<Meeting> FatalClash(const View& view, const Channels& channels, int comm) {
  for (const auto& [key, channel] : channels.all()) {
    if (std::get<0>(key) != comm || channel.sender == nullptr || channel.receiver == nullptr || !channel.known ||
        channel.lossy)
      continue;
    const std::uint32_t sender = std::get<1>(key);
    const Process& process = view.process(*channel.receiver);
    if (!process.outcome.ended() || process.outcome.orderly() || !OneThread(process)) continue;
    for (const Call* receive : channel.receiver->messages) {
      if (!IsReceive(*receive) || !IsOpen(*receive) || !receive->BlocksCaller()) continue;
      const auto first = std::find_if(channel.under_way.begin(), channel.under_way.end(),
                                      [&](const Call* send) { return Takes(*receive, sender, send->tag); });
      if (first == channel.under_way.end() || ClashOf(**first, *receive) != Clash::kTooLong) continue;
      // One that was called before takes it.
      const auto takes = [&](const Call* other) {
        return other->slot < receive->slot && IsReceive(*other) && IsOpen(*other) &&
               Takes(*other, sender, (*first)->tag);
      };
      if (std::any_of(channel.receiver->messages.begin(), channel.receiver->messages.end(), takes)) continue;
      const std::int64_t began =
          std::max(view.process(*channel.sender).At((*first)->entered_ns), process.At(receive->entered_ns));
      return Meeting{&channel, *first, receive, Clash::kTooLong, began, false};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Finding> FindMessageMismatchesOfMpi(const Facts& facts) {
  const View& view = facts.view;
  WaitGraph* const graph = &facts.graph;
  std::vector<Finding> findings;
  const Channels channels(view);
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    std::optional<Meeting> met = FirstClash(view, channels, static_cast<int>(c));
    if (!met) met = FatalClash(view, channels, static_cast<int>(c));
    if (!met) continue;
    findings.push_back(Explain(view, view.comms[c], *met));
    for (const Member* member : {met->channel->sender, met->channel->receiver})
      if (member->node >= 0) graph->blocked[member->node] = 1;
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.began_at_ns < b.began_at_ns; });
  return findings;
}

}  // namespace ncclwatch::diagnosis
