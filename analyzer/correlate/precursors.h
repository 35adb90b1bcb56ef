// Which events come before failures more often than chance has it. Pure, and the same for the same history.
//
// The rate of failures inside the windows after an event is compared with the rate outside. Whether that is chance is
// tested by shifting all events of a kind by one amount, around the end to the beginning: bursts and gaps stay as they
// are. In histories of ten days and more the days of each week change places instead, each by an hour at most earlier
// or later, so that the rhythm of days stays too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/correlate/history.h"

namespace ncclwatch::correlate {

struct Precursor {
  std::string event, failure;  // failure: a category, or "any"
  std::size_t cases = 0;       // failures inside a window
  std::size_t of = 0;          // failures
  std::size_t events = 0;
  double risk_ratio = 0;                // 0: nothing outside to compare with
  double low = 0, high = 0;             // of 95 %; high is infinite where no failure lies outside
  std::optional<double> p, p_adjusted;  // none: too few
  bool significant = false;
};

// By p, the least first; those that are too few last.
std::vector<Precursor> FindPrecursors(const History& history, double window_s);

}  // namespace ncclwatch::correlate
