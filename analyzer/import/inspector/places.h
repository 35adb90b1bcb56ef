// In which step each operation of a communicator was, if lines of several communicators tell it together.
//
// Communicators that do the same do an operation of one number in the same step, whenever their lines were written: as
// those of one rank a host, one for each GPU number. The lines of all of them tell the step better than those of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/import/inspector/joined.h"
#include "ncclwatch/format/fingerprint.h"

namespace ncclwatch::analyzer::import::inspector {

// What one operation of a communicator is called by all of its ranks.
using Call = std::pair<functions::Function, std::uint64_t>;  // and its number
struct CallHash {
  std::size_t operator()(const Call& call) const {
    return format::Mix(static_cast<std::uint64_t>(call.first), call.second);
  }
};

// The step, and how much of it was over, on average of so many communicators.
struct Place {
  double sum = 0, count = 0;
  double mean() const { return sum / count; }
};
using Kind = std::unordered_map<Call, Place, CallHash>;  // the collectives of communicators that do the same

// `places`: of each of its first member's operations.
Kind PlacesOf(const Joined& joined, const std::vector<double>& places);

// What a communicator does: its size, and functions and bytes of its collectives.
using Calls = std::pair<std::int32_t, std::set<std::pair<functions::Function, std::uint64_t>>>;
Calls CallsOf(const Joined& joined);

class Kinds {
 public:
  // Steps are cut by the operations of that communicator: where they lie is exact.
  Kinds(const Calls& calls, Kind reference, std::size_t steps);

  // Which kind it is of; `exact`: its places need no others.
  std::size_t Add(const Calls& calls, const Kind& own, bool exact);
  std::vector<Kind> Take() &&;

 private:
  bool KeepsPace(const Kind& own, const Kind& kind) const;

  const Kind reference_;
  const double steps_;
  std::vector<Kind> kinds_;
  std::map<Calls, std::vector<std::size_t>> alike_;
};

}  // namespace ncclwatch::analyzer::import::inspector
