#include "core/rules/departed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/calls/mpi_message.h"
#include "core/model/text.h"
#include "core/rules/describe.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

using How = Break::How;
using reader::Call;

constexpr std::size_t kMostAsked = 64;  // ranks whose steps are looked at

bool Sends(const Call& call) {
  return functions::IsMpi(call.function) ? IsSend(call) : call.function == functions::Function::ncclSend;
}

bool IsMessageWith(const std::optional<CallOn>& on, int comm, const Member& peer, bool send) {
  return on && on->comm == comm && IsMessage(on->call) && Sends(on->call) == send &&
         on->call.root == static_cast<std::int32_t>(peer.comm->rank);
}

// What the break adds to the rank's calls, and what it takes away: an exchange does both to either.
bool Adds(const OwnBreak& own, int comm, const Member& peer, bool send) {
  return IsMessageWith(own.made, comm, peer, send) || IsMessageWith(own.other, comm, peer, send);
}
bool TakesAway(const OwnBreak& own, int comm, const Member& peer, bool send) {
  return IsMessageWith(own.usual, comm, peer, send) || IsMessageWith(own.other, comm, peer, send);
}

// A send where it always received, or something of another size: more likely the next part of a longer step, as a
// pipeline's stages have, than the usual message gone astray.
bool IsAnotherThing(const OwnBreak& own) {
  if (own.how != How::kReplaced || !own.made || !own.usual) return false;
  const Call& made = own.made->call;
  const Call& usual = own.usual->call;
  return !IsMessage(made) || !IsMessage(usual) || Sends(made) != Sends(usual) || made.count != usual.count ||
         made.dtype != usual.dtype;
}

// The rank has made a call that has no partner, or not made the partner of one.
bool Explains(const OwnBreak& own, int node, const Unmatched& message, bool resized) {
  if ((own.how == How::kResized) != resized || own.how == How::kOther || IsAnotherThing(own)) return false;
  const bool owns = message.owner->node == node;
  if (!owns && message.peer->node != node) return false;
  const Member& peer = owns ? *message.peer : *message.owner;
  const bool send = owns == message.send;
  // In messages that have met and differ either may show: all later ones are shifted.
  if (resized) return Adds(own, message.comm, peer, send) || TakesAway(own, message.comm, peer, send);
  return owns ? Adds(own, message.comm, peer, send) : TakesAway(own, message.comm, peer, send);
}

// A call that neither of the two has ever made may be something new that both are to do, and the other one is late.
bool MayBeNew(int node, const std::vector<Unmatched>& explained) {
  return std::all_of(explained.begin(), explained.end(), [&](const Unmatched& message) {
    return message.owner->node == node && message.met == 0 && message.alone > 0;
  });
}

std::vector<Unmatched> ExplainedBy(const OwnBreak& own, int node, const std::vector<Unmatched>& messages,
                                   bool resized) {
  std::vector<Unmatched> explained;
  std::copy_if(messages.begin(), messages.end(), std::back_inserter(explained),
               [&](const Unmatched& message) { return Explains(own, node, message, resized); });
  return explained;
}

// The ends of the messages first, then whoever else is in their communicators.
std::vector<int> NodesToAsk(const View& view, const std::vector<Unmatched>& messages) {
  std::vector<int> nodes;
  const auto add = [&](const Member& member) {
    if (member.node >= 0 && nodes.size() < kMostAsked &&
        std::find(nodes.begin(), nodes.end(), member.node) == nodes.end())
      nodes.push_back(member.node);
  };
  for (const Unmatched& message : messages) add(*message.owner), add(*message.peer);
  for (const Unmatched& message : messages)
    for (const Member& member : view.comms[static_cast<std::size_t>(message.comm)].members) add(member);
  return nodes;
}

bool BreaksNow(const OwnHabit& habit, bool resized) {
  return std::any_of(habit.breaks.begin(), habit.breaks.end(),
                     [&](const OwnBreak& own) { return own.in_last_step && (own.how == How::kResized) == resized; });
}

int RankOfNode(const View& view, int node) { return view.nodes[static_cast<std::size_t>(node)].rank; }

// ---- text
// ------------------------------------------------------------------------------------------------------------

const CommView& CommOf(const View& view, const CallOn& on) { return view.comms[static_cast<std::size_t>(on.comm)]; }

std::string PeerText(const View& view, const CallOn& on) {
  return Ranks({view.JobRank(CommOf(view, on), static_cast<std::uint32_t>(on.call.root))});
}

// "sent to rank 3", "receives from rank 3"; of another communicator than the usual one also on which.
std::string DidText(const View& view, const CallOn& on, bool name_comm) {
  std::string text = IsMessage(on.call) ? (Sends(on.call) ? "sent to " : "received from ") + PeerText(view, on)
                                        : "called " + CallText(on.call);
  if (name_comm) text += " on " + CommText(CommOf(view, on));
  return text;
}

// "65 float32 (260 bytes)"
std::string SizeText(const Call& call) {
  const std::uint64_t bytes = functions::IsMpi(call.function) ? call.bytes : BytesOf(call);
  if (call.dtype == format::kNoType) return std::to_string(bytes) + " bytes";
  return fmt::format("{} {} ({} bytes)", call.count, functions::DatatypeName(call.dtype), bytes);
}

const Unmatched* OwnOf(const Departed& departed, const std::optional<CallOn>& on, bool own) {
  if (!on) return nullptr;
  for (const Unmatched& message : departed.explained) {
    const bool owns = message.owner->node == departed.node;
    if (owns != own) continue;
    const Member& peer = owns ? *message.peer : *message.owner;
    if (IsMessageWith(on, message.comm, peer, owns == message.send)) return &message;
  }
  return nullptr;
}

// What the other end of a call does not do.
std::string ExpectsText(const Unmatched& message, const std::string& who) {
  const std::string_view what = message.met == 0 ? "nothing" : "no further message";
  return fmt::format(", which {} {} {} {}", message.send ? "expects" : "sends", what, message.send ? "from" : "to",
                     who);
}

std::string LackText(const View& view, const Unmatched& message, const std::string& who) {
  const std::string other = Ranks({RankOfNode(view, message.owner->node)});
  return message.send ? fmt::format("{} has sent a message to {} that is not received", other, who)
                      : fmt::format("{} waits for a message from {}", other, who);
}

}  // namespace

std::optional<Departed> FindDeparted(const View& view, const std::vector<Unmatched>& messages, bool resized) {
  std::map<int, OwnHabit> habits;  // by node
  for (const int node : NodesToAsk(view, messages))
    habits[node] = HabitOf(view, view.nodes[static_cast<std::size_t>(node)]);
  std::optional<Departed> departed;
  for (const auto& [node, habit] : habits) {
    for (const OwnBreak& own : habit.breaks) {
      const std::vector<Unmatched> explained = ExplainedBy(own, node, messages, resized);
      if (explained.empty() || MayBeNew(node, explained)) continue;
      if (departed && departed->node != node) return std::nullopt;
      if (!departed) departed = Departed{node, own, explained, {}};
    }
  }
  if (!departed) return departed;
  for (const auto& [node, habit] : habits) {
    if (node == departed->node || habit.steps == 0) continue;
    if (BreaksNow(habit, departed->what.how == How::kResized)) return std::nullopt;
    departed->others.push_back(RankOfNode(view, node));
  }
  departed->others = SortedUnique(std::move(departed->others));
  return departed;
}

std::string DepartedText(const View& view, const Departed& departed) {
  const OwnBreak& own = departed.what;
  const std::string who = Ranks({RankOfNode(view, departed.node)});
  const std::string before = fmt::format("in the {} before", Plural(own.steps, "step"));
  const Unmatched* made = OwnOf(departed, own.made, /*own=*/true);
  const std::optional<CallOn>& was = own.how == How::kExchanged ? own.other : own.usual;
  const Unmatched* lacks = OwnOf(departed, own.usual, /*own=*/false);
  if (lacks == nullptr) lacks = OwnOf(departed, own.other, /*own=*/false);
  const bool other_comm = own.made && was && own.made->comm != was->comm;
  if (own.how == How::kResized)
    return fmt::format("{} {} {} {} {}; {} it was {} each time.", Capital(who),
                       Sends(own.made->call) ? "sent" : "receives", SizeText(own.made->call),
                       Sends(own.made->call) ? "to" : "from", PeerText(view, *own.made), before,
                       SizeText(own.usual->call));
  std::string text = Capital(who);
  if (own.how == How::kLeftOut) {
    text += " has not " + DidText(view, *own.usual, false) + " as " + before;
  } else if (own.how == How::kExtra) {
    text += " " + DidText(view, *own.made, false) + " once more than " + before;
  } else {
    text += " " + DidText(view, *own.made, other_comm);
  }
  if (made != nullptr) text += ExpectsText(*made, who);
  if (lacks != nullptr) text += "; " + LackText(view, *lacks, who);
  text += ".";
  if (own.how == How::kReplaced || own.how == How::kOther || own.how == How::kExchanged)
    text += fmt::format(" {} {} {}{}.", Capital(who), DidText(view, *was, other_comm),
                        own.how == How::kExchanged ? "first " : "", before);
  return text;
}

std::vector<std::string> DepartedEvidence(const View& view, const Departed& departed) {
  std::vector<std::string> evidence;
  for (const Unmatched& message : departed.explained) {
    if (message.call == nullptr) continue;
    const CommView& comm = view.comms[static_cast<std::size_t>(message.comm)];
    evidence.push_back(fmt::format("{}: {} {} {} on {}", Ranks({RankOfNode(view, message.owner->node)}),
                                   CallText(*message.call), message.send ? "to" : "from",
                                   Ranks({RankOfNode(view, message.peer->node)}), CommText(comm)));
    if (message.alone > 0) evidence.back() += message.send ? ", not received" : ", not sent";
  }
  if (!departed.others.empty())
    evidence.push_back(fmt::format("{} made the same calls as in all steps before", Ranks(departed.others)));
  return evidence;
}

std::vector<CallSummary> DepartedCalls(const View& view, const Departed& departed) {
  std::vector<CallSummary> calls;
  for (const Unmatched& message : departed.explained) {
    if (message.call == nullptr) continue;
    const CommView& comm = view.comms[static_cast<std::size_t>(message.comm)];
    calls.push_back(DescribeCall(view, comm, *message.owner, message.call->position, message.call));
    calls.back().state = message.call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
  }
  return calls;
}

}  // namespace ncclwatch::diagnosis
