#include "core/steps/step_count.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

namespace ncclwatch::diagnosis {
namespace {

// Where in the block a step begins, as the edges of the stretches tell: what is done between two steps ends one
// stretch and comes before the next. An edge at which a ring begins tells nothing.
std::optional<std::size_t> ByEdges(const Period& period, std::size_t calls, bool whole) {
  if (whole) return period.stretches.front().phase;
  std::map<std::size_t, int> votes;
  for (const Stretch& stretch : period.stretches) {
    if (stretch.begin > 0) ++votes[stretch.phase];
    if (stretch.end < calls) ++votes[(stretch.phase + stretch.end - stretch.begin) % period.length];
  }
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? std::nullopt : std::optional(most->first);
}

// Between two steps the host waits, for data and for what it wants to print: nearly always the longest time without a
// call lies there.
std::optional<std::size_t> ByPauses(const std::vector<Symbol>& symbols, const Period& period) {
  const Stretch& last = period.stretches.back();
  std::vector<std::size_t> votes(period.length, 0);
  std::size_t repetitions = 0;
  for (std::size_t from = last.begin + 1; from + period.length <= last.end; from += period.length, ++repetitions) {
    std::size_t longest = from;
    const auto pause = [&](std::size_t i) { return symbols[i].at_ns - symbols[i - 1].at_ns; };
    for (std::size_t i = from; i < from + period.length; ++i) {
      if (pause(i) > pause(longest)) longest = i;
    }
    ++votes[(last.phase + longest - last.begin) % period.length];
  }
  const auto most = std::max_element(votes.begin(), votes.end());
  if (repetitions == 0 || 3 * *most < 2 * repetitions) return std::nullopt;
  return static_cast<std::size_t>(most - votes.begin());
}

// A step of a pipeline ends with its collectives: it begins with the only message that comes after one.
std::optional<std::size_t> ByCollectives(const std::vector<Symbol>& symbols, const Period& period) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < period.length; ++i) {
    const std::size_t before = (i + period.length - 1) % period.length;
    if (!symbols[period.block + i].message || symbols[period.block + before].message) continue;
    if (first) return std::nullopt;
    first = i;
  }
  return first;
}

// Where in the block a step begins, if anything tells. The block lies in the longest stretch, so that as many calls
// after it belong to it too.
std::optional<std::size_t> PhaseOf(const std::vector<Symbol>& symbols, const Period& period, std::size_t calls,
                                   bool whole) {
  if (period.length == 1) return 0;
  std::optional<std::size_t> phase = ByEdges(period, calls, whole);
  if (!phase) phase = ByCollectives(symbols, period);
  return phase ? phase : ByPauses(symbols, period);
}

// How often the block is in [begin, end), give or take a quarter of its calls, in whatever order.
class Copies {
 public:
  Copies(const std::vector<Symbol>& symbols, const Period& period) : symbols_(symbols), length_(period.length) {
    for (std::size_t i = period.block; i < period.block + period.length; ++i) ++in_block_[symbols[i].call];
  }
  std::size_t In(std::size_t begin, std::size_t end) const {
    std::unordered_map<std::uint64_t, std::size_t> counts;
    for (std::size_t i = begin; i < end; ++i) ++counts[symbols_[i].call];
    for (std::size_t copies = (end - begin) / length_ + 1; copies > 0; --copies) {
      std::size_t there = 0;
      for (const auto& [call, count] : in_block_) {
        const auto found = counts.find(call);
        if (found != counts.end()) there += std::min(found->second, copies * count);
      }
      if (4 * there >= 3 * copies * length_) return copies;
    }
    return 0;
  }

 private:
  const std::vector<Symbol>& symbols_;
  std::size_t length_;
  std::unordered_map<std::uint64_t, std::size_t> in_block_;
};

// The calls cut into steps and what lies between them.
struct Cut {
  std::vector<std::pair<std::size_t, std::size_t>> steps;  // where each undisturbed one begins, and its number
  std::size_t rest = 0;                                    // where the last one ends
  std::size_t done = 0;                                    // steps before `rest`
};

Cut CutSteps(const std::vector<Symbol>& symbols, const Period& period, std::size_t first, const Copies& copies) {
  Cut cut;
  const std::vector<std::size_t> at = Occurrences(symbols, first, period.length, 0, symbols.size());
  for (const std::size_t begin : at) {
    if (begin < cut.rest) continue;
    if (begin > cut.rest) cut.done += copies.In(cut.rest, begin);
    cut.steps.emplace_back(begin, cut.done++);
    cut.rest = begin + period.length;
  }
  return cut;
}

// How many calls of the step have been made with the last one, which may be a wrong one: it comes right after the
// first ones of the step, or those come after something else that was done between two steps. 0: neither. What comes
// right after the last call of a step is hardly a wrong first one of the next.
std::size_t Begun(const std::vector<Symbol>& symbols, std::size_t first, std::size_t length, std::size_t rest) {
  const auto begins = [&](std::size_t from, std::size_t end) {
    return end - from <= length && std::equal(symbols.begin() + static_cast<std::ptrdiff_t>(from),
                                              symbols.begin() + static_cast<std::ptrdiff_t>(end),
                                              symbols.begin() + static_cast<std::ptrdiff_t>(first),
                                              [](const Symbol& a, const Symbol& b) { return a.call == b.call; });
  };
  const std::size_t last = symbols.size() - 1;
  const bool follows = last > rest || symbols[last].call == symbols[first].call;
  if (follows && last - rest < length && begins(rest, last)) return symbols.size() - rest;
  if (symbols[rest].call == symbols[first].call) return 0;  // a step that is not as the others are
  for (std::size_t from = std::max(rest, symbols.size() - std::min(symbols.size(), length)); from <= last; ++from) {
    if (symbols[from].call == symbols[first].call && begins(from, symbols.size())) return symbols.size() - from;
  }
  return 0;
}

// The ring has lost the first steps; the positions of communicators and peers count on. Each tells how many steps there
// have been before the last one that is held whole, if it has counted as fast all the time; they must agree.
std::optional<std::uint64_t> ByPositions(const std::vector<Symbol>& symbols, const Period& period, const Cut& cut) {
  if (cut.steps.size() < 2) return std::nullopt;
  const auto [begin, first_number] = cut.steps.front();
  const auto [end, last_number] = cut.steps.back();
  std::unordered_map<std::uint64_t, std::uint64_t> at_begin, at_end;
  for (std::size_t i = 0; i < period.length; ++i) {
    at_begin.try_emplace(symbols[begin + i].counter, symbols[begin + i].position);
    at_end.try_emplace(symbols[end + i].counter, symbols[end + i].position);
  }
  std::vector<double> estimates;
  for (const auto& [counter, position] : at_end) {
    const auto before = at_begin.find(counter);
    if (before == at_begin.end() || before->second >= position) return std::nullopt;
    const double each =
        static_cast<double>(position - before->second) / static_cast<double>(last_number - first_number);
    estimates.push_back(static_cast<double>(position) / each);
  }
  std::sort(estimates.begin(), estimates.end());
  if (estimates.back() - estimates.front() > 2 + 0.02 * estimates.back()) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(std::floor(estimates[estimates.size() / 2])));
}

}  // namespace

std::optional<StepCount> CountSteps(const std::vector<Symbol>& symbols, bool whole) {
  if (symbols.empty()) return std::nullopt;
  // The last call is perhaps a wrong one.
  const std::optional<Period> period = FindPeriod({symbols.begin(), symbols.end() - 1});
  if (!period) return std::nullopt;
  const std::optional<std::size_t> phase = PhaseOf(symbols, *period, symbols.size() - 1, whole);
  const std::size_t first = period->block + phase.value_or(0);
  const Copies copies(symbols, *period);
  const Cut cut = CutSteps(symbols, *period, first, copies);
  if (cut.steps.empty()) return std::nullopt;
  StepCount count;
  count.calls = period->length;
  if (cut.rest == symbols.size()) {
    count.number = cut.done - 1;
    count.call = period->length;
  } else {
    const std::size_t begun = Begun(symbols, first, period->length, cut.rest);
    count.number = cut.done + copies.In(cut.rest, symbols.size() - std::max<std::size_t>(begun, 1));
    if (begun > 0) count.call = begun;
  }
  count.exact = whole && count.call;
  if (!phase) count.call.reset();
  if (whole) return count;
  const std::optional<std::uint64_t> last = ByPositions(symbols, *period, cut);
  if (!last) return std::nullopt;
  count.number = *last + (count.number - cut.steps.back().second);
  return count;
}

std::optional<OpenStep> OpenStepOf(const std::vector<Symbol>& symbols, bool whole) {
  const std::optional<Period> period = FindPeriod(symbols);
  if (!period) return std::nullopt;
  const std::size_t first = period->block + PhaseOf(symbols, *period, symbols.size(), whole).value_or(0);
  const Cut cut = CutSteps(symbols, *period, first, Copies(symbols, *period));
  if (cut.steps.empty()) return std::nullopt;
  return OpenStep{cut.rest, first, period->length, cut.steps.size()};
}

std::vector<NumberedStep> StepsOf(const std::vector<Symbol>& symbols, bool whole, Layers layers) {
  const std::optional<Period> period = FindPeriod(symbols, layers);
  if (!period) return {};
  const std::size_t first = period->block + PhaseOf(symbols, *period, symbols.size(), whole).value_or(0);
  const Cut cut = CutSteps(symbols, *period, first, Copies(symbols, *period));
  if (cut.steps.empty()) return {};
  std::uint64_t before = 0;
  if (!whole) {
    const std::optional<std::uint64_t> last = ByPositions(symbols, *period, cut);
    if (!last || *last < cut.steps.back().second) return {};
    before = *last - cut.steps.back().second;
  }
  std::vector<NumberedStep> all;
  for (const auto& [begin, number] : cut.steps) all.push_back({begin, before + number});
  return all;
}

}  // namespace ncclwatch::diagnosis
