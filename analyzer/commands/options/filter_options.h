// The options of `trace` and `export` that say which calls are wanted.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "analyzer/commands/options/options.h"
#include "analyzer/recording/recording.h"
#include "analyzer/trace/filter.h"

namespace ncclwatch::analyzer {

// As the user wrote them.
struct FilterWords {
  std::vector<std::string> communicators, ops;
  std::string ranks, since, until, least_bytes, states, steps;
  bool pending = false;
};

void DeclareFilter(Options* options, FilterWords* words);
// What is wrong with them, before anything is read.
absl::Status Check(const FilterWords& words);
// Of words that are right. Not found: the recording has no such steps.
absl::StatusOr<Filter> FilterOf(const FilterWords& words, const Recording& recording);

}  // namespace ncclwatch::analyzer
