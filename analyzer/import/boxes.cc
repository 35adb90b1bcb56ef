#include "analyzer/import/boxes.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_join.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "analyzer/import/active.h"
#include "analyzer/import/dump.h"
#include "core/model/text.h"
#include "core/reader/layout.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::import {
namespace {

using diagnosis::Plural;
using diagnosis::Ranks;

// Who is in which process group, from all dumps together: a dump tells the ranks of a group only once its own rank has
// made the group's communicator, and gloo's tell them not at all.

struct Group {
  std::uint64_t id = 0;
  std::string label;
  std::shared_ptr<const std::vector<std::int32_t>> ranks;  // job ranks by rank in the group
  bool guessed = false;                                    // those that have entries in it
};

class Membership {
 public:
  explicit Membership(const std::vector<Dump>& dumps);
  const Group& Of(const Dump& dump, const ProcessGroup& group) const;
  const std::vector<Group>& groups() const { return groups_; }
  // Of the group of the whole job, 0 if no dump tells.
  std::int32_t world_size() const { return world_size_; }

 private:
  std::size_t Place(const ProcessGroup& group, const std::vector<std::int32_t>& ranks);

  std::vector<Group> groups_;
  absl::flat_hash_map<std::pair<std::string, std::vector<std::int32_t>>, std::size_t> place_of_;  // by name and ranks
  absl::flat_hash_map<std::pair<std::string, std::int32_t>, std::size_t> reported_;  // by name and a member
  absl::flat_hash_map<std::pair<std::string, std::string>, std::size_t> guessed_;    // by name and description
  std::int32_t world_size_ = 0;
};

constexpr char kWholeJob[] = "default_pg";  // torch's description of the first group

// Equal on every rank; never 0, which means none.
std::uint64_t IdOf(const std::string& name, const std::vector<std::int32_t>& ranks) {
  std::uint64_t id = ranks.size();
  for (const char letter : name) id = format::Mix(id, static_cast<unsigned char>(letter));
  for (const std::int32_t rank : ranks) id = format::Mix(id, static_cast<std::uint32_t>(rank));
  return id == 0 ? 1 : id;
}

std::string LabelOf(const ProcessGroup& group) {
  const bool described = !group.description.empty() && group.description != "undefined";
  return described ? group.name + ":" + group.description : group.name;
}

Membership::Membership(const std::vector<Dump>& dumps) {
  std::int32_t highest = -1;
  std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>> users;
  for (const Dump& dump : dumps) {
    highest = std::max(highest, dump.rank);
    for (const ProcessGroup& group : dump.groups) {
      if (!group.ranks.empty()) Place(group, group.ranks);
      if (!group.ranks.empty() && group.description == kWholeJob)
        world_size_ = std::max(world_size_, static_cast<std::int32_t>(group.ranks.size()));
    }
  }
  for (const Dump& dump : dumps) {
    for (const ProcessGroup& group : dump.groups) {
      if (group.ranks.empty() && !reported_.contains({group.name, dump.rank}))
        users[{group.name, group.description}].push_back(dump.rank);
    }
  }
  if (world_size_ == 0 && highest < static_cast<std::int32_t>(reader::kMaxCommunicatorSize)) world_size_ = highest + 1;
  for (auto& [key, ranks] : users) {
    if (key.second == kWholeJob) {
      ranks.resize(static_cast<std::size_t>(world_size_));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    std::sort(ranks.begin(), ranks.end());
    ProcessGroup group;
    group.name = key.first;
    group.description = key.second;
    const std::size_t place = Place(group, ranks);
    groups_[place].guessed = true;
    guessed_[key] = place;
  }
}

std::size_t Membership::Place(const ProcessGroup& group, const std::vector<std::int32_t>& ranks) {
  const auto [found, fresh] = place_of_.try_emplace({group.name, ranks}, groups_.size());
  if (!fresh) return found->second;
  Group made;
  made.id = IdOf(group.name, ranks);
  made.label = LabelOf(group);
  made.ranks = std::make_shared<const std::vector<std::int32_t>>(ranks);
  groups_.push_back(std::move(made));
  for (const std::int32_t rank : ranks) reported_.try_emplace({group.name, rank}, found->second);
  return found->second;
}

const Group& Membership::Of(const Dump& dump, const ProcessGroup& group) const {
  if (!group.ranks.empty()) return groups_[place_of_.at({group.name, group.ranks})];
  const auto reported = reported_.find({group.name, dump.rank});
  return groups_[reported != reported_.end() ? reported->second : guessed_.at({group.name, group.description})];
}

// What the dumps of one job cannot tell, in sentences for its diagnosis.

std::vector<std::int32_t> RanksWhere(const std::vector<Dump>& dumps, const std::function<bool(const Dump&)>& holds) {
  std::vector<std::int32_t> ranks;
  for (const Dump& dump : dumps)
    if (holds(dump)) ranks.push_back(dump.rank);
  return ranks;
}

// Of calls under way the first of each pair of ranks are partners, however many were over before.
bool AnyUnmatched(const Dump& dump) {
  return std::any_of(dump.groups.begin(), dump.groups.end(), [&](const ProcessGroup& group) {
    return group.anyone || (group.begins_late && !dump.box.active_only);
  });
}

void AddNotes(const std::vector<Dump>& dumps, const Membership& membership, reader::RunImage* run) {
  std::vector<std::string>& notes = run->notes;
  std::set<std::string> versions;
  std::uint64_t unknown = 0;
  for (const Dump& dump : dumps) {
    versions.insert(dump.version);
    unknown += dump.unknown;
  }
  notes.push_back(
      fmt::format("from dumps of torch's flight recorder ({}): they hold no reduction, root or stream, not whether a "
                  "process lives, "
                  "and no call before it is recorded, such as one that blocks in creating a communicator",
                  absl::StrJoin(versions, ", ")));
  notes.push_back("positions count from 0: torch's collective_seq_id is one more");
  if (run->untimed)
    notes.push_back(
        "when the dumps were written is not known, the files' times are not theirs (copy with `cp -p`): "
        "how long a call waited is not known, and no wait is more than suspected");
  if (dumps.front().box.active_only)
    notes.push_back(
        "the dumps hold only calls that were under way: what is missing is over, and a rank without an entry was idle");
  const auto wrapped = RanksWhere(dumps, [](const Dump& dump) { return !dump.whole() && !dump.box.active_only; });
  if (!wrapped.empty())
    notes.push_back(Ranks(wrapped) +
                    ": the recorder's ring has wrapped: earlier calls are lost, and sends and "
                    "receives are not matched (TORCH_FR_BUFFER_SIZE makes it larger)");
  const auto unmatched = RanksWhere(dumps, AnyUnmatched);
  if (!unmatched.empty())
    notes.push_back(
        Ranks(unmatched) +
        ": receives from any rank, or messages before the first one recorded: sends and receives are not matched");
  for (const Group& group : membership.groups())
    if (group.guessed)
      notes.push_back(fmt::format("process group \"{}\": no dump tells its ranks; taken to be {}", group.label,
                                  Ranks(*group.ranks)));
  if (unknown > 0) notes.push_back(Plural(unknown, "call") + " of operations that are not known here: not compared");
}

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

// torch tells how much a rank sends to all, NCCL is given how much it sends to each.
void DivideAmongRanks(reader::BoxImage* box) {
  for (reader::Call& call : box->calls)
    if (format::Canonical(call.function) == functions::Function::ncclAlltoAll)
      call.count /= std::max<std::uint32_t>(box->communicators[call.communicator].size, 1);
}

void SetBox(const Membership& membership, Dump* dump) {
  reader::BoxImage& box = dump->box;
  box.dump = true;
  box.rank = dump->rank;
  box.world_size = membership.world_size();
  for (std::size_t i = 0; i < dump->groups.size(); ++i)
    SetCommunicator(membership.Of(*dump, dump->groups[i]), dump->rank, &box.communicators[i]);
  DivideAmongRanks(&box);
  const bool wrapped = !dump->whole() && !box.active_only;
  if (wrapped || AnyUnmatched(*dump)) LeaveMessagesUnmatched(dump);
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
  if (dump->whole() || dump->box.active_only) return;
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
    for (std::size_t i = 0; i < dump.box.calls.size(); ++i) {
      reader::Call& call = dump.box.calls[i];
      if (!functions::IsCollective(call.function) || call.position < start[call.communicator]) continue;
      reader::Call compared = call;
      if (dump.by_rank[i]) compared.count = 0, compared.dtype = format::kNoType;
      std::uint64_t& last = chain[call.communicator];
      last = call.chain = format::Chain(last, reader::FingerprintOf(compared));
    }
  }
}

}  // namespace

void AddBoxes(std::vector<Dump> dumps, reader::RunImage* run) {
  if (dumps.empty()) return;
  DropSecondOfOneRank(&dumps, run);
  const Membership membership(dumps);
  SetInstants(&dumps, run);
  const bool active_only = AreActiveOnly(dumps);
  for (Dump& dump : dumps) {
    dump.box.active_only = active_only;
    SetBox(membership, &dump);
  }
  if (active_only) SetProgressOfActiveOnly(&dumps);
  AddUnusedGroups(membership, &dumps);
  SetChains(&dumps);
  for (Dump& dump : dumps) DropGroupsOfLostEntries(&dump);
  AddNotes(dumps, membership, run);
  for (Dump& dump : dumps) run->boxes.push_back(std::move(dump.box));
}

}  // namespace ncclwatch::analyzer::import
