#include "analyzer/edit/job.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <map>

#include "analyzer/recording/whole.h"

namespace ncclwatch::analyzer {
namespace {

using CommKey = std::pair<std::uint32_t, std::uint32_t>;  // index, generation

// Calls without those, and what speaks of slots.
void RemoveCalls(const std::set<std::uint64_t>& gone, reader::BoxImage* box) {
  if (gone.empty()) return;
  std::vector<std::uint64_t> now(box->calls.size() + 1);  // slot + 1 by the old slot + 1; 0: it is gone
  std::uint64_t next = 0;
  for (const reader::Call& call : box->calls) now[call.slot + 1] = gone.contains(call.slot) ? 0 : ++next;
  const auto renumber = [&](reader::Call* call) {
    call->slot = now[call->slot + 1] - 1;
    call->group = now[std::min<std::uint64_t>(call->group, now.size() - 1)];
    if (call->waiter == 0) return;
    call->waiter = now[std::min<std::uint64_t>(call->waiter, now.size() - 1)];
    if (call->waiter == 0) call->completed_ns = 0, call->awaited = false;
  };
  const auto is_gone = [&](const reader::Call& call) { return gone.contains(call.slot); };
  std::erase_if(box->calls, is_gone);
  std::erase_if(box->parts, [&](const reader::CallParts& parts) { return is_gone(parts.call); });
  for (reader::Call& call : box->calls) renumber(&call);
  for (reader::CallParts& parts : box->parts) renumber(&parts.call);
  box->head = box->calls.size();
}

class RankRemoval {
 public:
  RankRemoval(const Job& job, const std::set<int>& ranks) : job_(job), ranks_(ranks) {
    for (std::size_t rank = 0; rank < job.was.size(); ++rank) {
      const bool gone = ranks.contains(static_cast<int>(rank));
      now_.push_back(gone ? -1 : static_cast<int>(left_.was.size()));
      if (!gone) left_.was.push_back(job.was[rank]);
    }
    for (const reader::BoxImage& box : job.boxes)
      for (const reader::Communicator& one : box.communicators) AddMember(one, box.rank);
  }

  Job Make() {
    for (const reader::BoxImage& box : job_.boxes)
      if (!ranks_.contains(box.rank)) left_.boxes.push_back(Without(box));
    for (const reader::BoxImage& box : job_.boxes)
      if (ranks_.contains(box.rank) && !left_.boxes.empty()) TakeOverWords(box, &left_.boxes.front());
    return std::move(left_);
  }

 private:
  // A member without a recording stays.
  void AddMember(const reader::Communicator& one, int rank) {
    if (!ranks_.contains(rank) || one.size == 0 || (one.flags & (format::kCommRankUnknown | format::kCommInter)) != 0)
      return;
    gone_[one.id].insert(one.rank);
  }

  int PlaceNow(const reader::Communicator& one, int place) const {
    const auto gone = gone_.find(one.id);
    if (gone == gone_.end() || place < 0) return place;
    if (gone->second.contains(static_cast<std::uint32_t>(place))) return -1;
    const auto before = gone->second.lower_bound(static_cast<std::uint32_t>(place));
    return place - static_cast<int>(std::distance(gone->second.begin(), before));
  }

  reader::BoxImage Without(const reader::BoxImage& from) const {
    reader::BoxImage box = from;
    box.rank = now_[static_cast<std::size_t>(from.rank)];
    if (box.world_size > 0) box.world_size = static_cast<int>(left_.was.size());
    for (const reader::BoxImage& other : job_.boxes) {
      if (!ranks_.contains(other.rank) || other.host != box.host) continue;
      if (box.local_world_size > 0) --box.local_world_size;
      if (other.local_rank >= 0 && other.local_rank < from.local_rank) --box.local_rank;
    }
    RemoveCalls(RenumberPeers(&box), &box);
    for (reader::Communicator& one : box.communicators) Shrink(&one);
    std::erase_if(box.observations, [&](const auto& seen) { return ranks_.contains(seen.rank); });
    for (reader::Observation& seen : box.observations)
      if (seen.rank >= 0 && seen.rank < static_cast<int>(now_.size()))
        seen.rank = now_[static_cast<std::size_t>(seen.rank)];
    return box;
  }

  std::uint32_t LeftOf(const reader::Communicator& one) const {
    const auto gone = gone_.find(one.id);
    if (gone == gone_.end()) return one.size;
    return one.size - std::min(one.size, static_cast<std::uint32_t>(gone->second.size()));
  }

  void Shrink(reader::Communicator* one) const {
    one->rank = static_cast<std::uint32_t>(PlaceNow(*one, static_cast<int>(one->rank)));
    one->size = LeftOf(*one);
    one->members = nullptr;
  }

  // Numbers the peers and roots that stay; returns the calls that have lost their peer.
  std::set<std::uint64_t> RenumberPeers(reader::BoxImage* box) const {
    absl::flat_hash_map<CommKey, const reader::Communicator*> on;
    for (const reader::Communicator& one : box->communicators) on[{one.index, one.generation}] = &one;
    std::set<std::uint64_t> lost;
    const auto one = [&](const reader::Call& call) {
      const auto found = on.find({call.communicator, call.generation});
      return found == on.end() ? nullptr : found->second;
    };
    for (reader::Call& call : box->calls) {
      const reader::Communicator* const comm = one(call);
      if (!comm || call.root < 0) continue;
      const int place = PlaceNow(*comm, call.root);
      if (place < 0 && functions::IsMessage(call.function)) lost.insert(call.slot);
      call.root = std::max(0, place);
    }
    for (reader::Call& call : box->calls)
      if (const reader::Communicator* const comm = one(call); comm && LeftOf(*comm) == 1)
        call.flags |= format::kOneRank;
    for (reader::CallParts& parts : box->parts) {
      const reader::Communicator* const comm = one(parts.call);
      if (!comm) continue;
      Thin(*comm, &parts.sends);
      Thin(*comm, &parts.receives);
    }
    return lost;
  }

  void Thin(const reader::Communicator& comm, std::vector<format::Part>* parts) const {
    if (parts->size() != comm.size) return;
    std::vector<format::Part> kept;
    for (std::size_t place = 0; place < parts->size(); ++place)
      if (PlaceNow(comm, static_cast<int>(place)) >= 0) kept.push_back((*parts)[place]);
    *parts = std::move(kept);
  }

  // What a process observed of others is true without it.
  void TakeOverWords(const reader::BoxImage& from, reader::BoxImage* to) const {
    const std::int64_t later = from.realtime_minus_monotonic_ns - to->realtime_minus_monotonic_ns;
    if (from.leader_state.generation >= to->leader_state.generation && from.leader_state.verdict_at_ns != 0) {
      to->leader_state = from.leader_state;
      to->leader_state.verdict_at_ns += later;
    }
    for (reader::Observation seen : from.observations) {
      if (ranks_.contains(seen.rank)) continue;
      if (seen.rank >= 0 && seen.rank < static_cast<int>(now_.size()))
        seen.rank = now_[static_cast<std::size_t>(seen.rank)];
      seen.at_ns += later;
      to->observations.push_back(seen);
    }
  }

  const Job& job_;
  const std::set<int>& ranks_;
  Job left_;
  std::vector<int> now_;                                   // by job rank; -1: it is gone
  std::map<std::uint64_t, std::set<std::uint32_t>> gone_;  // by communicator: ranks in it
};

}  // namespace

absl::StatusOr<Job> LoadJob(const Recording& recording, std::uint64_t most) {
  Job job;
  auto boxes = WholeBoxes(recording, most);
  if (!boxes.ok()) return boxes.status();
  job.boxes = *std::move(boxes);
  int world = 0;
  for (const reader::BoxImage& box : job.boxes) {
    if (box.rank < 0) return absl::UnimplementedError("a process of the recording has no rank");
    world = std::max({world, box.rank + 1, box.world_size});
  }
  for (int rank = 0; rank < world; ++rank) job.was.push_back(rank);
  return job;
}

Job WithoutCalls(const Job& job, const CallSet& calls) {
  Job left = job;
  std::vector<std::set<std::uint64_t>> gone(job.boxes.size());
  for (const auto& [box, slot] : calls) gone[box].insert(slot);
  for (std::size_t i = 0; i < gone.size(); ++i) RemoveCalls(gone[i], &left.boxes[i]);
  return left;
}

Job WithoutRanks(const Job& job, const std::set<int>& ranks) { return RankRemoval(job, ranks).Make(); }

}  // namespace ncclwatch::analyzer
