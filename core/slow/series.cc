#include "core/slow/series.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "core/model/text.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {

std::vector<RankSeries> SeriesOf(const std::vector<RankNumbers>& ranks, std::string_view metric) {
  std::vector<RankSeries> all;
  for (const RankNumbers& of : ranks) {
    RankSeries one{of.rank, {}};
    for (const reader::Note& note : *of.notes) {
      if (note.kind != format::NoteKind::kMetric || note.step == format::kNoStep || note.name != metric) continue;
      while (!one.points.empty() && one.points.back().step >= note.step) one.points.pop_back();
      if (std::isfinite(note.value)) one.points.push_back({note.step, note.at_ns + of.shift_ns, note.value});
    }
    if (!one.points.empty()) all.push_back(std::move(one));
  }
  return all;
}

Series MedianOverRanks(const std::vector<RankSeries>& ranks) {
  std::map<std::int64_t, std::pair<std::int64_t, std::vector<double>>> by_step;
  for (const RankSeries& of : ranks)
    for (const Point& point : of.points) {
      auto& [at_ns, values] = by_step[point.step];
      if (values.empty() || point.at_ns < at_ns) at_ns = point.at_ns;
      values.push_back(point.value);
    }
  Series series;
  for (auto& [step, said] : by_step)
    if (2 * said.second.size() >= ranks.size()) series.push_back({step, said.first, Median(std::move(said.second))});
  return series;
}

std::vector<double> ValuesOf(const Series& series) {
  std::vector<double> values;
  for (const Point& point : series) values.push_back(point.value);
  return values;
}

std::string WhoseText(const std::vector<int>& ranks, std::size_t all) {
  if (!ranks.empty()) return Ranks(ranks);
  return all == 1 ? "the program" : fmt::format("all {} ranks", all);
}

}  // namespace ncclwatch::diagnosis
