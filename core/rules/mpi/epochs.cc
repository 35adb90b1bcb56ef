// epoch_error of accesses that contradict one another: to the same memory of a window, at least one of them changes it,
// and no synchronization comes between them. Loads of the memory's owner are seen by nobody, its stores only where they
// are watched (epoch_stores.h).

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/model/text.h"
#include "core/mpi/accesses.h"
#include "core/mpi/epochs.h"
#include "core/rules/rules.h"
#include "core/view/mpi_traits.h"
#include "core/waits/waits.h"
#include "ncclwatch/format/stores.h"

namespace ncclwatch::diagnosis {
namespace {

using format::AccessEpoch;
using functions::Function;
using reader::Call;
using reader::CallParts;

// What the owner of a window's memory has changed itself between two fences (format/stores.h), and another rank has got
// between the same two.

struct StoreConflict {
  const Member* owner = nullptr;
  const reader::Call* fence = nullptr;  // the owner's, that ends the epoch
  const Member* reader = nullptr;
  const reader::Call* get = nullptr;
  Extent both;  // what has changed of what was got, the first of it
};

bool IsOn(const Member& member, const Call& call) {
  return call.communicator == member.comm->index && call.generation == member.comm->generation;
}

// The accesses of all ranks to one rank's memory between two fences.
struct Epoch {
  std::vector<Extent> written;
  std::vector<std::pair<const Member*, const Call*>> gets;  // that nothing orders after what the owner does
};

// The first part of it that lies in none of the others.
std::optional<Extent> Outside(Extent all, std::vector<Extent> others) {
  std::sort(others.begin(), others.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (const Extent& other : others) {
    if (other.begin > all.begin) break;
    all.begin = std::max(all.begin, other.end);
  }
  if (all.begin >= all.end) return std::nullopt;
  for (const Extent& other : others)
    if (other.begin > all.begin) all.end = std::min(all.end, other.begin);
  return all;
}

class Stores {
 public:
  Stores(const View& view, const CommView& comm, std::uint64_t most_pairs, std::uint64_t* pairs)
      : view_(view), comm_(comm), most_pairs_(most_pairs), pairs_(*pairs) {}

  std::optional<StoreConflict> Of(const Member& owner, const CallParts& reported) {
    if (!OneThread(view_.process(owner))) return std::nullopt;
    Epoch epoch;
    for (const Member& member : comm_.members)
      if (!Collect(member, owner, reported.call.position, &epoch)) return std::nullopt;
    for (const auto& [reader, get] : epoch.gets) {
      const std::optional<Extent> got = ExtentOf(comm_, *get);
      for (const format::Part& part : reported.receives) {
        const format::Stored run = format::StoredOf(part);
        const Extent both{std::max<std::uint64_t>(run.begin, got->begin),
                          std::min(std::uint64_t{run.begin} + run.bytes, got->end)};
        if (both.begin >= both.end) continue;
        if ((pairs_ += 1 + epoch.written.size()) > most_pairs_) return std::nullopt;
        if (const std::optional<Extent> own = Outside(both, epoch.written))
          return StoreConflict{&owner, Between(owner, reported.call.position).second, reader, get, *own};
      }
    }
    return std::nullopt;
  }

 private:
  // False: not all that the member has done to the owner's memory in the epoch is known.
  bool Collect(const Member& member, const Member& owner, std::uint64_t position, Epoch* epoch) {
    const auto [first, last] = Between(member, position);
    if (first == nullptr || last == nullptr) return false;
    if (static_cast<std::uint64_t>(last - first) != last->slot - first->slot) return false;  // something was lost
    bool reported_something = !OneThread(view_.process(member));
    for (const Call* call = first + 1; call < last; ++call) {
      if (++pairs_ > most_pairs_) return false;
      if (!IsAccess(*call)) {
        reported_something = true;  // a message from the owner, say, that it is done with its stores
        continue;
      }
      if (!IsOn(member, *call) || call->root != static_cast<std::int32_t>(owner.comm->rank)) continue;
      if ((call->result != 0 && call->result != format::kNoResult) || call->count == 0) continue;
      const std::optional<Extent> extent = ExtentOf(comm_, *call);
      if (!extent) return false;
      if (!OnlyReads(*call))
        epoch->written.push_back(*extent);
      else if (&member != &owner && !reported_something && static_cast<AccessEpoch>(call->tag) == AccessEpoch::kFence)
        epoch->gets.emplace_back(&member, call);
    }
    return true;
  }

  // The member's fences that begin and end the epoch; null: the ring has lost it, or it has not come there yet.
  std::pair<const Call*, const Call*> Between(const Member& member, std::uint64_t position) {
    const auto known = fences_.try_emplace(&member);
    auto& fences = known.first->second;
    if (known.second)
      for (const Call& call : view_.process(member).box->calls)
        if (call.function == Function::MPI_Win_fence && IsOn(member, call)) fences[call.position] = &call;
    const auto at = [&](std::uint64_t wanted) {
      const auto found = fences.find(wanted);
      return found == fences.end() ? nullptr : found->second;
    };
    return {at(position - 1), at(position)};
  }

  const View& view_;
  const CommView& comm_;
  const std::uint64_t most_pairs_;
  std::uint64_t& pairs_;
  std::map<const Member*, std::map<std::uint64_t, const Call*>> fences_;
};

// The first one, in the order of the owner's records. `pairs` counts what was compared.
std::optional<StoreConflict> FindStoreConflict(const View& view, const CommView& comm, int index,
                                               const WaitGraph& graph, std::uint64_t most_pairs, std::uint64_t* pairs) {
  if (comm.members.size() != comm.size) return std::nullopt;
  Stores stores(view, comm, most_pairs, pairs);
  for (const Member& owner : comm.members) {
    for (const CallParts& reported : view.process(owner).box->parts) {
      if (reported.call.function != Function::MPI_Win_fence || !IsOn(owner, reported.call) ||
          reported.call.position == 0)
        continue;
      if (graph.Explains(index, reported.call.position)) continue;
      if (const std::optional<StoreConflict> conflict = stores.Of(owner, reported)) return conflict;
    }
  }
  return std::nullopt;
}

constexpr std::uint64_t kMostPairs = 4'000'000;  // compared in one diagnosis: what is beyond is not said

// Completes accesses of its caller at the target.
bool Completes(const Call& call, const Call& access) {
  switch (call.function) {
    case Function::MPI_Win_flush:
    case Function::MPI_Win_flush_local:
    case Function::MPI_Win_unlock: return call.root == access.root;
    case Function::MPI_Win_flush_all:
    case Function::MPI_Win_flush_local_all:
    case Function::MPI_Win_unlock_all: return true;
    default: return false;
  }
}

struct Access {
  const Member* member = nullptr;
  const Call* call = nullptr;
  std::uint64_t begin = 0, end = 0;  // bytes in the target's memory
  std::int64_t from_ns = 0, until_ns = INT64_MAX;

  AccessEpoch epoch() const { return static_cast<AccessEpoch>(call->tag); }
};

enum class EpochClash { kNone, kOperators, kAccesses };

EpochClash EpochClashOf(const Call& a, const Call& b, bool same_rank) {
  const Does one = WhatItDoes(a), other = WhatItDoes(b);
  if (one == Does::kUpdates && other == Does::kUpdates) {
    const bool free = a.reduction == b.reduction || a.reduction == NoOperator() || b.reduction == NoOperator() ||
                      a.reduction == format::kNoReduction || b.reduction == format::kNoReduction;
    return same_rank || free ? EpochClash::kNone : EpochClash::kOperators;
  }
  return OnlyReads(a) && OnlyReads(b) ? EpochClash::kNone : EpochClash::kAccesses;
}

// Benchmarks put the same data to the same place again and again: whichever comes last, that is what is there.
bool IsRepeated(const Access& a, const Access& b) {
  return WhatItDoes(*a.call) == Does::kWrites && WhatItDoes(*b.call) == Does::kWrites && a.call->site == b.call->site &&
         a.begin == b.begin && a.end == b.end && a.call->dtype == b.call->dtype;
}

struct Conflict {
  Access first, second;
  EpochClash clash = EpochClash::kNone;
  bool by_time = false;  // that nothing orders them is known from the clock alone
  std::int64_t began_ns = 0;
};

class Window {
 public:
  Window(const View& view, const CommView& comm, int index, const WaitGraph& graph, std::uint64_t* pairs)
      : view_(view), comm_(comm), index_(index), graph_(graph), pairs_(*pairs) {
    for (const Member& member : comm.members) Collect(member);
  }

  std::optional<Conflict> First() {
    for (auto& [key, accesses] : groups_) Sweep(&accesses, std::get<0>(key) == kByTime);
    return first_;
  }

 private:
  // What may clash: of all ranks in one epoch of fences, or of MPI_Win_post, of all that hold shared locks, of one
  // rank between two synchronizations of its own.
  enum Group { kFence, kExposed, kByTime, kOwn };
  using Key = std::tuple<Group, std::int32_t, std::uint64_t, std::uint32_t, std::uint32_t>;

  void Collect(const Member& member) {
    const Process& process = view_.process(member);
    const std::vector<Call>& calls = process.box->calls;
    std::vector<Access> open;  // of shared locks: when they are over is told by a later call
    for (const Call& call : calls) {
      if (call.communicator != member.comm->index || call.generation != member.comm->generation) continue;
      std::erase_if(open, [&](Access& access) {
        if (!Completes(call, *access.call)) return false;
        if (call.returned_ns != 0) access.until_ns = std::min(access.until_ns, process.At(call.returned_ns));
        groups_[{kByTime, access.call->root, 0, 0, 0}].push_back(access);
        return true;
      });
      if (!IsAccess(call)) continue;
      if (const std::optional<Access> access = Make(member, call)) Add(*access, &open);
    }
    for (const Access& access : open) groups_[{kByTime, access.call->root, 0, 0, 0}].push_back(access);
  }

  std::optional<Access> Make(const Member& member, const Call& call) const {
    if (call.result != 0 && call.result != format::kNoResult) return std::nullopt;
    const std::optional<Extent> extent = ExtentOf(comm_, call);
    if (!extent) return std::nullopt;
    const Process& process = view_.process(member);
    Access access{&member, &call, extent->begin, extent->end, process.At(call.entered_ns), INT64_MAX};
    if (call.completed_ns != 0) access.until_ns = process.At(call.completed_ns);
    return access;
  }

  void Add(const Access& access, std::vector<Access>* open) {
    const Call& call = *access.call;
    const auto epoch = access.epoch();
    if (epoch == AccessEpoch::kNone || graph_.Explains(index_, call.position)) return;
    if (epoch == AccessEpoch::kFence) {
      groups_[{kFence, call.root, call.position, 0, 0}].push_back(access);
      return;
    }
    groups_[{kOwn, call.root, call.position, access.member->comm->rank, call.signature}].push_back(access);
    if (epoch == AccessEpoch::kShared) open->push_back(access);
    if (epoch == AccessEpoch::kStarted)
      if (const std::uint64_t exposure = ExposureOf(access); exposure != 0)
        groups_[{kExposed, call.root, exposure, 0, 0}].push_back(access);
  }

  // Which of its target's epochs of MPI_Win_post it falls into; 0: that is not known.
  std::uint64_t ExposureOf(const Access& access) {
    if (epochs_.empty()) epochs_ = EpochsOf(view_, comm_);
    const Member* target = comm_.OfRank(static_cast<std::uint32_t>(access.call->root));
    if (target == nullptr) return 0;
    const Epochs& own = epochs_[static_cast<std::size_t>(access.member - comm_.members.data())];
    const Epochs& theirs = epochs_[static_cast<std::size_t>(target - comm_.members.data())];
    if (!own.known() || !theirs.known()) return 0;
    return theirs.ExposureOf(access.member->comm->rank, own.StartOf(*access.call));
  }

  // Each with those before it that reach into it.
  void Sweep(std::vector<Access>* accesses, bool by_time) {
    const auto from = [&](const Access& a) { return by_time ? a.from_ns : static_cast<std::int64_t>(a.begin); };
    const auto until = [&](const Access& a) { return by_time ? a.until_ns : static_cast<std::int64_t>(a.end); };
    std::sort(accesses->begin(), accesses->end(), [&](const Access& a, const Access& b) {
      return std::make_tuple(from(a), a.member->comm->rank, a.call->slot) <
             std::make_tuple(from(b), b.member->comm->rank, b.call->slot);
    });
    std::vector<const Access*> active;
    for (const Access& access : *accesses) {
      std::erase_if(active, [&](const Access* one) { return until(*one) <= from(access); });
      for (const Access* one : active) {
        if (++pairs_ > kMostPairs) return;
        Compare(*one, access, by_time);
      }
      // A thousand that add to one counter are as good as one.
      const bool again = !by_time && std::any_of(active.begin(), active.end(), [&](const Access* one) {
        return one->member == access.member && one->begin == access.begin && one->end == access.end &&
               one->call->function == access.call->function && one->call->reduction == access.call->reduction;
      });
      if (!again) active.push_back(&access);
    }
  }

  void Compare(const Access& a, const Access& b, bool by_time) {
    if (a.end <= b.begin || b.end <= a.begin) return;
    const bool same_rank = a.member == b.member;
    if (by_time && (same_rank || !OneClock(a, b))) return;
    if (same_rank && (Ordered(a, b) || IsRepeated(a, b))) return;
    const EpochClash clash = EpochClashOf(*a.call, *b.call, same_rank);
    if (clash == EpochClash::kNone) return;
    const std::int64_t began = std::max(a.from_ns, b.from_ns);
    if (!first_ || began < first_->began_ns) first_ = Conflict{a, b, clash, by_time, began};
  }

  bool OneClock(const Access& a, const Access& b) const {
    return view_.process(*a.member).box->boot_id == view_.process(*b.member).box->boot_id;
  }
  // The one was waited for before the other was called.
  static bool Ordered(const Access& a, const Access& b) { return a.until_ns <= b.from_ns || b.until_ns <= a.from_ns; }

  const View& view_;
  const CommView& comm_;
  const int index_;
  const WaitGraph& graph_;
  std::vector<Epochs> epochs_;  // once they are asked for
  std::uint64_t& pairs_;
  std::map<Key, std::vector<Access>> groups_;
  std::optional<Conflict> first_;
};

int JobRankOf(const View& view, const CommView& comm, std::int32_t rank) {
  return view.JobRank(comm, static_cast<std::uint32_t>(rank));
}

CallSummary Side(const View& view, const CommView& comm, const Access& access) {
  CallSummary summary = DescribeCall(view, comm, *access.member, access.call->position, access.call);
  summary.state = access.call->returned_ns == 0 ? CallState::kEntered : CallState::kReturned;
  summary.root.reset();
  summary.peer = PeerName{access.call->root, JobRankOf(view, comm, access.call->root)};
  return summary;
}

std::string SideText(const CallSummary& side, const Access& access) {
  CallSummary call = side;
  call.peer.reset();
  return Ranks(side.ranks) + " calls MPI_" + CallText(call) + " on bytes " + std::to_string(access.begin) + " to " +
         std::to_string(access.end - 1) + (side.site_text ? ", at " + *side.site_text : "");
}

// Where and by whom, of a finding about two ranks of a window.
Finding Begin(const View& view, const CommView& comm, std::initializer_list<const Member*> members,
              std::int64_t at_ns) {
  Finding finding;
  finding.kind = Kind::kEpochError;
  std::vector<int> ranks;
  for (const Member* member : members)
    if (member->node >= 0) ranks.push_back(view.nodes[member->node].rank);
  AddCulprits(view, SortedUnique(std::move(ranks)), &finding);
  finding.communicator = DescribeComm(comm);
  finding.began_at_ns = ToRealtime(view, at_ns);
  return finding;
}

Finding Explain(const View& view, const CommView& comm, const Conflict& conflict) {
  const Access &a = conflict.first, &b = conflict.second;
  Finding finding = Begin(view, comm, {a.member, b.member}, conflict.began_ns);
  const bool in_order = OneThread(view.process(*a.member)) && OneThread(view.process(*b.member));
  const bool certain = conflict.clash == EpochClash::kAccesses && !conflict.by_time && in_order;
  finding.certainty = certain ? Certainty::kCertain : Certainty::kLikely;
  finding.calls = {Side(view, comm, a), Side(view, comm, b)};
  const std::string target = Ranks({JobRankOf(view, comm, a.call->root)});
  const std::uint64_t from = std::max(a.begin, b.begin), until = std::min(a.end, b.end);
  const std::string both = a.member == b.member ? " accesses" : " access";
  finding.summary = fmt::format("{}{} the same {} of {}'s memory in {}{}, and nothing orders the two accesses: {}",
                                Capital(Ranks(finding.culprits)), both, Plural(until - from, "byte"), target,
                                CommText(comm), a.member == b.member ? " twice" : "",
                                conflict.clash == EpochClash::kOperators ? "they accumulate with different operators."
                                                                         : "the result is undefined.");
  finding.evidence = {SideText(finding.calls[0], a), SideText(finding.calls[1], b)};
  if (a.epoch() == AccessEpoch::kFence && b.epoch() == AccessEpoch::kFence)
    finding.evidence.emplace_back("both lie between the same two calls of MPI_Win_fence");
  else if (conflict.by_time)
    finding.evidence.emplace_back("both hold shared locks, and one was called before the other had completed");
  else if (a.member != b.member)
    finding.evidence.emplace_back("both lie in one epoch, which their target opened with MPI_Win_post");
  else
    finding.evidence.emplace_back("no call between them completes the first");
  finding.next_steps = {
      "put a synchronization between the two (a fence, a flush and a message, an exclusive lock), or let both "
      "accumulate with one operator"};
  return finding;
}

std::string BytesText(const Extent& extent) {
  if (extent.end - extent.begin == 1) return "byte " + std::to_string(extent.begin);
  return "bytes " + std::to_string(extent.begin) + " to " + std::to_string(extent.end - 1);
}

// Something that MPI does not see may have ordered them.
Finding Explain(const View& view, const CommView& comm, const StoreConflict& conflict) {
  const std::int64_t entered = view.process(*conflict.reader).At(conflict.get->entered_ns);
  Finding finding = Begin(view, comm, {conflict.owner, conflict.reader}, entered);
  finding.certainty = Certainty::kLikely;
  const Extent got = *ExtentOf(comm, *conflict.get);
  const Access get{conflict.reader, conflict.get, got.begin, got.end, entered, INT64_MAX};
  CallSummary fence = DescribeCall(view, comm, *conflict.owner, conflict.fence->position, conflict.fence);
  finding.calls = {Side(view, comm, get), fence};
  const std::string owner = Ranks(fence.ranks), reader = Ranks(finding.calls[0].ranks);
  const bool one = conflict.both.end - conflict.both.begin == 1;  // byte
  finding.summary = fmt::format(
      "{0} changes its own memory in {1}, and {2} gets that memory between the same two calls of MPI_Win_fence: it is "
      "undefined whether {2} gets the old or the new content.",
      Capital(owner), CommText(comm), reader);
  finding.evidence = {
      SideText(finding.calls[0], get),
      fmt::format("{} of {}'s memory differ{} between the two calls of MPI_Win_fence{}, and no access of a rank has "
                  "changed {}",
                  BytesText(conflict.both), owner, one ? "s" : "",
                  fence.site_text ? ", the second at " + *fence.site_text : "", one ? "it" : "them"),
      fmt::format("between the first fence and its access {} makes no call that could have told it of the change",
                  reader)};
  finding.next_steps = {"put a fence between the stores of " + owner +
                        " into its window and the accesses that read them"};
  return finding;
}

}  // namespace

std::vector<Finding> FindEpochConflicts(const Facts& facts) {
  const View& view = facts.view;
  const WaitGraph& graph = facts.graph;
  std::vector<Finding> findings;
  std::uint64_t pairs = 0;
  for (std::size_t c = 0; c < view.comms.size(); ++c) {
    const CommView& comm = view.comms[c];
    if (!IsWindow(comm) || !comm.comparable) continue;
    const std::optional<Conflict> first = Window(view, comm, static_cast<int>(c), graph, &pairs).First();
    if (first) {
      findings.push_back(Explain(view, comm, *first));
      continue;
    }
    const auto stored = FindStoreConflict(view, comm, static_cast<int>(c), graph, kMostPairs, &pairs);
    if (stored) findings.push_back(Explain(view, comm, *stored));
  }
  return findings;
}

}  // namespace ncclwatch::diagnosis
