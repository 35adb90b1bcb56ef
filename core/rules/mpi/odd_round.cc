#include "core/rules/mpi/odd_round.h"

#include <algorithm>

#include "core/calls/mpi_message.h"
#include "core/steps/steps.h"
#include "core/waits/mpi_near_miss.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;

constexpr std::size_t kFewestRounds = 2;

// One side of a channel.
struct SideOfChannel {
  std::int32_t peer = -1;  // rank in the communicator of the messages
  std::int32_t tag = 0;
  bool sends = false;
};

struct Rounds {
  std::vector<std::size_t> counts;  // of all rounds, the newest last
  std::uint64_t next = 0;           // position of the collective that ends the newest one

  // As many in all rounds before the newest, but the first, which may be cut; 0: not so.
  std::size_t Usual() const {
    if (counts.size() < kFewestRounds + 2) return 0;
    const bool even = std::all_of(counts.begin() + 1, counts.end() - 1, [&](auto one) { return one == counts[1]; });
    return even ? counts[1] : 0;
  }
};

bool IsCalledOn(const Call& call, const Member& member) {
  return call.communicator == member.comm->index && call.generation == member.comm->generation;
}

// until: the collective that the node waits in, null: it is not there yet.
Rounds RoundsOf(const History& history, const SideOfChannel& side, const Member& messages, const Member& collectives,
                const Call* until) {
  Rounds rounds;
  rounds.counts.push_back(0);
  for (const Call* const call : history.calls) {
    if (until && call->slot >= until->slot) break;
    if (!IsMessage(*call)) {
      if (!IsCalledOn(*call, collectives)) continue;
      rounds.counts.push_back(0);
      rounds.next = call->position + 1;
      continue;
    }
    const bool is = IsCalledOn(*call, messages) && call->root == side.peer && call->tag == side.tag &&
                    (side.sends ? IsSend(*call) : IsReceive(*call));
    if (is) ++rounds.counts.back();
  }
  return rounds;
}

const Wait* WaitOf(const std::vector<const Wait*>& cycle, int node) {
  const auto found = std::find_if(cycle.begin(), cycle.end(), [&](const Wait* wait) { return wait->waiter == node; });
  return found == cycle.end() ? nullptr : *found;
}

std::optional<OddRound> OddRoundOf(const View& view, const Wait& wait, const Wait& others) {
  const CommView& comm = view.comms[wait.comm];
  const CommView& rounds_of = view.comms[others.comm];
  const Member* const receiver = InComm(comm, wait.waiter);
  const Member* const sender = InComm(comm, wait.other);
  const Member* const receiver_there = InComm(rounds_of, wait.waiter);
  const Member* const sender_there = InComm(rounds_of, wait.other);
  if (!receiver || !sender || !receiver_there || !sender_there) return std::nullopt;
  const History sent = HistoryOf(view, view.nodes[wait.other]), received = HistoryOf(view, view.nodes[wait.waiter]);
  const std::int32_t tag = wait.call->tag;
  const Rounds sends =
      RoundsOf(sent, {static_cast<std::int32_t>(receiver->comm->rank), tag, true}, *sender, *sender_there, others.call);
  const Rounds receives = RoundsOf(received, {static_cast<std::int32_t>(sender->comm->rank), tag, false}, *receiver,
                                   *receiver_there, nullptr);
  const std::size_t usual = sends.Usual();
  const bool same_round = sends.next == others.call->position && receives.next == others.call->position;
  if (usual == 0 || usual != receives.Usual() || !same_round) return std::nullopt;
  const std::size_t sent_now = sends.counts.back(), received_now = receives.counts.back();
  OddRound odd{&wait, &rounds_of, sent_now < usual, usual, sent_now};
  if (sent_now < usual && received_now <= usual) return odd;
  odd.now = received_now;
  return sent_now == usual && received_now > usual ? std::optional(odd) : std::nullopt;
}

}  // namespace

std::optional<OddRound> FindOddRound(const View& view, const std::vector<const Wait*>& cycle) {
  for (const Wait* const wait : cycle) {
    if (wait->what != WaitFor::kMessage || !wait->call || !IsReceive(*wait->call) || wait->choice >= 0) continue;
    if ((wait->call->flags & (format::kAnySource | format::kAnyTag)) != 0 || wait->call->root < 0) continue;
    const Wait* const others = WaitOf(cycle, wait->other);
    if (!others || others->what != WaitFor::kCollective || !others->call) continue;
    if (auto found = OddRoundOf(view, *wait, *others)) return found;
  }
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
