#include "watchdog/diagnosis/follow/loop.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "watchdog/diagnosis/compare/period.h"
#include "watchdog/diagnosis/compare/steps.h"
#include "watchdog/reader/load.h"

namespace ncclwatch::diagnosis {
namespace {

using reader::Call;
using reader::Load;
using reader::MappedBox;

struct Calls {
  std::vector<Call> calls;
  std::vector<std::uint64_t> ids;  // of their communicators
};

Calls NewestCalls(const MappedBox& box, std::uint64_t most) {
  Calls all;
  const std::uint64_t head = box.head();
  Call call;
  for (std::uint64_t slot = head - std::min({head, most, box.ring_size()}); slot < head; ++slot) {
    if (!box.Read(slot, &call) || IsError(call)) continue;
    if (!IsMessage(call) && !functions::IsCollective(call.function)) continue;
    const std::uint64_t id = IdentityOf(box, call.communicator, call.generation);
    if (id == 0) continue;
    all.calls.push_back(call);
    all.ids.push_back(id);
  }
  return all;
}

// Of the block the collectives that count a step, on the communicator that all ranks choose alike.
std::optional<Loop> LoopOf(const MappedBox& box, const Calls& all, const Period& period, bool sure) {
  struct Counted {
    std::uint32_t size = 0;
    std::uint64_t each = 0;
  };
  std::unordered_map<std::uint64_t, Counted> counts;
  for (std::size_t i = period.block; i < period.block + period.length; ++i) {
    const Call& call = all.calls[i];
    if (IsMessage(call) || (call.flags & (format::kEmpty | format::kOneRank)) != 0) continue;
    Counted& counted = counts[all.ids[i]];
    counted.size = Load(box.communicator(call.communicator).size);
    ++counted.each;
  }
  std::optional<Loop> loop;
  std::tuple<std::uint32_t, std::uint64_t, std::uint64_t> best;
  for (const auto& [id, counted] : counts) {
    const auto key = std::make_tuple(counted.size, counted.each, id);
    if (loop && key <= best) continue;
    best = key;
    loop = Loop{id, counted.size, counted.each, sure};
  }
  return loop;
}

}  // namespace

std::uint64_t IdentityOf(const MappedBox& box, std::uint32_t index, std::uint32_t generation) {
  if (index >= box.communicators()) return 0;
  const format::Communicator& entry = box.communicator(index);
  const bool known = (Load(entry.flags) & (format::kCommIdentityUnknown | format::kCommGrown)) == 0;
  return known && Load(entry.generation) == generation ? Load(entry.id) : 0;
}

std::optional<Loop> FindLoop(const MappedBox& box, std::uint64_t most) {
  const Calls all = NewestCalls(box, most);
  for (const Layers layers : {Layers::kAreNoSteps, Layers::kMayBeSteps}) {
    for (const bool counts : {true, false}) {
      std::vector<Symbol> symbols;
      for (std::size_t i = 0; i < all.calls.size(); ++i) symbols.push_back(SymbolOf(all.calls[i], all.ids[i], counts));
      const std::optional<Period> period = FindPeriod(symbols, layers);
      // One function called over and over with whatever sizes: its calls need not be steps.
      const bool sure = layers == Layers::kAreNoSteps && (counts || (period && period->length > 1));
      if (period) return LoopOf(box, all, *period, sure);
    }
  }
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
