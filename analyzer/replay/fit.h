// Costs of MPI as a recording shows them, how good they are, and the delays that are not the network's.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/recording/recording.h"
#include "simulation/workload.h"

namespace ncclwatch::analyzer {

// Calls of a rank by turns belong to one part and to the other, so that costs from one can be tried on the other.
inline constexpr std::uint64_t kCallsOfTurn = 64;
constexpr int PartOf(std::uint64_t slot) { return static_cast<int>(slot / kCallsOfTurn % 2); }
inline constexpr int kBothParts = -1;

struct Fit {
  simulation::Costs costs;
  std::uint64_t waits = 0;
  double late_share = 0;  // of those that ended much later than the network explains
  double late_ns = 0;     // the mean of what it does not explain
  std::string guessed;    // costs for which the recording has no samples
};

// Not found: no call of MPI that tells. Failed precondition: what fits cannot be, with the reason.
absl::StatusOr<Fit> FitCosts(const Recording& recording, int part = kBothParts);

// Time in MPI's calls for communication, of all ranks, as recorded and on the model with costs from the other calls.
struct FitError {
  std::int64_t recorded_ns = 0, simulated_ns = 0;
  std::string worst_op;  // that adds most to the difference
  std::int64_t worst_recorded_ns = 0, worst_simulated_ns = 0;

  bool known() const { return recorded_ns > 0; }
  double error() const {
    return known() ? static_cast<double>(simulated_ns) / static_cast<double>(recorded_ns) - 1 : 0;
  }
};
absl::StatusOr<FitError> CrossValidate(const Recording& recording);

inline constexpr double kGoodFit = 0.15;
// Why the model is further from the recording than that; empty: it is not.
std::string WhyBad(const Fit& fit, const FitError& error);

}  // namespace ncclwatch::analyzer
