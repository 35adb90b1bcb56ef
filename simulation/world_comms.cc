// The communicators of a World: who meets whom to make one, and its end.
#include <algorithm>

#include "simulation/world.h"

namespace ncclwatch::simulation {

void World::Create(int r, const Op& op) {
  RankState& rank = Of(r);
  const bool split = op.what == Do::kSplit;
  const int parent = split ? LocalOf(r, op.root) : -1;
  const std::size_t at = Enter(r, op, parent);
  DetailOf(rank, at).root = -1;
  std::uint64_t ordinal = 0;
  if (split) {
    std::vector<std::int64_t>& creations = rank.comms[static_cast<std::size_t>(parent)].creations;
    ordinal = creations.size();
    creations.push_back(rank.now);
    rank.records[at].position = static_cast<std::uint32_t>(ordinal);
  }
  rank.creating = at;
  rank.created = -1;
  rank.state = RankState::State::kWaiting;
  if (op.comm >= 0) {
    LocalComm local;
    local.comm = op.comm;
    local.rank = static_cast<std::uint32_t>(CommAt(op.comm).RankOf(r));
    local.claimed_size = op.claimed_size != 0 ? op.claimed_size : static_cast<std::uint32_t>(CommAt(op.comm).size());
    local.ordinal = ordinal;
    local.created = rank.now;
    rank.created = static_cast<int>(rank.comms.size());
    if (!split) rank.records[at].comm = rank.created;
    rank.comms.push_back(std::move(local));
  }
  if (split) return Meet({op.root, ordinal + 1}, r, CommAt(op.root).size(), false);
  Meet({op.comm, 0}, r, CommAt(op.comm).size(), op.claimed_size != 0);
}

// Ranks that disagree about the size of a communicator never come up.
void World::Meet(std::pair<int, std::uint64_t> key, int r, int needed, bool broken) {
  Meeting& meeting = meetings_[key];
  meeting.ranks.push_back(r);
  meeting.last = std::max(meeting.last, Of(r).now);
  meeting.broken = meeting.broken || broken;
  if (static_cast<int>(meeting.ranks.size()) < needed || meeting.broken) return;
  for (const int other : meeting.ranks)
    if (meeting.last > Of(other).host_stop) return;  // it died, or froze, before the last one came
  const std::int64_t made =
      meeting.last + (workload_.costs ? 0
                                      : chance_.Between(20 * kMilli, 80 * kMilli, 0x3ee7, key.second,
                                                        static_cast<std::uint64_t>(key.first)));
  for (const int other : meeting.ranks) {
    RankState& rank = Of(other);
    const std::int64_t at = made + Roll(other, kMilli);
    rank.records[rank.creating].returned = at;
    if (rank.created >= 0) rank.comms[static_cast<std::size_t>(rank.created)].ready = at;
    Wake(other, at);
  }
  meetings_.erase(key);
}

void World::Destroy(int r, const Op& op) {
  RankState& rank = Of(r);
  LocalComm& comm = rank.comms[static_cast<std::size_t>(LocalOf(r, op.comm))];
  if (comm.finalizing == kNever) {
    comm.finalizing = rank.now;
    Enter(r, op, LocalOf(r, op.comm));
  }
  if (WaitFor(r, comm.tail)) {
    --rank.next;
    return;
  }
  rank.now += Roll(r, kMilli);
  comm.destroyed = rank.records.back().returned = rank.now;
}

std::int64_t World::CollectiveNs(const Op& op) const {
  return workload_.costs->Collective(op, CommAt(op.comm).size(), workload_.Stretch(op.comm, -1, -1));
}

}  // namespace ncclwatch::simulation
