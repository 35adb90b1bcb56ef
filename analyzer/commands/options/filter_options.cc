#include "analyzer/commands/options/filter_options.h"

#include <absl/strings/str_split.h>
#include <absl/time/clock.h>
#include <fmt/core.h>

#include <tuple>

#include "analyzer/console/units.h"
#include "analyzer/steps/steps.h"

namespace ncclwatch::analyzer {
namespace {

// `end`: what moments that are told without a date are before.
absl::StatusOr<Filter> Parse(const FilterWords& words, absl::Time end) {
  Filter filter;
  if (!words.ranks.empty()) {
    const auto ranks = ParseRanks(words.ranks);
    if (!ranks)
      return absl::InvalidArgumentError(fmt::format("--rank takes a list like 0,2,4-7, not '{}'", words.ranks));
    filter.ranks = *ranks;
  }
  for (const auto& [name, text, moment] :
       {std::tuple{"--since", &words.since, &filter.since}, std::tuple{"--until", &words.until, &filter.until}}) {
    if (text->empty()) continue;
    *moment = ParseMoment(*text, end);
    if (!*moment)
      return absl::InvalidArgumentError(
          fmt::format("{} takes 30s, 14:03:07 or 2026-01-01T00:00:00.000Z, not '{}'", name, *text));
  }
  if (!words.least_bytes.empty()) {
    const auto bytes = ParseBytes(words.least_bytes);
    if (!bytes)
      return absl::InvalidArgumentError(fmt::format("--min-bytes takes a size like 1M, not '{}'", words.least_bytes));
    filter.least_bytes = *bytes;
  }
  if (!words.states.empty()) {
    filter.states = absl::StrSplit(words.states, ',');
    for (const std::string& state : filter.states)
      if (!IsState(state)) return absl::InvalidArgumentError(fmt::format("--state knows no '{}'", state));
  }
  for (const std::string& op : words.ops)
    if (!IsOp(op))
      return absl::InvalidArgumentError(
          fmt::format("--op knows no '{}'; it takes names like AllReduce, Send or MPI_Allreduce", op));
  filter.communicators = words.communicators;
  filter.ops = words.ops;
  filter.pending = words.pending;
  return filter;
}

}  // namespace

void DeclareFilter(Options* options, FilterWords* words) {
  options->add_option("--rank", words->ranks, "only these job ranks: 0,2,4-7")->type_name("LIST");
  options->add_option("--comm", words->communicators, "only this communicator: label or beginning of its id")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options->add_option("--op", words->ops, "only this operation: AllReduce, Send, ...")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options->add_option("--since", words->since, "only calls entered at or after this")->type_name("MOMENT");
  options->add_option("--until", words->until, "only calls entered at or before this")->type_name("MOMENT");
  options->add_option("--step", words->steps, "only calls of these steps of the training loop: 100..110")
      ->type_name("A..B");
  options->add_option("--min-bytes", words->least_bytes, "only calls that move at least so much: 1M")
      ->type_name("SIZE");
  options
      ->add_option("--state", words->states, "only calls in this state: entered, returned, started, finished, failed")
      ->type_name("STATE");
  options->add_flag("--pending", words->pending, "only calls that have not ended");
}

absl::Status Check(const FilterWords& words) {
  if (const auto filter = Parse(words, absl::Now()); !filter.ok()) return filter.status();
  if (words.steps.empty() || ParseSteps(words.steps)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("--step takes a range like 100..110, not '{}'", words.steps));
}

absl::StatusOr<Filter> FilterOf(const FilterWords& words, const Recording& recording) {
  absl::StatusOr<Filter> filter = Parse(words, recording.End());
  if (!filter.ok() || words.steps.empty()) return filter;
  auto calls = CallsOfSteps(recording, *ParseSteps(words.steps));
  if (!calls.ok()) return calls.status();
  filter->calls = *std::move(calls);
  return filter;
}

}  // namespace ncclwatch::analyzer
