#include "analyzer/shrink/units.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "analyzer/replay/program.h"
#include "core/calls/mpi_message.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using functions::Function;

bool Stays(const reader::Call& call) {
  const functions::FunctionInfo* const info = functions::Find(call.function);
  return info && (info->family == Family::kCreation || info->family == Family::kLife);
}

using CommKey = std::pair<std::uint32_t, std::uint32_t>;
using OnCommunicators = absl::flat_hash_map<CommKey, const reader::Communicator*>;

OnCommunicators CommunicatorsOf(const reader::BoxImage& box) {
  OnCommunicators on;
  for (const reader::Communicator& one : box.communicators) on[{one.index, one.generation}] = &one;
  return on;
}

const reader::Communicator* On(const OnCommunicators& on, const reader::Call& call) {
  const auto found = on.find({call.communicator, call.generation});
  return found == on.end() ? nullptr : found->second;
}

// Calls by their number in the job; which of them belong together.
class Together {
 public:
  explicit Together(const Job& job) {
    std::size_t calls = 0;
    for (const reader::BoxImage& box : job.boxes) {
      first_.push_back(calls);
      calls += box.calls.size();
    }
    of_.resize(calls);
    std::iota(of_.begin(), of_.end(), std::size_t{0});
  }
  std::size_t NumberOf(std::size_t box, std::uint64_t slot) const { return first_[box] + slot; }
  std::size_t RootOf(std::size_t number) {
    while (of_[number] != number) number = of_[number] = of_[of_[number]];
    return number;
  }
  void Join(std::size_t one, std::size_t other) { of_[RootOf(one)] = RootOf(other); }

 private:
  std::vector<std::size_t> first_, of_;
};

class CallGrouper {
 public:
  explicit CallGrouper(const Job& job) : job_(job), together_(job) {}

  std::vector<Unit> Make() {
    for (std::size_t box = 0; box < job_.boxes.size(); ++box) Add(box);
    std::map<std::size_t, std::pair<std::int64_t, Unit>> units;
    for (std::size_t box = 0; box < job_.boxes.size(); ++box)
      for (const reader::Call& call : job_.boxes[box].calls) {
        if (Stays(call)) continue;
        const std::int64_t at_ns = call.entered_ns + job_.boxes[box].realtime_minus_monotonic_ns;
        auto& [first_ns, unit] =
            units.try_emplace(together_.RootOf(together_.NumberOf(box, call.slot)), at_ns, Unit()).first->second;
        first_ns = std::min(first_ns, at_ns);
        unit.insert({box, call.slot});
      }
    std::vector<std::pair<std::int64_t, Unit>> ordered;
    for (auto& [root, unit] : units) ordered.push_back(std::move(unit));
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Unit> all;
    for (auto& [at_ns, unit] : ordered) all.push_back(std::move(unit));
    return all;
  }

 private:
  void Add(std::size_t box) {
    const OnCommunicators on = CommunicatorsOf(job_.boxes[box]);
    std::vector<std::uint64_t> open;  // groups
    for (const reader::Call& call : job_.boxes[box].calls) {
      const std::size_t number = together_.NumberOf(box, call.slot);
      if (call.function == Function::ncclGroupStart) open.push_back(call.slot);
      if (call.function == Function::ncclGroupEnd && !open.empty()) {
        together_.Join(number, together_.NumberOf(box, open.back()));
        open.pop_back();
      }
      const bool exchange = functions::IsMpi(call.function) && IsExchange(call.function);
      if (exchange && call.group != 0 && call.group - 1 < call.slot)
        together_.Join(number, together_.NumberOf(box, call.group - 1));
      if (const reader::Communicator* const comm = On(on, call)) AddOn(*comm, call, number);
    }
  }

  void AddOn(const reader::Communicator& comm, const reader::Call& call, std::size_t number) {
    if (functions::IsMessage(call.function)) return AddMessage(comm, call, number);
    if (!functions::IsCollective(call.function) || call.position == format::kNotMatched) return;
    const auto [found, made] = collectives_.try_emplace({comm.id, call.position}, number);
    if (!made) together_.Join(number, found->second);
  }

  // The n-th from one to the other, of one tag, meets the n-th there.
  void AddMessage(const reader::Communicator& comm, const reader::Call& call, std::size_t number) {
    if (call.root < 0) return;
    const bool sends = call.function == Function::ncclSend || diagnosis::IsSend(call);
    const auto own = static_cast<std::int32_t>(comm.rank);
    const auto key =
        sends ? std::tuple(comm.id, own, call.root, call.tag) : std::tuple(comm.id, call.root, own, call.tag);
    auto& [waiting_sends, waiting_receives] = messages_[key];
    auto& partners = sends ? waiting_receives : waiting_sends;
    if (partners.empty()) {
      (sends ? waiting_sends : waiting_receives).push_back(number);
      return;
    }
    together_.Join(number, partners.front());
    partners.pop_front();
  }

  const Job& job_;
  Together together_;
  absl::flat_hash_map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> collectives_;  // communicator, position
  std::map<std::tuple<std::uint64_t, std::int32_t, std::int32_t, std::int32_t>,
           std::pair<std::deque<std::size_t>, std::deque<std::size_t>>>
      messages_;
};

// A communicator of a launcher or an id of its own, or what one split has made.
using Origin = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // id, or parent and ordinal

Origin OriginOf(const reader::Communicator& one) {
  return one.parent == 0 ? Origin(one.id, 0, 0) : Origin(0, one.parent, one.parent_ordinal);
}

}  // namespace

bool IsExchange(Function function) { return functions::FullName(function).find("endrecv") != std::string_view::npos; }

std::vector<Unit> CallUnits(const Job& job) { return CallGrouper(job).Make(); }

std::vector<Unit> CommunicatorUnits(const Job& job) {
  std::map<Origin, std::set<std::uint64_t>> made;
  for (const reader::BoxImage& box : job.boxes)
    for (const reader::Communicator& one : box.communicators)
      if (one.parent != 0 || (one.flags & format::kCommMpi) == 0) made[OriginOf(one)].insert(one.id);
  std::vector<Unit> units;
  for (const auto& [origin, ids] : made) {
    std::set<std::uint64_t> all = ids;
    for (std::size_t before = 0; before != all.size();) {
      before = all.size();
      for (const auto& [other, children] : made)
        if (all.contains(std::get<1>(other))) all.insert(children.begin(), children.end());
    }
    Unit& unit = units.emplace_back();
    for (std::size_t box = 0; box < job.boxes.size(); ++box) {
      const OnCommunicators on = CommunicatorsOf(job.boxes[box]);
      for (const reader::Call& call : job.boxes[box].calls) {
        const reader::Communicator* const comm = On(on, call);
        if (!comm) continue;
        const bool makes =
            MakesFromParent(call) && comm->id == std::get<1>(origin) && call.position == std::get<2>(origin);
        if (all.contains(comm->id) || makes) unit.insert({box, call.slot});
      }
    }
  }
  return units;
}

}  // namespace ncclwatch::analyzer
