// Which of the recorded calls `ncclwatch trace` shows.
#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/recording/merge.h"
#include "analyzer/trace/facts.h"

namespace ncclwatch::analyzer {

struct Filter {
  std::vector<int> ranks;                  // empty: all, as for the next two
  std::vector<std::string> communicators;  // label, or beginning of the identity
  std::vector<std::string> ops;            // "AllReduce", "ncclallreduce"
  std::vector<std::string> states;         // "entered", ...
  std::uint64_t least_bytes = 0;
  std::optional<absl::Time> since, until;
  // By rank the calls [first, second) that are wanted, of ranks that are not named none; none: all.
  std::optional<std::map<int, std::pair<std::uint64_t, std::uint64_t>>> calls;
  bool pending = false;

  bool Wants(const Facts& facts) const;
  // Whether a call of the box may be wanted: a look at its numbers, before names are made of them. Null: all are.
  std::function<bool(const reader::Call&)> ForCalls(const reader::BoxImage& box) const;
  // Whether it may have such calls; of the process of this job rank.
  bool Wants(const SegmentIndex& segment, int rank) const;
  MergeRequests Requests() const;  // both, while this lives

 private:
  bool WantsCalls(int rank, std::uint64_t begin, std::uint64_t end) const;  // some of these slots
};

bool IsOp(const std::string& word);  // the name of a function that is recorded, as `ops` has it

// "30s" (before `end`), "14:03", "14:03:07.5" (local, of the day of `end`), "2026-01-01T00:00:00.000Z".
std::optional<absl::Time> ParseMoment(const std::string& text, absl::Time end);

}  // namespace ncclwatch::analyzer
