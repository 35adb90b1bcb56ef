// The smallest size that fails, of sizes from one that does not to one that does. Pure: runs are made by who asks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "analyzer/bisect/noise.h"

namespace ncclwatch::bisect {

struct Border {
  // Neighbours, but for sizes that cannot be told in between. Where small sizes fail: last_good is the smallest good
  // one.
  std::optional<std::int64_t> last_good, first_bad;
  double confidence = 0;
  int runs = 0;
  std::string why_not;  // nothing was found; else empty
};

using RunSize = std::function<Outcome(std::int64_t)>;

// Runs both ends first. `run`: an outcome each time; sizes that are kUnknown are gone around.
Border FindBorder(std::int64_t low, std::int64_t high, double confidence, const RunSize& run,
                  const NoiseBeliefs& noises);
// The same where the ends are known: `low` is good, `high` is bad. *noises: what is known of the noise, before and
// after.
Border FindBorderBetween(std::int64_t low, std::int64_t high, double confidence, const RunSize& run,
                         NoiseBeliefs* noises);

}  // namespace ncclwatch::bisect
