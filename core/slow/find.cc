#include "core/slow/find.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/finding.h"
#include "core/rules/describe.h"
#include "core/slow/bubble.h"
#include "core/slow/chronic.h"
#include "core/slow/link_finding.h"
#include "core/slow/machine.h"
#include "core/slow/meanwhile.h"
#include "core/slow/number_findings.h"
#include "core/slow/regression.h"
#include "core/slow/robust.h"
#include "core/slow/skew.h"
#include "core/slow/step_findings.h"
#include "core/slow/straggler.h"
#include "core/slow/topology.h"
#include "core/steps/step_table.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kCallsInAll = 4'000'000;  // of all ranks, that are looked at
constexpr std::size_t kMostOfARank = 16384;
constexpr double kLeastOfStretches = 0.1;     // of the time, where calls repeat no steps
constexpr double kLeastChronic = 0.006;       // of the step, where hundreds of steps tell it
constexpr std::uint64_t kOneRise_steps = 10;  // and a twentieth of all
constexpr double kExplains = 0.8;             // of what steps take longer, by what else is found
constexpr double kMostKept = 2;               // times what slow data cost, by who is kept by them

bool BeganTogether(const Finding& one, const Finding& other, std::uint64_t steps) {
  const auto [first, second] = std::minmax(one.onset->step, other.onset->step);
  return second - first <= kOneRise_steps + steps / 20;
}

// What is found beside it began then, or costs as much.
bool IsExplained(const Finding& rise, const std::vector<Finding>& others, std::uint64_t steps) {
  return std::any_of(others.begin(), others.end(), [&](const Finding& other) {
    return BeganTogether(other, rise, steps) || *other.share_lost >= kExplains * *rise.share_lost;
  });
}

// At one end of a slow pair, and for less than the pair costs.
bool IsAtAnEnd(const Finding& straggler, const Finding& link) {
  return link.culprits.size() == 2 && straggler.onset->step >= link.onset->step &&
         *straggler.share_lost <= *link.share_lost &&
         std::all_of(straggler.culprits.begin(), straggler.culprits.end(), [&](int rank) {
           return std::find(link.culprits.begin(), link.culprits.end(), rank) != link.culprits.end();
         });
}

// Who waits for slow data comes late to others, which wait in their turn; sometimes by too little to be told alone.
bool IsKeptBy(const Finding& straggler, const Finding& link, std::uint64_t steps) {
  return *straggler.share_lost < kLeastShareLost || IsAtAnEnd(straggler, link) ||
         (BeganTogether(straggler, link, steps) && *straggler.share_lost <= kMostKept * *link.share_lost);
}

// It comes late because its data took that much longer than others' did, not for what it did outside of calls.
bool WaitsForData(const StepTable& table, const Straggler& found) {
  if (table.enqueued || found.now_and_then || found.by_messages || found.late_ns <= 0) return false;
  const auto is_late = [&](std::size_t row) {
    return std::find(found.rows.begin(), found.rows.end(), row) != found.rows.end();
  };
  std::vector<std::int64_t> in_data, own;  // of the late ones, more than the others, by step
  for (std::size_t step = std::max(found.from, found.onset); step < table.steps(); ++step) {
    std::vector<std::int64_t> data[2], outside[2];
    for (std::size_t row = 0; row < table.parts.size(); ++row) {
      const StepPart& part = table.parts[row][step];
      data[is_late(row)].push_back(part.exposed_ns);
      outside[is_late(row)].push_back(part.compute_ns());
    }
    in_data.push_back(Median(data[true]) - Median(data[false]));
    own.push_back(Median(outside[true]) - Median(outside[false]));
  }
  return 2 * Median(std::move(in_data)) >= found.late_ns && 2 * Median(std::move(own)) < found.late_ns;
}

// The cause is what began first; of what was there from the beginning, what costs most.
void SortByOnset(std::vector<Finding>* findings) {
  const auto key = [](const Finding& one) {
    return std::pair(one.onset->since_before ? 0 : one.onset->step, -*one.share_lost);
  };
  std::stable_sort(findings->begin(), findings->end(),
                   [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
}

// What costs little beside it is not its cause.
void AddRise(Finding rise, std::vector<Finding>* findings) {
  constexpr double kLittle = 0.25;
  const auto is_little = [&](const Finding& one) { return *one.share_lost < kLittle * *rise.share_lost; };
  const bool first = std::all_of(findings->begin(), findings->end(), is_little);
  findings->insert(first ? findings->begin() : findings->end(), std::move(rise));
}

bool KeepsOthers(const Finding& finding) {
  return finding.kind == Kind::kSlowCommunication || finding.kind == Kind::kStraggler ||
         finding.kind == Kind::kStarvedInput || finding.kind == Kind::kBlockingCheckpoint;
}

// Too little for the steps at hand.
void AddChronic(const View& view, const StepTable& table, const SlowContext& context, std::vector<Finding>* findings) {
  LatenessSums own;
  LatenessSums* const sums = context.lateness ? context.lateness : &own;
  AddLateness(table, sums);
  const auto found = FindChronic(*sums, table, kLeastChronic);
  if (!found) return;
  // Whoever waits for a straggler, or for slow data, in one communicator comes a little later in another.
  if (std::none_of(findings->begin(), findings->end(), KeepsOthers))
    findings->push_back(ChronicFinding(view, table, *found));
}

// Requests come to a server one by one, and it waits for them: that is no loop that starves.
bool IsSteadyLoop(const StepTable& table) {
  constexpr std::size_t kFewestSteps = 20;
  constexpr double kMostScatter = 0.3;
  std::vector<double> steps;
  for (std::size_t step = 0; step < table.steps(); ++step)
    if (table.parts.front()[step].duration_ns > 0)
      steps.push_back(static_cast<double>(table.parts.front()[step].duration_ns));
  const double usual = Median(steps);
  return steps.size() >= kFewestSteps && RobustSigma(std::move(steps), usual) < kMostScatter * usual;
}

// Where all wait for input, who comes last of them is no cause; unless it loses more.
void AddStarvedJob(const View& view, const StepTable& table, std::vector<Finding>* stragglers) {
  const std::optional<StarvedJob> found = FindStarvedJob(view.snapshot->meanwhile);
  if (!found || !IsSteadyLoop(table)) return;
  const auto loses_less = [&](const Finding& straggler) { return *straggler.share_lost < found->share; };
  if (!std::all_of(stragglers->begin(), stragglers->end(), loses_less)) return;
  *stragglers = {StarvedFinding(view, table, *found)};
}

void AddByOwnTime(const View& view, const StepTable& table, std::vector<Finding>* findings) {
  if (!findings->empty()) return;
  for (const Straggler& found : FindStragglersByOwnTime(table, kLeastShareLost))
    findings->push_back(StragglerFinding(view, table, found));
}

std::vector<Finding> Finished(const View& view, std::vector<Finding> findings) {
  for (std::size_t i = 1; i < findings.size(); ++i) findings[i].caused_by = 0;
  for (Finding& finding : findings) finding.detected_at_ns = ToRealtime(view, view.now_ns);
  AddMachines(view.snapshot->machines, &findings);
  return findings;
}

// What calls repeat need not be the program's steps: the levels of a solver repeat messages, too.
std::vector<Finding> FindInCalls(const View& view, const SlowContext& context) {
  if (view.nodes.size() < 2) return {};
  const std::size_t most = std::clamp<std::size_t>(kCallsInAll / view.nodes.size(), 256, kMostOfARank);
  const StepTable table = MakeStepTable(view, most);
  std::vector<Finding> findings = FindSlowSteps(view, table, context);
  if (!findings.empty() || table.stretch > 0) return findings;
  return FindSlowSteps(view, MakeStretchTable(view, most), context);
}

}  // namespace

std::vector<Finding> FindSlowSteps(const View& view, const StepTable& table, const SlowContext& context) {
  // Stretches differ in what is done in them: only who comes last in nearly all of them is told.
  const double least_lost = table.stretch > 0 ? kLeastOfStretches : kLeastShareLost;
  std::vector<Finding> findings;
  const std::uint64_t steps = table.steps() == 0 ? 0 : table.NumberOf(table.steps() - 1) - table.first;
  auto link = table.stretch > 0 ? std::nullopt : LinkFinding(view, table, context.topology, kLeastShareLost);
  for (const Straggler& found : FindStragglers(table, least_lost)) {
    if (WaitsForData(table, found)) continue;
    if (found.share < kLeastChronic) continue;  // without it the others would wait for somebody else
    Finding finding = StragglerFinding(view, table, found);
    if (!link || !IsKeptBy(finding, *link, steps)) findings.push_back(std::move(finding));
  }
  if (table.stretch > 0) {
    AddByOwnTime(view, table, &findings);
    return Finished(view, std::move(findings));
  }
  AddStarvedJob(view, table, &findings);
  if (link) findings.push_back(std::move(*link));
  AddChronic(view, table, context, &findings);
  if (const auto found = FindBubble(table, context.least_idle)) findings.push_back(BubbleFinding(view, table, *found));
  AddByOwnTime(view, table, &findings);
  SortByOnset(&findings);
  if (const auto found = FindRise(table, kLeastRegression)) {
    Finding rise = RegressionFinding(view, table, *found);
    if (!IsExplained(rise, findings, steps)) AddRise(std::move(rise), &findings);
  }
  const StepTable* const baseline = context.baseline;
  if (const auto found = baseline ? FindRegression(table, *baseline, kLeastRegression) : std::nullopt)
    findings.push_back(RegressionFinding(view, table, *found));
  return Finished(view, std::move(findings));
}

std::vector<Finding> FindSlow(const Snapshot& snapshot, const SlowContext& context) {
  const View view = MakeView(snapshot);
  std::vector<Finding> findings = NumberFindings(view);
  for (Finding& finding : findings) finding.detected_at_ns = ToRealtime(view, view.now_ns);
  AddMachines(snapshot.machines, &findings);
  const std::size_t before = findings.size();
  for (Finding& finding : FindInCalls(view, context)) {
    if (finding.caused_by) *finding.caused_by += before;
    findings.push_back(std::move(finding));
  }
  if (auto skew = FindSkew(view)) findings.push_back(*std::move(skew));
  return findings;
}

}  // namespace ncclwatch::diagnosis
