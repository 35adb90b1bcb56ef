// Which of several items make a run fail: one, several each by itself, or several together. Pure.
//
// A run with more items is taken to fail where one with fewer does. The shortest list of first items that fails ends
// with an item that is needed: a border, found by halves. That item is then in all runs, and the next one is looked
// for, until those found fail by themselves: no item of them can be left out (as delta debugging asks: Zeller &
// Hildebrandt 2002, here with log2 N runs for each). Then the rest is tried without them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/bisect/noise.h"

namespace ncclwatch::bisect {

using Items = std::vector<std::size_t>;  // ascending

struct Culprits {
  std::vector<Items> groups;  // each makes a run fail by itself; of several items all are needed
  double confidence = 0;
  int runs = 0;
  std::string why_not;  // nothing was found; else empty
};

// `run`: with these items alone. Runs with all and with none come first.
using RunItems = std::function<Outcome(const Items&)>;
Culprits FindCulprits(std::size_t count, double confidence, const RunItems& run, const NoiseBeliefs& noises);

}  // namespace ncclwatch::bisect
