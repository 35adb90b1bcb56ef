// Lines of one rule, told as one. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/triage/scan.h"

namespace ncclwatch::analyzer {

// The lines of one rule, of one exception where it is about exceptions; the first of them is quoted.
struct TriageFinding {
  const Rule* rule = nullptr;
  Confidence confidence = Confidence::kSuspected;
  std::vector<int> ranks;  // ascending; empty: not known
  Match first;
  std::string summary;
  std::uint64_t lines = 0;
};

// `matches`: at least one, of `rule`.
TriageFinding Tell(const Rule& rule, std::vector<const Match*> matches);

// Those without a time come last.
bool IsEarlier(const std::optional<absl::Time>& a, const std::optional<absl::Time>& b);

}  // namespace ncclwatch::analyzer
