#include "analyzer/import/boxes.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "analyzer/import/membership.h"
#include "analyzer/import/notes.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::import {
namespace {

// A file server's clock may run behind the node's.
constexpr std::int64_t kClockSlackNs = std::chrono::nanoseconds(std::chrono::seconds(2)).count();
// No call outlives its timeout by as much: torch ends the process. A file that is younger is a copy.
constexpr std::int64_t kLeastAfterNs = std::chrono::nanoseconds(std::chrono::hours(1)).count();

void DropSecondOfOneRank(std::vector<Dump>* dumps, reader::RunImage* run) {
  std::stable_sort(dumps->begin(), dumps->end(), [](const Dump& a, const Dump& b) { return a.rank < b.rank; });
  std::vector<Dump> kept;
  for (Dump& dump : *dumps) {
    if (!kept.empty() && kept.back().rank == dump.rank)
      run->failures.push_back({dump.path, fmt::format("a second dump of rank {}", dump.rank)});
    else
      kept.push_back(std::move(dump));
  }
  *dumps = std::move(kept);
}

// True if the files' times are those at which the dumps were written.
bool Timed(const std::vector<Dump>& dumps, std::int64_t newest_ns) {
  std::int64_t timeout_ns = 0;
  for (const Dump& dump : dumps) timeout_ns = std::max(timeout_ns, dump.timeout_ns);
  const std::int64_t latest = newest_ns + std::max(2 * timeout_ns, kLeastAfterNs);
  return std::all_of(dumps.begin(), dumps.end(), [&](const Dump& dump) {
    return dump.written_ns >= dump.newest_ns - kClockSlackNs && dump.written_ns <= latest;
  });
}

// Where they are not, all that can be said of a wait is that it was not over.
void SetInstants(std::vector<Dump>* dumps, reader::RunImage* run) {
  std::int64_t newest_ns = 0;
  for (const Dump& dump : *dumps) newest_ns = std::max(newest_ns, dump.newest_ns);
  run->untimed = !Timed(*dumps, newest_ns);
  for (Dump& dump : *dumps) {
    dump.box.heartbeat_ns = run->untimed ? newest_ns + 1 : std::max(dump.written_ns, dump.newest_ns);
    if (run->untimed) dump.box.leader_state.suspect_after_ns = dump.box.leader_state.likely_after_ns = 1;
  }
}

void SetCommunicator(const Group& group, std::int32_t rank, reader::Communicator* communicator) {
  communicator->id = group.id;
  communicator->label = group.label;
  communicator->size = static_cast<std::uint32_t>(group.ranks->size());
  communicator->members = group.ranks;
  const auto place = std::find(group.ranks->begin(), group.ranks->end(), rank);
  if (place == group.ranks->end()) communicator->flags |= format::kCommRankUnknown;
  communicator->rank = static_cast<std::uint32_t>(place - group.ranks->begin());
}

// Without all messages from the first on, a send cannot be matched with its receive by their numbers.
void LeaveMessagesUnmatched(Dump* dump) {
  dump->box.from_summary = true;
  dump->box.peers.clear();
  for (reader::Call& call : dump->box.calls)
    if (!functions::IsCollective(call.function)) call.position = 0;
}

void SetBox(const Membership& membership, Dump* dump) {
  reader::BoxImage& box = dump->box;
  box.dump = true;
  box.rank = dump->rank;
  box.world_size = membership.world_size();
  bool unmatched = false;
  for (std::size_t i = 0; i < dump->groups.size(); ++i) {
    unmatched |= dump->groups[i].unmatched;
    SetCommunicator(membership.Of(*dump, dump->groups[i]), dump->rank, &box.communicators[i]);
  }
  if (!dump->whole() || unmatched) LeaveMessagesUnmatched(dump);
}

// A group that others tell of, and this rank's dump does not: it has not made a call in it yet, if nothing of the
// recorder's ring is lost.
void AddUnusedGroups(const Membership& membership, std::vector<Dump>* dumps) {
  struct Known {
    Dump* dump = nullptr;
    absl::flat_hash_set<std::uint64_t> groups;
  };
  absl::flat_hash_map<std::int32_t, Known> of_rank;
  for (Dump& dump : *dumps) {
    if (!dump.whole()) continue;
    Known& known = of_rank[dump.rank];
    known.dump = &dump;
    for (const reader::Communicator& communicator : dump.box.communicators) known.groups.insert(communicator.id);
  }
  for (const Group& group : membership.groups()) {
    if (group.guessed) continue;
    for (const std::int32_t rank : *group.ranks) {
      const auto known = of_rank.find(rank);
      if (known == of_rank.end() || !known->second.groups.insert(group.id).second) continue;
      std::vector<reader::Communicator>& communicators = known->second.dump->box.communicators;
      reader::Communicator communicator;
      communicator.index = static_cast<std::uint32_t>(communicators.size());
      communicator.state = format::CommunicatorState::kReady;
      SetCommunicator(group, rank, &communicator);
      communicators.push_back(std::move(communicator));
    }
  }
}

// Of a ring that has wrapped, groups without entries: how many calls there were is not known.
void DropGroupsOfLostEntries(Dump* dump) {
  if (dump->whole()) return;
  std::erase_if(dump->box.communicators,
                [&](const reader::Communicator& communicator) { return !dump->groups[communicator.index].used; });
}

// The fingerprints of a group's calls, one after the other, from the first position that every ring still holds.
void SetChains(std::vector<Dump>* dumps) {
  absl::flat_hash_map<std::uint64_t, std::uint64_t> start_of;
  for (const Dump& dump : *dumps) {
    std::vector<char> seen(dump.box.communicators.size(), 0);
    for (const reader::Call& call : dump.box.calls) {
      if (!functions::IsCollective(call.function) || seen[call.communicator]) continue;
      seen[call.communicator] = 1;
      std::uint64_t& start = start_of[dump.box.communicators[call.communicator].id];
      start = std::max(start, call.position);
    }
  }
  for (Dump& dump : *dumps) {
    std::vector<std::uint64_t> start, chain(dump.box.communicators.size(), 0);
    for (const reader::Communicator& communicator : dump.box.communicators) start.push_back(start_of[communicator.id]);
    for (reader::Call& call : dump.box.calls) {
      if (!functions::IsCollective(call.function) || call.position < start[call.communicator]) continue;
      std::uint64_t& last = chain[call.communicator];
      last = call.chain = format::Chain(last, reader::FingerprintOf(call));
    }
  }
}

}  // namespace

void AddBoxes(std::vector<Dump> dumps, reader::RunImage* run) {
  if (dumps.empty()) return;
  DropSecondOfOneRank(&dumps, run);
  const Membership membership(dumps);
  SetInstants(&dumps, run);
  for (Dump& dump : dumps) SetBox(membership, &dump);
  AddUnusedGroups(membership, &dumps);
  SetChains(&dumps);
  for (Dump& dump : dumps) DropGroupsOfLostEntries(&dump);
  AddNotes(dumps, membership, run);
  for (Dump& dump : dumps) run->boxes.push_back(std::move(dump.box));
}

}  // namespace ncclwatch::analyzer::import
