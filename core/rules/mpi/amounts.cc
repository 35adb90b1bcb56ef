// argument_mismatch of collectives in which each pair of ranks has an amount of its own: what one sends is not what the
// other expects. MPI delivers some of that without a word, and ends the job over the rest.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/calls/amounts.h"
#include "core/calls/mpi_types.h"
#include "core/model/text.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"
#include "ncclwatch/functions/types.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::CallParts;

// What the members have told of one position, by rank.
using Reported = std::map<std::uint32_t, std::pair<const Member*, const CallParts*>>;

struct Clashing {
  const Member* sender = nullptr;
  const Member* receiver = nullptr;
  const format::Part* sent = nullptr;
  const format::Part* expected = nullptr;
  PartClash clash{};
};

struct PairsDiffer {
  std::uint64_t position = 0;
  std::vector<Clashing> pairs;
  std::map<const Member*, int> asked;  // pairs of which it is one, and both ends are known
  std::int64_t began_ns = 0;
  bool rooted = false;
};

std::map<std::uint64_t, Reported> Gather(const CommView& comm, std::uint64_t before) {
  std::map<std::uint64_t, Reported> reported;
  for (const Member& member : comm.members) {
    if (!member.rank_known()) continue;
    for (const CallParts& parts : member.box->parts) {
      const reader::Call& call = parts.call;
      if (call.communicator != member.comm->index || call.generation != member.comm->generation) continue;
      if (!functions::IsCollective(call.function) || call.position >= before) continue;
      if (call.position >= member.comm->entered) continue;
      reported[call.position].insert_or_assign(member.comm->rank, std::pair(&member, &parts));
    }
  }
  return reported;
}

// Nothing clashes, by one look at each member.
bool SumsUp(const CommView& comm, const Reported& reported) {
  if (reported.size() != comm.size) return false;
  std::uint64_t sum = 0;
  for (const auto& [rank, of] : reported) {
    const PairSum own = SumOf(*of.second, rank);
    if (!own.known) return false;
    sum += own.sum;
  }
  return sum == 0;
}

std::vector<std::uint32_t> PartnersOf(const std::vector<Edge>& edges) {
  std::vector<std::uint32_t> ranks;
  for (const Edge& edge : edges)
    if (std::find(ranks.begin(), ranks.end(), edge.rank) == ranks.end()) ranks.push_back(edge.rank);
  return ranks;
}

// From whom a call expects something that they know nothing of.
std::vector<std::uint32_t> UnawareSenders(const Reported& reported, std::uint32_t rank, const CallParts& parts) {
  std::vector<std::uint32_t> ranks;
  if (!IsOfNeighbours(parts.call)) return ranks;
  for (const std::uint32_t sender : PartnersOf(EdgesOf(parts.receives))) {
    const auto from = reported.find(sender);
    if (from == reported.end() || !IsOfNeighbours(from->second.second->call)) continue;
    const std::vector<Edge> sends = EdgesOf(from->second.second->sends);
    if (std::none_of(sends.begin(), sends.end(), [&](const Edge& edge) { return edge.rank == rank; }))
      ranks.push_back(sender);
  }
  return ranks;
}

// Whom a call says something about.
std::vector<std::uint32_t> Receivers(const CallParts& parts) {
  if (IsOfNeighbours(parts.call)) return PartnersOf(EdgesOf(parts.sends));
  if (parts.sends.size() == 1) return {static_cast<std::uint32_t>(parts.call.root)};
  std::vector<std::uint32_t> ranks(parts.sends.size());
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = rank;
  return ranks;
}

OddEdge AmountsBetween(const CallParts& sends, std::uint32_t sender, const CallParts& receives,
                       std::uint32_t receiver) {
  if (IsOfNeighbours(sends.call)) return OddEdgeBetween(sends, sender, receives, receiver);
  const format::Part* sent = SentTo(sends, receiver);
  const format::Part* expected = ReceivedFrom(receives, sender);
  const bool known = sent != nullptr && expected != nullptr && sent->what != 0 && expected->what != 0;
  return known ? OddEdge{sent, expected} : OddEdge{};
}

void Compare(const View& view, std::pair<const Member*, const CallParts*> from,
             std::pair<const Member*, const CallParts*> to, PairsDiffer* found) {
  const CallParts& sends = *from.second;
  const CallParts& receives = *to.second;
  // Equal pasts: these are one and the same call.
  if (sends.call.chain != receives.call.chain) return;
  const auto [sent, expected] = AmountsBetween(sends, from.first->comm->rank, receives, to.first->comm->rank);
  if (sent == nullptr && expected == nullptr) return;
  ++found->asked[from.first];
  if (to.first != from.first) ++found->asked[to.first];
  const PartClash clash = sent != nullptr && expected != nullptr ? ClashOf(*sent, *expected) : PartClash::kEdge;
  if (clash == PartClash::kNone) return;
  const std::int64_t began = std::max(view.process(*from.first).At(sends.call.entered_ns),
                                      view.process(*to.first).At(receives.call.entered_ns));
  if (found->pairs.empty() || began < found->began_ns) found->began_ns = began;
  found->pairs.push_back({from.first, to.first, sent, expected, clash});
}

std::optional<PairsDiffer> FirstDisagreement(const View& view, const CommView& comm, std::uint64_t before) {
  for (const auto& [position, reported] : Gather(comm, before)) {
    if (SumsUp(comm, reported)) continue;
    PairsDiffer found;
    found.position = position;
    found.rooted = reported.begin()->second.second->call.root >= 0;
    for (const auto& [rank, one] : reported) {
      for (const std::uint32_t receiver : Receivers(*one.second))
        if (const auto to = reported.find(receiver); to != reported.end()) Compare(view, one, to->second, &found);
      for (const std::uint32_t sender : UnawareSenders(reported, rank, *one.second))
        Compare(view, reported.at(sender), one, &found);
    }
    if (!found.pairs.empty()) return found;
  }
  return std::nullopt;
}

// One that disagrees with several, where nobody else disagrees with as many, is wrong itself; of a rooted call only if
// it disagrees with most: several may have made the same mistake. Of a pair either may be.
struct Blame {
  std::vector<const Member*> members;
  bool either = false;  // of a pair, and nobody else's word says which
};
Blame Blamed(const PairsDiffer& found) {
  std::map<const Member*, int> clashes;
  for (const Clashing& pair : found.pairs) {
    ++clashes[pair.sender];
    if (pair.receiver != pair.sender) ++clashes[pair.receiver];
  }
  Blame blame;
  std::vector<const Member*>& blamed = blame.members;
  std::vector<const Clashing*> left;
  const auto is_hub = [&](const Member* member, const Member* other) {
    const int own = clashes[member];
    return own >= 2 && own > clashes[other] && (!found.rooted || 2 * own > found.asked.at(member));
  };
  for (const Clashing& pair : found.pairs) {
    if (pair.sender == pair.receiver || is_hub(pair.sender, pair.receiver)) {
      blamed.push_back(pair.sender);
    } else if (is_hub(pair.receiver, pair.sender)) {
      blamed.push_back(pair.receiver);
    } else {
      left.push_back(&pair);
    }
  }
  const std::vector<const Member*> hubs = blamed;
  const auto is_reported = [&](const Member* member) {
    return clashes[member] >= 2 && std::find(hubs.begin(), hubs.end(), member) != hubs.end();
  };
  for (const Clashing* pair : left) {
    if (is_reported(pair->sender) || is_reported(pair->receiver)) continue;
    blamed.push_back(pair->sender);
    blamed.push_back(pair->receiver);
    blame.either = true;
  }
  return blame;
}

std::string RankText(const View& view, const Member& member) { return Ranks(RanksOf(view, std::vector{&member})); }

// "20 bytes (5 MPI_INT)", as far as its elements are of one type.
std::string PartText(const format::Part& part) {
  std::string text = Plural(part.bytes, "byte");
  if (part.element == 0 || !IsBasicType(part.dtype)) return text;
  return text + " (" + std::to_string(part.bytes / part.element) + " " +
         std::string(functions::DatatypeName(static_cast<std::uint8_t>(part.dtype))) + ")";
}

std::string PairText(const View& view, const Clashing& pair) {
  if (pair.sent == nullptr)
    return fmt::format("{} expects {} from {}, which does not send it: only one of the two has this edge",
                       RankText(view, *pair.receiver), PartText(*pair.expected), RankText(view, *pair.sender));
  if (pair.expected == nullptr)
    return fmt::format("{} sends {} to {}, which does not expect it: only one of the two has this edge",
                       RankText(view, *pair.sender), PartText(*pair.sent), RankText(view, *pair.receiver));
  const bool same = pair.sent->bytes == pair.expected->bytes && pair.sent->dtype == pair.expected->dtype;
  return fmt::format("{} sends {} to {} expects {}{}", RankText(view, *pair.sender), PartText(*pair.sent),
                     pair.sender == pair.receiver ? "itself and" : RankText(view, *pair.receiver) + ", which",
                     PartText(*pair.expected), same ? " of different basic types" : "");
}

bool OfOneThread(const View& view, const PairsDiffer& found) {
  return std::all_of(found.pairs.begin(), found.pairs.end(), [&](const Clashing& pair) {
    return OneThread(view.process(*pair.sender)) && OneThread(view.process(*pair.receiver));
  });
}

// Who has not come yet may disagree with one of them too.
bool MoreMayCome(const View& view, const CommView& comm, std::uint64_t position) {
  return comm.members.size() < comm.size ||
         std::any_of(comm.members.begin(), comm.members.end(), [&](const Member& member) {
           return member.entered <= position && member.alive_in() && !view.process(member).outcome.gone();
         });
}

bool AllCame(const CommView& comm, std::uint64_t position) {
  return comm.members.size() == comm.size &&
         std::all_of(comm.members.begin(), comm.members.end(),
                     [&](const Member& member) { return member.entered > position; });
}

Finding Explain(const View& view, const CommView& comm, const PairsDiffer& found) {
  Finding finding;
  finding.kind = Kind::kArgumentMismatch;
  const bool proven = std::any_of(found.pairs.begin(), found.pairs.end(),
                                  [](const Clashing& pair) { return pair.clash != PartClash::kLikely; });
  finding.unsettled = MoreMayCome(view, comm, found.position);
  const Blame blame = Blamed(found);
  const bool decided = !blame.either || found.rooted || AllCame(comm, found.position);
  finding.certainty = proven && decided && OfOneThread(view, found) ? Certainty::kCertain : Certainty::kLikely;
  AddCulprits(view, RanksOf(view, blame.members), &finding);
  for (const int rank : comm.job_ranks)
    if (rank >= 0 && !std::binary_search(finding.culprits.begin(), finding.culprits.end(), rank))
      finding.victims.push_back(rank);
  finding.victims = SortedUnique(std::move(finding.victims));
  finding.communicator = DescribeComm(comm);
  finding.position = found.position;
  finding.calls = DescribeCalls(view, comm, found.position);
  finding.began_at_ns = ToRealtime(view, found.began_ns);
  const Clashing& first = found.pairs.front();
  const std::string op = finding.calls.empty() ? "collective" : finding.calls.front().op.value_or("collective");
  finding.summary = Capital(PairText(view, first)) + ": " + op + ", collective " + std::to_string(found.position) +
                    " of " + CommText(comm) + ".";
  constexpr std::size_t kEnough = 8;
  for (std::size_t i = 0; i < std::min(kEnough, found.pairs.size()); ++i)
    finding.evidence.push_back(PairText(view, found.pairs[i]));
  if (found.pairs.size() > kEnough)
    finding.evidence.push_back("and " + Plural(found.pairs.size() - kEnough, "pair") + " more disagree");
  for (const Member* member : {first.sender, first.receiver}) {
    const reader::Call* call = member->At(found.position);
    if (call != nullptr && call->site != 0)
      finding.evidence.push_back(RankText(view, *member) + ": called from " +
                                 SiteText(view, view.process(*member), call->site));
  }
  finding.evidence.emplace_back(
      "what one rank sends to another must have the length and the basic types that the other expects");
  finding.next_steps = {"compare how these ranks compute the counts and datatypes for one another"};
  return finding;
}

}  // namespace

std::vector<Finding> FindAmountMismatches(const Facts& facts) {
  const View& view = facts.view;
  const std::vector<Mismatch>& mismatches = facts.mismatches;
  std::vector<Finding> findings;
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    if (!comm.comparable || !SpeaksMpi(comm)) continue;
    std::uint64_t before = UINT64_MAX;
    for (const Mismatch& mismatch : mismatches)
      if (mismatch.comm == static_cast<int>(c)) before = std::min(before, mismatch.difference.position);
    if (const std::optional<PairsDiffer> found = FirstDisagreement(view, comm, before))
      findings.push_back(Explain(view, comm, *found));
  }
  return findings;
}

}  // namespace ncclwatch::diagnosis
