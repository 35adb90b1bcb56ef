#include "watchdog/diagnosis/rules/mpi/epoch_stores.h"

#include <algorithm>
#include <map>

#include "ncclwatch/format/stores.h"
#include "watchdog/diagnosis/view/mpi_traits.h"

namespace ncclwatch::diagnosis {
namespace {

using format::AccessEpoch;
using functions::Function;
using reader::Call;
using reader::CallParts;

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

  std::optional<StoreConflict> Of(const Member& owner, const CallParts& told) {
    if (!OneThread(view_.process(owner))) return std::nullopt;
    Epoch epoch;
    for (const Member& member : comm_.members)
      if (!Collect(member, owner, told.call.position, &epoch)) return std::nullopt;
    for (const auto& [reader, get] : epoch.gets) {
      const std::optional<Extent> got = ExtentOf(comm_, *get);
      for (const format::Part& part : told.receives) {
        const format::Stored run = format::StoredOf(part);
        const Extent both{std::max<std::uint64_t>(run.begin, got->begin),
                          std::min(std::uint64_t{run.begin} + run.bytes, got->end)};
        if (both.begin >= both.end) continue;
        if ((pairs_ += 1 + epoch.written.size()) > most_pairs_) return std::nullopt;
        if (const std::optional<Extent> own = Outside(both, epoch.written))
          return StoreConflict{&owner, Between(owner, told.call.position).second, reader, get, *own};
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
    bool told_something = !OneThread(view_.process(member));
    for (const Call* call = first + 1; call < last; ++call) {
      if (++pairs_ > most_pairs_) return false;
      if (!IsAccess(*call)) {
        told_something = true;  // a message from the owner, say, that it is done with its stores
        continue;
      }
      if (!IsOn(member, *call) || call->root != static_cast<std::int32_t>(owner.comm->rank)) continue;
      if ((call->result != 0 && call->result != format::kNoResult) || call->count == 0) continue;
      const std::optional<Extent> extent = ExtentOf(comm_, *call);
      if (!extent) return false;
      if (!OnlyReads(*call))
        epoch->written.push_back(*extent);
      else if (&member != &owner && !told_something && static_cast<AccessEpoch>(call->tag) == AccessEpoch::kFence)
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

}  // namespace

std::optional<StoreConflict> FindStoreConflict(const View& view, const CommView& comm, int index,
                                               const WaitGraph& graph, std::uint64_t most_pairs, std::uint64_t* pairs) {
  if (comm.members.size() != comm.size) return std::nullopt;
  Stores stores(view, comm, most_pairs, pairs);
  for (const Member& owner : comm.members) {
    for (const CallParts& told : view.process(owner).box->parts) {
      if (told.call.function != Function::MPI_Win_fence || !IsOn(owner, told.call) || told.call.position == 0) continue;
      if (graph.Explains(index, told.call.position)) continue;
      if (const std::optional<StoreConflict> conflict = stores.Of(owner, told)) return conflict;
    }
  }
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
