#include "core/steps/period.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kRepetitions = 3;   // twice may be chance
constexpr std::size_t kMostLayers = 256;  // that one step has

std::vector<Stretch> Stretches(const std::vector<Symbol>& symbols, std::size_t length) {
  std::vector<Stretch> stretches;
  std::size_t begin = 0;
  for (std::size_t i = length; i <= symbols.size(); ++i) {
    if (i < symbols.size() && symbols[i].call == symbols[i - length].call) continue;
    if (i - begin >= 2 * length) stretches.push_back({begin, i, 0});
    begin = i + 1 - length;
  }
  return stretches;
}

// One layer of a model, or one batch on its way through a pipeline: it makes few different collectives, and none of a
// loss or a norm. The first step of a training looks like a training of such steps until it ends.
bool MayBeLayer(const std::vector<Symbol>& symbols, const Period& period) {
  constexpr std::size_t kFew = 4;  // an AllGather and a ReduceScatter each for two sizes
  std::unordered_set<std::uint64_t> collectives;
  bool any_heavy = false, any_light = false;
  for (std::size_t i = period.block; i < period.block + period.length; ++i) {
    if (!symbols[i].message) collectives.insert(symbols[i].call);
    any_heavy = any_heavy || symbols[i].heavy;
    any_light = any_light || !symbols[i].heavy;
  }
  return collectives.size() <= kFew && !(any_heavy && any_light);
}

// The stretches that repeat the block of the longest one, each with its phase.
std::optional<Period> PeriodOf(const std::vector<Symbol>& symbols, std::size_t length, Layers layers) {
  const std::vector<Stretch> all = Stretches(symbols, length);
  if (all.empty()) return std::nullopt;
  const auto longest = std::max_element(
      all.begin(), all.end(), [](const Stretch& a, const Stretch& b) { return a.end - a.begin < b.end - b.begin; });
  if (longest->end - longest->begin < kRepetitions * length) return std::nullopt;
  Period period{length, longest->begin, {}};
  std::size_t covered = 0, reached = 0;
  for (Stretch stretch : all) {
    const std::vector<std::size_t> at =
        Occurrences(symbols, period.block, length, stretch.begin, stretch.begin + 2 * length - 1);
    if (at.empty()) continue;
    stretch.phase = (length - (at.front() - stretch.begin)) % length;
    covered += stretch.end - std::max(reached, stretch.begin);  // neighbours may share less than a period
    reached = stretch.end;
    period.stretches.push_back(stretch);
  }
  const std::size_t since = symbols.size() - period.stretches.front().begin;
  const bool most = 4 * covered >= 3 * since && 2 * covered > symbols.size();
  const bool too_few = layers == Layers::kAreNoSteps && covered < kMostLayers * length;
  if (!most || (too_few && MayBeLayer(symbols, period))) return std::nullopt;
  return period;
}

// What is called again and again, as far as it moves data: the calls and the communicators.
struct Recurring {
  std::unordered_set<std::uint64_t> calls, communicators;
};

Recurring RecurringIn(const std::vector<Symbol>& symbols) {
  struct Seen {
    std::size_t count = 0, last = 0;
  };
  std::unordered_map<std::uint64_t, Seen> seen;
  bool any_heavy = false;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    Seen& own = seen[symbols[i].call];
    ++own.count;
    own.last = i;
    any_heavy = any_heavy || symbols[i].heavy;
  }
  Recurring recurring;
  for (const Symbol& symbol : symbols) {
    const Seen& own = seen[symbol.call];
    // What ended before the last third belongs to the preparations.
    if (own.count < 2 || own.last < symbols.size() / 3 * 2 || (any_heavy && !symbol.heavy)) continue;
    recurring.calls.insert(symbol.call);
    recurring.communicators.insert(symbol.communicator);
  }
  return recurring;
}

bool HoldsMost(const std::vector<Symbol>& symbols, const Period& period, const Recurring& recurring) {
  Recurring held;
  for (std::size_t i = period.block; i < period.block + period.length; ++i) {
    if (recurring.calls.contains(symbols[i].call)) held.calls.insert(symbols[i].call);
    held.communicators.insert(symbols[i].communicator);
  }
  return 2 * held.calls.size() > recurring.calls.size() &&
         std::all_of(recurring.communicators.begin(), recurring.communicators.end(),
                     [&](std::uint64_t id) { return held.communicators.contains(id); });
}

}  // namespace

// The most frequent distance is a period, of the steps if the window is longer than what repeats itself within a step
// and shorter than what lies between two evaluations.
std::size_t UsualDistance(const std::vector<Symbol>& symbols, std::size_t width) {
  constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15ull;
  std::uint64_t power = 1;  // kBase ^ width
  for (std::size_t i = 0; i < width; ++i) power *= kBase;
  std::unordered_map<std::uint64_t, std::size_t> last;
  std::unordered_map<std::size_t, std::size_t> counts;
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    hash = hash * kBase + symbols[i].call;
    if (i >= width) hash -= power * symbols[i - width].call;
    if (i + 1 < width) continue;
    const auto [before, first] = last.try_emplace(hash, i);
    if (!first) ++counts[i - before->second];
    before->second = i;
  }
  std::size_t usual = 0, most = 0;
  for (const auto& [distance, count] : counts) {
    if (count > most || (count == most && distance < usual)) usual = distance, most = count;
  }
  return usual;
}

std::vector<std::size_t> Occurrences(const std::vector<Symbol>& symbols, std::size_t pattern, std::size_t length,
                                     std::size_t begin, std::size_t end) {
  const auto wanted = [&](std::size_t i) { return symbols[pattern + i].call; };
  std::vector<std::size_t> border(length, 0);  // of Knuth, Morris and Pratt
  for (std::size_t i = 1, matched = 0; i < length; ++i) {
    while (matched > 0 && wanted(i) != wanted(matched)) matched = border[matched - 1];
    if (wanted(i) == wanted(matched)) ++matched;
    border[i] = matched;
  }
  std::vector<std::size_t> found;
  for (std::size_t i = begin, matched = 0; i < end; ++i) {
    while (matched > 0 && symbols[i].call != wanted(matched)) matched = border[matched - 1];
    if (symbols[i].call == wanted(matched)) ++matched;
    if (matched < length) continue;
    found.push_back(i + 1 - length);
    matched = border[matched - 1];
  }
  return found;
}

std::optional<Period> FindPeriod(const std::vector<Symbol>& symbols, Layers layers) {
  std::vector<std::size_t> lengths;
  for (std::size_t width = 1; width * kRepetitions <= symbols.size(); width *= 2) {
    const std::size_t length = UsualDistance(symbols, width);
    if (length > 0) lengths.push_back(length);
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  const Recurring recurring = RecurringIn(symbols);
  for (const std::size_t length : lengths) {
    std::optional<Period> period = PeriodOf(symbols, length, layers);
    if (period && HoldsMost(symbols, *period, recurring)) return period;
  }
  return std::nullopt;
}

}  // namespace ncclwatch::diagnosis
