// message_race: a wildcard receive that another message could have met.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/calls/mpi_message.h"
#include "core/model/text.h"
#include "core/mpi/races.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::size_t kMostWaiters = 64;  // of one finding, that are looked at

// The ranks and calls of a race, in words.
class Story {
 public:
  Story(const View& view, const Race& race)
      : view_(view),
        race_(race),
        receiver_(Named(*race.receiver)),
        sender_(Named(*race.taken.sender)),
        rival_(Named(*race.rival_sender)) {}

  std::string Summary() const {
    const std::string took = fmt::format("{}'s {} from any source took {}'s message (tag {}); ", Capital(receiver_),
                                         Function(Asker()), sender_, race_.taken.send->tag);
    const std::string instead = rival_ + "'s could have come first";
    switch (race_.harm) {
      case Harm::kDoesNotFit: return took + instead + ", and does not fit this receive.";
      case Harm::kOtherDoesNotFit:
        return took + instead + ", and a later " + Function(*race_.other) +
               " would have got a message that does not fit it.";
      case Harm::kStarves:
        return took + instead + ", and a later " + Function(*race_.other) + " from " + OtherSource() +
               " would have waited forever.";
      case Harm::kLeftOver: return took + instead + " and was never received.";
      case Harm::kHangs:
        return fmt::format(
            "{}its later {} from {} waits forever, while nobody receives {}'s message, which the first receive could "
            "have "
            "taken as well.",
            took, Function(*race_.other), sender_, rival_);
    }
    return took;
  }

  std::vector<std::string> Evidence() const {
    std::vector<std::string> lines = {receiver_ + ": " + Text(Asker(), *race_.receiver) + Room(*race_.taken.receive) +
                                          "; it got " + Bytes(*race_.taken.send) + " from " + sender_,
                                      sender_ + ": " + Text(*race_.taken.send, *race_.taken.sender),
                                      rival_ + ": " + Text(*race_.rival, *race_.rival_sender) + ", " +
                                          Bytes(*race_.rival) + "; no message and no collective makes it wait until " +
                                          receiver_ + " has received the other"};
    if (race_.other != nullptr)
      lines.push_back(
          receiver_ + ": " + Text(*race_.other, *race_.receiver, " from " + OtherSource()) +
          (race_.harm == Harm::kHangs ? ", waits for what the first receive has taken" : ", got it in this run"));
    if (!race_.sure && race_.harm != Harm::kLeftOver)
      lines.push_back("it may be intended: the message may say who sent it, or the other one takes longer in practice");
    return lines;
  }

  // In a verdict of another kind.
  std::string Line() const {
    return fmt::format(
        "it may be a race: {}'s earlier {} from any source took {}'s message (tag {}); nobody receives {}'s, which it "
        "could have taken as well",
        receiver_, Function(Asker()), sender_, race_.taken.send->tag, rival_);
  }

  std::string Advice() const {
    return fmt::format(
        "name the sender, or give a message that must not be taken there a tag or a communicator of its own, or let {} "
        "send it only after {} has received the other (an answer, a barrier)",
        rival_, receiver_);
  }

 private:
  std::string Named(const Member& member) const {
    return Ranks({member.node >= 0 ? view_.nodes[member.node].rank : -1});
  }
  const Call& Asker() const { return race_.taken.probe != nullptr ? *race_.taken.probe : *race_.taken.receive; }
  static std::string Function(const Call& call) { return std::string(functions::FullName(call.function)); }
  static std::string Bytes(const Call& call) { return std::to_string(call.bytes) + " bytes"; }
  std::string Room(const Call& call) const { return ", room for " + Bytes(call); }
  std::string Text(const Call& call, const Member& member, const std::string& more = "") const {
    std::string text = CallText(call) + more;
    if (call.site != 0) text += ", called from " + SiteText(view_, view_.process(member), call.site);
    return text;
  }
  std::string OtherSource() const {
    if (race_.harm == Harm::kHangs) return sender_;
    if ((race_.other->flags & format::kAnySource) == 0) return rival_;
    return race_.harm == Harm::kStarves ? "any source (another tag)" : "any source";
  }

  const View& view_;
  const Race& race_;
  const std::string receiver_, sender_, rival_;
};

int RankOf(const View& view, const Member& member) { return member.node >= 0 ? view.nodes[member.node].rank : -1; }

std::int64_t BeganAt(const View& view, const Race& race) {
  return view.process(*race.receiver).At(race.taken.receive->entered_ns);
}

CallSummary SideOf(const View& view, const CommView& comm, const Member& member, const Call& call) {
  CallSummary summary = DescribeCall(view, comm, member, call.position, &call);
  summary.state = call.BlocksCaller() ? CallState::kEntered : CallState::kReturned;
  return summary;
}

// All that a race alone says; who suffers from it the caller knows.
Finding Explain(const View& view, const Race& race, const std::vector<int>& culprits) {
  const Story story(view, race);
  const CommView& comm = view.comms[race.comm];
  Finding finding;
  finding.kind = Kind::kMessageRace;
  finding.certainty = race.sure ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, SortedUnique(culprits), &finding);
  finding.communicator = DescribeComm(comm);
  finding.calls = {SideOf(view, comm, *race.receiver, *race.taken.receive),
                   SideOf(view, comm, *race.taken.sender, *race.taken.send),
                   SideOf(view, comm, *race.rival_sender, *race.rival)};
  finding.began_at_ns = ToRealtime(view, BeganAt(view, race));
  finding.summary = story.Summary();
  finding.evidence = story.Evidence();
  finding.next_steps = {story.Advice()};
  return finding;
}

using Asked = std::optional<Race> (Races::*)(int, const Member&, const Call&);

// The race behind one of the receives in which the rank waits.
std::optional<Race> BehindWaitsOf(const View& view, const Node& node, Races* races, Asked asked) {
  for (const auto& at : node.memberships) {
    const CommView& comm = view.comms[at.first];
    if (!comm.comparable || !SpeaksMpi(comm)) continue;
    const Member& member = view.member(at);
    for (const auto* calls : {&member.messages, &member.probes})
      for (const Call* call : *calls)
        if (!IsSend(*call) && call->BlocksCaller() && IsOpen(*call))
          if (auto race = (races->*asked)(at.first, member, *call)) return race;
  }
  return std::nullopt;
}

std::optional<Race> BehindFinding(const View& view, const Finding& finding, Races* races) {
  std::vector<int> ranks = finding.culprits;
  ranks.insert(ranks.end(), finding.victims.begin(), finding.victims.end());
  ranks.resize(std::min(ranks.size(), kMostWaiters));
  for (const int rank : ranks) {
    const auto node = view.node_of_rank.find(rank);
    if (node == view.node_of_rank.end()) continue;
    if (auto race = BehindWaitsOf(view, view.nodes[node->second], races, &Races::Behind)) return race;
  }
  return std::nullopt;
}

// Of a rank that holds up others, or is one of a cycle, since it stands in a wait for messages that are there.
std::optional<Race> HoldingUp(const View& view, const Finding& finding, Races* races) {
  // What is certain was not told by time, as this is.
  if (finding.certainty == Certainty::kCertain) return std::nullopt;
  const bool absent = finding.kind == Kind::kMissingParticipant || finding.kind == Kind::kPointToPointMismatch ||
                      finding.kind == Kind::kInitializationHang;
  if (!(absent && finding.culprits.size() == 1) && finding.kind != Kind::kDeadlock) return std::nullopt;
  for (const int rank : finding.culprits) {
    const auto node = view.node_of_rank.find(rank);
    if (node == view.node_of_rank.end()) continue;
    if (auto race = BehindWaitsOf(view, view.nodes[node->second], races, &Races::BehindBoth)) return race;
  }
  return std::nullopt;
}

// Whoever lives and does nothing may yet send what is waited for.
bool MayBeReplaced(Kind kind) { return kind == Kind::kDeadlock || kind == Kind::kPointToPointMismatch; }

Finding Replace(const View& view, const Race& race, const Finding& found) {
  Finding finding = Explain(view, race, {RankOf(view, *race.receiver)});
  finding.certainty = found.certainty;
  finding.began_at_ns = found.began_at_ns;
  for (const auto* ranks : {&found.culprits, &found.victims})
    for (const int rank : *ranks)
      if (rank != finding.culprits.front()) finding.victims.push_back(rank);
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.evidence.insert(finding.evidence.end(), found.evidence.begin(), found.evidence.end());
  return finding;
}

}  // namespace

std::vector<Finding> FindMessageRaces(const Facts& facts) {
  const View& view = facts.view;
  Races races(view);
  std::map<std::tuple<int, Harm, bool>, std::vector<Race>> alike;  // on one communicator
  for (const Race& race : races.OfEndedJob()) alike[{race.comm, race.harm, race.sure}].push_back(race);
  std::vector<Finding> findings;
  for (const auto& [key, of_comm] : alike) {
    const auto first = std::min_element(of_comm.begin(), of_comm.end(), [&](const Race& a, const Race& b) {
      return BeganAt(view, a) < BeganAt(view, b);
    });
    std::vector<int> culprits;
    for (const Race& race : of_comm) culprits.push_back(RankOf(view, *race.receiver));
    findings.push_back(Explain(view, *first, culprits));
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::make_pair(b.certainty, a.began_at_ns) < std::make_pair(a.certainty, b.began_at_ns);
  });
  return findings;
}

void ExplainByRaces(const Facts& facts, std::vector<Finding>* findings) {
  const View& view = facts.view;
  Races races(view);
  for (Finding& finding : *findings) {
    if (const std::optional<Race> race = HoldingUp(view, finding, &races)) {
      finding = Replace(view, *race, finding);
      continue;
    }
    const bool waits =
        MayBeReplaced(finding.kind) || finding.kind == Kind::kMissingParticipant || finding.kind == Kind::kEarlyExit;
    if (!waits) continue;
    const std::optional<Race> race = BehindFinding(view, finding, &races);
    if (!race) continue;
    if (race->sure && MayBeReplaced(finding.kind))
      finding = Replace(view, *race, finding);
    else
      finding.evidence.push_back(Story(view, *race).Line());
  }
}

}  // namespace ncclwatch::diagnosis
