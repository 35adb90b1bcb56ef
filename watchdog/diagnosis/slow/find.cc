#include "watchdog/diagnosis/slow/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "watchdog/diagnosis/model/text.h"
#include "watchdog/diagnosis/report/advice.h"
#include "watchdog/diagnosis/rules/describe.h"
#include "watchdog/diagnosis/slow/link_findings.h"
#include "watchdog/diagnosis/slow/meanwhile.h"
#include "watchdog/diagnosis/slow/number_findings.h"
#include "watchdog/diagnosis/slow/regression.h"
#include "watchdog/diagnosis/slow/robust.h"
#include "watchdog/diagnosis/slow/step_table.h"
#include "watchdog/diagnosis/slow/straggler.h"
#include "watchdog/diagnosis/view/view.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr std::size_t kCallsInAll = 4'000'000;  // of all ranks, that are looked at
constexpr std::size_t kMostOfARank = 16384;
constexpr double kLikely = 10;  // standard errors

double Percent(double share) { return 100 * share; }

std::int64_t MedianOf(const StepTable& table, const Straggler& found, bool culprits, std::int64_t StepPart::*part) {
  std::vector<std::int64_t> all;
  for (std::size_t row = 0; row < table.parts.size(); ++row) {
    if ((std::find(found.rows.begin(), found.rows.end(), row) != found.rows.end()) != culprits) continue;
    for (std::size_t step = found.from; step < table.steps(); ++step)
      if (table.parts[row][step].duration_ns > 0) all.push_back(table.parts[row][step].*part);
  }
  return Median(std::move(all));
}

// Hosts all of whose ranks are late, if there is another host.
std::vector<std::string> HostsOf(const View& view, const std::vector<int>& culprits) {
  std::set<std::string> late, others;
  for (const Node& node : view.nodes) {
    const bool is = std::find(culprits.begin(), culprits.end(), node.rank) != culprits.end();
    (is ? late : others).insert(view.process(node).box->host);
  }
  std::vector<std::string> hosts;
  std::set_difference(late.begin(), late.end(), others.begin(), others.end(), std::back_inserter(hosts));
  return others.empty() ? std::vector<std::string>() : hosts;
}

std::string StepName(const StepTable& table, std::size_t step) { return fmt::format("step {}", table.NumberOf(step)); }

std::string SummaryOf(const StepTable& table, const Straggler& found, const std::vector<int>& ranks) {
  const std::string who = Capital(Ranks(ranks)), verb = ranks.size() == 1 ? "comes" : "come";
  if (found.now_and_then)
    return fmt::format("{} {} late in {} of {} steps, first in {}: the others wait for {:.1f} % of the time.", who,
                       verb, found.late_steps, table.steps() - found.from, StepName(table, found.onset),
                       Percent(found.share));
  return fmt::format(
      "{} {} last to where the others wait for it, by {} in a step of {}{}: {:.1f} % of the time is lost.", who, verb,
      Seconds(found.lost_ns), Seconds(found.step_ns),
      found.since_before ? "" : ", since " + StepName(table, found.onset), Percent(found.share));
}

std::string NextStep(const Finding& finding) {
  const std::string who = Ranks(finding.culprits);
  if (finding.kind == Kind::kStarvedInput)
    return fmt::format(
        "see how fast {} can read where its input lies, and who else reads there (`iostat -x`, "
        "`nfsiostat`, the file system's own counters); give its data loader more workers",
        who);
  if (finding.kind == Kind::kBlockingCheckpoint)
    return fmt::format(
        "see how fast the file system of {} takes what is written, and whether the checkpoint could be "
        "written beside the training or less often",
        who);
  return fmt::format(
      "look at what {} does between its calls: `ncclwatch stacks` a few times, `perf top -p PID`; "
      "compare its input, clocks and neighbours with those of a rank that waits",
      who);
}

Finding StragglerFinding(const View& view, const StepTable& table, const Straggler& found) {
  std::vector<int> ranks, others;
  for (std::size_t row = 0; row < table.ranks.size(); ++row) {
    const bool late = std::find(found.rows.begin(), found.rows.end(), row) != found.rows.end();
    (late ? ranks : others).push_back(table.ranks[row]);
  }
  Finding finding;
  finding.kind = Kind::kStraggler;
  finding.certainty = found.certainty >= kLikely ? Certainty::kLikely : Certainty::kSuspected;
  AddCulprits(view, ranks, &finding);
  finding.victims = others;
  const StepPart& began = table.parts[found.rows.front()][found.onset];
  finding.began_at_ns = ToRealtime(view, began.began_ns);
  finding.onset = Onset{table.NumberOf(found.onset), finding.began_at_ns, found.since_before};
  const double after = static_cast<double>(found.step_ns) / 1e9;
  finding.effect = Effect{"step_time", "s", after * (1 - found.share), after};
  finding.shared_by.hosts = HostsOf(view, ranks);
  finding.share_lost = found.share;
  finding.late_ns = found.late_ns;
  finding.summary = SummaryOf(table, found, ranks);
  const auto median = [&](bool culprits, std::int64_t StepPart::*part) {
    return Seconds(MedianOf(table, found, culprits, part));
  };
  finding.evidence.push_back(fmt::format("in a step {} waits {} for others, the others wait {} (medians of {} steps)",
                                         Ranks(ranks), median(true, &StepPart::wait_ns),
                                         median(false, &StepPart::wait_ns), table.steps() - found.from));
  finding.evidence.push_back(
      fmt::format("it is the last in {} of {} steps", found.late_steps, table.steps() - found.from));
  if (!finding.shared_by.hosts.empty())
    finding.evidence.push_back("they are all ranks of " + Join(finding.shared_by.hosts, ", ") +
                               ", and no others are late");
  ExplainStraggler(view.snapshot->meanwhile, &finding);
  finding.next_steps.push_back(NextStep(finding));
  AddAdvice(&finding);
  return finding;
}

Kind KindOf(const Regression& found) {
  if (found.part == Regression::Part::kCompute) return Kind::kSlowCompute;
  return found.part == Regression::Part::kExposed ? Kind::kSlowCommunication : Kind::kRegression;
}

std::string PartsText(const StepLevels& before, const StepLevels& after) {
  const auto part = [](const char* name, double then, double now) {
    return fmt::format("{} {} to {}", name, Seconds(static_cast<std::int64_t>(then)),
                       Seconds(static_cast<std::int64_t>(now)));
  };
  return fmt::format(
      "of a step, on average over the ranks: {}, {}, {}, {}", part("computation", before.compute, after.compute),
      part("exposed communication", before.exposed, after.exposed), part("waiting for others", before.wait, after.wait),
      part("other blocking calls", before.idle, after.idle));
}

std::string_view GrownText(Regression::Part part) {
  switch (part) {
    case Regression::Part::kCompute: return "computation";
    case Regression::Part::kExposed: return "communication";
    case Regression::Part::kWait: return "waiting for others";
    case Regression::Part::kIdle: return "waiting in other calls";
    case Regression::Part::kSeveral: break;
  }
  return "several parts of it";
}

Finding RegressionFinding(const View& view, const StepTable& table, const Regression& found) {
  Finding finding;
  finding.kind = KindOf(found);
  finding.certainty = found.errors >= kLikely ? Certainty::kLikely : Certainty::kSuspected;
  std::vector<int> ranks;
  for (const std::size_t row : found.rows) ranks.push_back(table.ranks[row]);
  AddCulprits(view, ranks, &finding);
  for (const int rank : table.ranks)
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) finding.victims.push_back(rank);
  finding.began_at_ns = ToRealtime(view, table.parts.front().front().began_ns);
  finding.onset = Onset{table.first, finding.began_at_ns, true};
  finding.effect = Effect{"step_time", "s", found.before.step / 1e9, found.after.step / 1e9};
  finding.shared_by.hosts = HostsOf(view, ranks);
  finding.share_lost = 1 - found.before.step / found.after.step;
  finding.summary = fmt::format("A step takes {} where it took {} in the earlier run, {:.1f} % longer: {} has grown{}.",
                                Seconds(static_cast<std::int64_t>(found.after.step)),
                                Seconds(static_cast<std::int64_t>(found.before.step)), Percent(found.change),
                                GrownText(found.part), ranks.empty() ? "" : ", on " + Ranks(ranks));
  finding.evidence.push_back(PartsText(found.before, found.after));
  finding.next_steps.push_back(finding.kind == Kind::kSlowCompute
                                   ? "compare clocks, temperatures and throttle reasons of the GPUs, and versions of "
                                     "libraries and code, with those of the earlier run"
                                   : "compare the nodes, NCCL_* variables and library versions of both runs");
  AddAdvice(&finding);
  return finding;
}

StepTable TableOf(const View& view) {
  if (view.nodes.size() < 2) return {};
  return MakeStepTable(view, std::clamp<std::size_t>(kCallsInAll / view.nodes.size(), 256, kMostOfARank));
}

}  // namespace

std::vector<Finding> FindSlowSteps(const View& view, const StepTable& table, const SlowContext& context) {
  std::vector<Finding> findings;
  if (const auto found = FindStraggler(table, kLeastShareLost))
    findings.push_back(StragglerFinding(view, table, *found));
  if (auto found = LinkFinding(view, table, context.topology, kLeastShareLost)) findings.push_back(std::move(*found));
  const StepTable* const baseline = context.baseline;
  if (const auto found = baseline ? FindRegression(table, *baseline, kLeastRegression) : std::nullopt)
    findings.push_back(RegressionFinding(view, table, *found));
  for (Finding& finding : findings) finding.detected_at_ns = ToRealtime(view, view.now_ns);
  return findings;
}

std::vector<Finding> FindSlow(const Snapshot& snapshot, const SlowContext& context) {
  const View view = MakeView(snapshot);
  std::vector<Finding> findings = NumberFindings(view);
  std::vector<Finding> slow = FindSlowSteps(view, TableOf(view), context);
  // What is found in this run explains that its steps take longer than another's.
  if (slow.size() > 1 && context.baseline) slow.back().caused_by = findings.size();
  std::move(slow.begin(), slow.end(), std::back_inserter(findings));
  for (Finding& finding : findings) finding.detected_at_ns = ToRealtime(view, view.now_ns);
  return findings;
}

}  // namespace ncclwatch::diagnosis
