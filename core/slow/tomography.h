// Which component of the machine makes some transfers slow: all that pass it are slow, and all others are not. As in
// network tomography, overlapping communicators pin it down. Pure, on numbers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/slow/topology.h"
#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

struct Component {
  // From the smallest to the largest: where two explain the same, the smaller one is named if it is the only one of its
  // kind.
  enum class Kind {
    kRanks,     // between two ranks
    kNic,       // of one GPU number on one host
    kHostPair,  // between two hosts
    kInside,    // within one host
    kUplink,    // of one host: all that leaves it
    kHost,      // both
    kRail,      // the GPUs of one number on all hosts
    kWithin,    // among the hosts behind a switch
    kBeyond,    // from those to all others
    kSwitch,    // both
    kSpine,     // between the switches below it
    kNetwork    // all between hosts
  };
  Kind kind{};
  std::vector<int> hosts;         // numbers in the table, ascending; of kSpine and kNetwork all that it joins
  int rail = -1;                  // of kNic and kRail
  std::vector<std::size_t> rows;  // of kRanks
  std::string name;               // of a switch; empty: only who talks to whom tells that there is one
};

struct SlowParts {
  std::vector<Component> parts;    // all of them are slow
  std::vector<Component> instead;  // each of these alone would explain it as well
};

// `slow` and `fast`: indices into the table's transfers. Exact for one and for two components; beyond, the fewest that
// a greedy search finds. None: nothing explains it, or no transfer between hosts is fast.
std::optional<SlowParts> ExplainSlow(const StepTable& table, const Topology& topology,
                                     const std::vector<std::size_t>& slow, const std::vector<std::size_t>& fast);

}  // namespace ncclwatch::diagnosis
