#include "core/slow/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "core/slow/robust.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr char kCheckpoint[] = "checkpoint";
constexpr std::size_t kFewestCheckpoints = 4;  // checkpoints that tell how far apart they are
constexpr double kTimesMedian = 3;             // overdue: so many times the median of the intervals ...
constexpr double kTimesLongest = 2;            // ... and of the longest one

// What one rank, or all together, has said: in steps where each checkpoint has one, else in nanoseconds.
struct Checkpoints {
  std::vector<std::int64_t> at;  // ascending
  std::int64_t now = 0;
  std::int64_t last_ns = 0;
};

// Several ranks, or several files, are one checkpoint.
void Merge(std::vector<std::int64_t>* at) {
  std::sort(at->begin(), at->end());
  at->erase(std::unique(at->begin(), at->end()), at->end());
  if (at->size() < kFewestCheckpoints) return;
  const std::int64_t apart = (at->back() - at->front()) / static_cast<std::int64_t>(at->size()) / 10;
  std::vector<std::int64_t> merged;
  for (const std::int64_t one : *at)
    if (merged.empty() || one - merged.back() > apart) merged.push_back(one);
  *at = std::move(merged);
}

std::int64_t LastStep(const RankNumbers& rank) {
  std::int64_t last = format::kNoStep;
  for (auto note = rank.notes->rbegin(); note != rank.notes->rend() && last == format::kNoStep; ++note)
    last = note->step;
  return last;
}

Checkpoints Read(const std::vector<const RankNumbers*>& ranks, bool steps, std::int64_t now_ns) {
  Checkpoints found;
  found.now = steps ? format::kNoStep : now_ns;
  for (const RankNumbers* const rank : ranks) {
    if (steps) found.now = std::max(found.now, LastStep(*rank));
    for (const reader::Event& event : *rank->events) {
      if (event.type != kCheckpoint) continue;
      const std::int64_t at_ns = event.at_ns + rank->shift_ns;
      found.at.push_back(steps ? event.step : at_ns);
      found.last_ns = std::max(found.last_ns, at_ns);
    }
  }
  Merge(&found.at);
  return found;
}

struct Overdue {
  double typical = 0, longest = 0, waited = 0;  // steps, or nanoseconds
  std::int64_t last = 0, last_ns = 0;
  std::size_t intervals = 0;
};

std::optional<Overdue> OverdueOf(const Checkpoints& all) {
  if (all.at.size() < kFewestCheckpoints) return std::nullopt;
  std::vector<double> intervals;
  for (std::size_t i = 1; i < all.at.size(); ++i) intervals.push_back(static_cast<double>(all.at[i] - all.at[i - 1]));
  Overdue overdue{.typical = Median(intervals),
                  .longest = *std::max_element(intervals.begin(), intervals.end()),
                  .waited = static_cast<double>(all.now - all.at.back()),
                  .last = all.at.back(),
                  .last_ns = all.last_ns,
                  .intervals = intervals.size()};
  const double limit = std::max(kTimesMedian * overdue.typical, kTimesLongest * overdue.longest);
  return overdue.waited > limit ? std::optional(overdue) : std::nullopt;
}

bool HaveSteps(const std::vector<const RankNumbers*>& ranks) {
  for (const RankNumbers* const rank : ranks)
    for (const reader::Event& event : *rank->events)
      if (event.type == kCheckpoint && event.step == format::kNoStep) return false;
  return true;
}

std::string Amount(double amount, bool steps) {
  return steps ? fmt::format("{:.0f} steps", amount) : Seconds(static_cast<std::int64_t>(amount));
}

}  // namespace

std::optional<NumberFinding> FindCheckpointOverdue(const std::vector<RankNumbers>& ranks, std::int64_t now_ns) {
  std::vector<const RankNumbers*> writers;
  for (const RankNumbers& rank : ranks)
    if (rank.events && std::any_of(rank.events->begin(), rank.events->end(),
                                   [](const reader::Event& event) { return event.type == kCheckpoint; }))
      writers.push_back(&rank);
  if (writers.empty()) return std::nullopt;
  const bool steps = HaveSteps(writers);
  std::optional<Overdue> overdue = OverdueOf(Read(writers, steps, now_ns));
  NumberFinding finding{.kind = Kind::kCheckpointOverdue, .certainty = Certainty::kLikely};
  if (!overdue && writers.size() > 1)  // of single ranks, each of which writes its own
    for (const RankNumbers* const writer : writers)
      if (const auto of = OverdueOf(Read({writer}, steps, now_ns))) overdue = of, finding.ranks.push_back(writer->rank);
  if (!overdue || 2 * finding.ranks.size() > writers.size()) return std::nullopt;
  const double due = static_cast<double>(overdue->last) + overdue->typical;
  finding.step = steps ? static_cast<std::int64_t>(due) : LastStep(*writers.front());
  finding.at_ns = overdue->last_ns;
  finding.effect = steps ? Effect{"checkpoint_interval", "steps", overdue->typical, overdue->waited}
                         : Effect{"checkpoint_interval", "s", overdue->typical / 1e9, overdue->waited / 1e9};
  finding.summary = fmt::format("No checkpoint{} for {}: until then there was one every {}.",
                                finding.ranks.empty() ? "" : " of " + Ranks(finding.ranks),
                                Amount(overdue->waited, steps), Amount(overdue->typical, steps));
  finding.evidence.push_back(
      fmt::format("the longest of {} intervals was {}", overdue->intervals, Amount(overdue->longest, steps)));
  finding.next_steps.push_back(
      "look for the writer: a thread that waits for a full or slow file system (`ncclwatch stacks`, `df`), an "
      "exception "
      "that was caught, a condition that no longer holds. Until there is one, an end of the job costs all steps since");
  return finding;
}

}  // namespace ncclwatch::diagnosis
