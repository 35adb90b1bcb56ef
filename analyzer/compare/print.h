// A comparison, for people and as JSON (contract: `ncclwatch compare`).
#pragma once

#include <absl/status/statusor.h>
#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

#include "analyzer/compare/verdict.h"

namespace ncclwatch::compare {

// The first call in which two runs of one program diverge.

struct FirstDifference {
  int rank = 0;
  std::uint64_t call = 0;     // of that rank, from 0
  std::string before, after;  // "AllReduce, 1024 float32, sum"; empty: the run has no more calls
};

// By rank and order of calls; times, addresses and results are not compared. None: they make the same calls, or one of
// them has lost calls there. Both are run directories or recordings.
std::optional<FirstDifference> FindFirstDifference(const std::string& before, const std::string& after,
                                                   std::string* why_not);

std::string ToText(const Comparison& comparison, const std::optional<FirstDifference>& first);
nlohmann::ordered_json ToJson(const Comparison& comparison, const std::optional<FirstDifference>& first);

}  // namespace ncclwatch::compare
