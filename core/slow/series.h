// A metric of the program as series by step, of each rank and of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/image.h"

namespace ncclwatch::diagnosis {

// What one rank has said.
struct RankNumbers {
  int rank = -1;
  std::int64_t shift_ns = 0;  // from its clock to the view's
  const std::vector<reader::Note>* notes = nullptr;
  const std::vector<reader::Event>* events = nullptr;  // null: none
};

struct Point {
  std::int64_t step = 0;
  std::int64_t at_ns = 0;  // on the view's clock
  double value = 0;
};
using Series = std::vector<Point>;  // finite values, by steps: one for each

struct RankSeries {
  int rank = -1;
  Series points;
};

// Of the ranks that have said it. Where a training has gone back to an earlier step, from there on the later ones
// count.
std::vector<RankSeries> SeriesOf(const std::vector<RankNumbers>& ranks, std::string_view metric);

// Of each step that half of the ranks have at least: the median over them.
Series MedianOverRanks(const std::vector<RankSeries>& ranks);

std::vector<double> ValuesOf(const Series& series);

// "rank 2", "all 8 ranks", "the program" where one alone speaks.
std::string WhoseText(const std::vector<int>& ranks, std::size_t all);

}  // namespace ncclwatch::diagnosis
