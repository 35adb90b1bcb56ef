#include "analyzer/import/kineto/align.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "ncclwatch/functions/function.h"

namespace ncclwatch::analyzer::import::kineto {
namespace {

// What one window holds of a series of calls that all members make in one order: the collectives of a group, or the
// messages from one rank to another.
struct Line {
  Window* window = nullptr;
  std::vector<std::size_t> calls;  // places in its trace, in order of time
  std::int64_t shift = 0;          // position of the first one

  TraceCall& At(std::size_t i) const { return window->trace.calls[calls[i]]; }
  std::int64_t size() const { return static_cast<std::int64_t>(calls.size()); }
};

using Series = std::vector<Line>;

std::int64_t EndOf(const Line& line, std::size_t i) {
  const TraceCall& one = line.At(i);
  if (one.operation >= line.window->trace.operations.all.size()) return one.call.returned_ns;
  const reader::Operation& kernel = line.window->trace.operations.all[one.operation];
  return kernel.began_ns + kernel.duration_ns;
}

bool Alike(const TraceCall& a, const TraceCall& b) {
  if (functions::IsMessage(a.call.function)) return a.call.count == b.call.count && a.call.dtype == b.call.dtype;
  if (a.call.function != b.call.function) return false;
  return a.by_rank || b.by_rank || (a.call.count == b.call.count && a.call.dtype == b.call.dtype);
}

// How many positions both have; -1: at one of them they have different calls.
std::int64_t Common(const Line& a, const Line& b, std::int64_t shift) {
  const std::int64_t begin = std::max<std::int64_t>(0, shift), end = std::min(a.size(), shift + b.size());
  for (std::int64_t i = begin; i < end; ++i)
    if (!Alike(a.At(static_cast<std::size_t>(i)), b.At(static_cast<std::size_t>(i - shift)))) return -1;
  return std::max<std::int64_t>(0, end - begin);
}

// Some calls are alike wherever they lie, so their ends must meet too: of one call kernels end together.
std::int64_t Apart(const Line& a, const Line& b, std::int64_t shift) {
  std::vector<std::int64_t> apart;
  const std::int64_t begin = std::max<std::int64_t>(0, shift), end = std::min(a.size(), shift + b.size());
  for (std::int64_t i = begin; i < end; ++i)
    apart.push_back(std::abs(EndOf(a, static_cast<std::size_t>(i)) - EndOf(b, static_cast<std::size_t>(i - shift))));
  if (apart.empty()) return INT64_MAX;
  const auto middle = apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2);
  std::nth_element(apart.begin(), middle, apart.end());
  return *middle;
}

// ---- by steps ----

// The first step that all of them began.
std::optional<std::int64_t> CommonStep(const Series& series) {
  std::optional<std::int64_t> latest;
  for (const Line& line : series) {
    if (line.window->steps.empty()) return std::nullopt;
    latest = std::max(latest.value_or(INT64_MIN), line.window->steps.front().number);
  }
  return latest;
}

bool AlignBySteps(Series* series) {
  const auto number = CommonStep(*series);
  if (!number) return false;
  for (Line& line : *series) {
    const auto& steps = line.window->steps;
    const auto step = std::find_if(steps.begin(), steps.end(), [&](const Step& one) { return one.number == *number; });
    if (step == steps.end()) return false;
    const auto after = std::partition_point(line.calls.begin(), line.calls.end(), [&](std::size_t call) {
      return line.window->trace.calls[call].call.entered_ns < step->began_ns;
    });
    line.shift = line.calls.begin() - after;
  }
  const Line& first = series->front();
  return std::all_of(series->begin(), series->end(),
                     [&](const Line& line) { return Common(first, line, line.shift - first.shift) > 0; });
}

// ---- by time ----

// How many calls of one of them end while both windows are open: about as many must meet. A few at the edges agree by
// chance, as where a group is not told and others' calls lie between its own.
std::int64_t Expected(const Line& a, const Line& b) {
  const auto last = [](const Line& line) { return EndOf(line, line.calls.size() - 1); };
  const std::int64_t begin = std::max(EndOf(a, 0), EndOf(b, 0)), end = std::min(last(a), last(b));
  const auto inside = [&](const Line& line) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < line.calls.size(); ++i) count += EndOf(line, i) >= begin && EndOf(line, i) <= end;
    return count;
  };
  return std::min(inside(a), inside(b));
}

// Of those whose calls agree the one whose calls end together.
bool AlignByTime(Series* series) {
  constexpr std::int64_t kFurthest = 64;  // calls, from where the clocks say that it is
  const auto reference = std::max_element(series->begin(), series->end(),
                                          [](const Line& a, const Line& b) { return a.calls.size() < b.calls.size(); });
  reference->shift = 0;
  for (Line& line : *series) {
    if (&line == &*reference) continue;
    std::int64_t place = 0;
    while (place < reference->size() && EndOf(*reference, static_cast<std::size_t>(place)) < EndOf(line, 0)) ++place;
    const std::int64_t least = std::max<std::int64_t>(1, Expected(*reference, line) / 2);
    std::pair<std::int64_t, std::int64_t> best{INT64_MAX, 0};
    for (std::int64_t shift = place - kFurthest; shift <= place + kFurthest; ++shift)
      if (Common(*reference, line, shift) >= least) best = std::min(best, {Apart(*reference, line, shift), shift});
    if (best.first == INT64_MAX) return false;
    line.shift = best.second;
  }
  return true;
}

// ---- the series of all windows ----

// Equal for the members of a group.
std::string KeyOf(const TraceGroup& group) { return absl::StrCat(group.name, "|", absl::StrJoin(group.ranks, ",")); }

int OwnRank(const TraceGroup& group, const Trace& trace) {
  if (group.ranks.empty()) return trace.rank;
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), trace.rank);
  return place == group.ranks.end() ? -1 : static_cast<int>(place - group.ranks.begin());
}

using SeriesKey = std::tuple<std::string, int, int>;  // group; of messages also from which rank in it, and to which

std::optional<SeriesKey> SeriesOf(const Window& window, const TraceCall& traced) {
  if (traced.group < 0) return std::nullopt;
  const TraceGroup& group = window.trace.groups[static_cast<std::size_t>(traced.group)];
  if (functions::IsCollective(traced.call.function)) return SeriesKey(KeyOf(group), -1, -1);
  const int own = OwnRank(group, window.trace), peer = traced.call.root;
  if (own < 0 || peer < 0) return std::nullopt;
  const bool sends = traced.call.function == functions::Function::ncclSend;
  return SeriesKey(KeyOf(group), sends ? own : peer, sends ? peer : own);
}

std::map<SeriesKey, Series> AllSeries(const std::vector<Window*>& windows) {
  std::map<SeriesKey, Series> all;
  for (Window* const window : windows) {
    std::map<SeriesKey, Line> own;
    const std::vector<TraceCall>& calls = window->trace.calls;
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (const auto key = SeriesOf(*window, calls[i])) own[*key].calls.push_back(i);
    for (auto& [key, line] : own) {
      line.window = window;
      std::stable_sort(line.calls.begin(), line.calls.end(), [&](std::size_t a, std::size_t b) {
        return calls[a].call.entered_ns < calls[b].call.entered_ns;
      });
      all[key].push_back(std::move(line));
    }
  }
  return all;
}

bool IsNumbered(const Series& series) {
  return std::all_of(series.begin(), series.end(), [](const Line& line) {
    return std::all_of(line.calls.begin(), line.calls.end(),
                       [&](std::size_t call) { return line.window->trace.calls[call].has_position; });
  });
}

void Number(std::uint64_t first, Series* series) {
  std::int64_t least = INT64_MAX;
  for (const Line& line : *series) least = std::min(least, line.shift);
  for (const Line& line : *series)
    for (std::size_t i = 0; i < line.calls.size(); ++i) {
      line.At(i).has_position = true;
      line.At(i).call.position = first + static_cast<std::uint64_t>(line.shift - least) + i;
    }
}

TraceGroup& GroupOf(const Line& line) { return line.window->trace.groups[static_cast<std::size_t>(line.At(0).group)]; }

void SetWindows(const Series& series) {
  std::uint64_t from = 0, entered = 0;
  for (const Line& line : series) {
    std::uint64_t first = UINT64_MAX;
    for (std::size_t i = 0; i < line.calls.size(); ++i) {
      first = std::min(first, line.At(i).call.position);
      entered = std::max(entered, line.At(i).call.position + 1);
    }
    from = std::max(from, first);
  }
  for (const Line& line : series) {
    GroupOf(line).compared_from = from;
    GroupOf(line).entered = entered;
  }
}

// Each rank's calls stay its own: nothing is said of who took part in them.
void Part(const Series& series) {
  for (const Line& line : series) {
    TraceGroup& group = GroupOf(line);
    if (group.label.empty()) group.label = group.name;
    absl::StrAppend(&group.name, " of rank ", line.window->trace.rank);
    group.ranks = {line.window->trace.rank};
    for (std::size_t i = 0; i < line.calls.size(); ++i) line.At(i).has_position = false;
  }
}

}  // namespace

Aligned Align(std::uint64_t first, const std::vector<Window*>& windows) {
  Aligned aligned;
  for (auto& [key, series] : AllSeries(windows)) {
    const bool collective = std::get<1>(key) < 0;
    const bool numbered = collective && IsNumbered(series);
    if (!numbered && (series.size() == 1 || AlignBySteps(&series) || AlignByTime(&series))) {
      Number(first, &series);
    } else if (!numbered && collective) {
      aligned.unmatched.push_back(GroupOf(series.front()).name);
      Part(series);
      continue;
    }
    if (collective) SetWindows(series);
  }
  return aligned;
}

}  // namespace ncclwatch::analyzer::import::kineto
