#include "core/slow/step_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/model/text.h"
#include "core/report/advice.h"
#include "core/rules/describe.h"
#include "core/slow/meanwhile.h"
#include "core/slow/robust.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::diagnosis {
namespace {

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

// Hosts all of whose ranks are culprits, if there is another host.
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

std::string Steps(const StepTable& table) {
  return table.stretch > 0 ? fmt::format("stretches of {} collectives", table.stretch) : "steps";
}

// "a step of 34 ms"
std::string AStep(const StepTable& table, std::int64_t ns) {
  return table.stretch > 0 ? fmt::format("{} collectives, which take {}", table.stretch, Seconds(ns))
                           : "a step of " + Seconds(ns);
}

// ", since step 153"; a stretch has no number that the program knows.
std::string SinceText(const StepTable& table, const Straggler& found) {
  return found.since_before || table.stretch > 0 ? "" : ", since " + StepName(table, found.onset);
}

std::string SummaryOf(const StepTable& table, const Straggler& found, const std::vector<int>& ranks) {
  const std::string who = Capital(Ranks(ranks)), verb = ranks.size() == 1 ? "comes" : "come";
  if (found.now_and_then)
    return fmt::format("{} {} late in {} of {} {}{}: the others wait for {:.1f} % of the time.", who, verb,
                       found.late_steps, table.steps() - found.from, Steps(table),
                       table.stretch > 0 ? "" : ", first in " + StepName(table, found.onset), Percent(found.share));
  return fmt::format("{} {} last to {}, by {} in {}{}: {:.1f} % of the time is lost.", who, verb,
                     found.by_kernels ? "collectives on the GPU" : "where the others wait for it",
                     Seconds(found.lost_ns), AStep(table, found.step_ns), SinceText(table, found),
                     Percent(found.share));
}

void AddEvidence(const StepTable& table, const Straggler& found, const std::vector<int>& ranks, Finding* finding) {
  const auto median = [&](bool culprits, std::int64_t StepPart::*part) {
    return Seconds(MedianOf(table, found, culprits, part));
  };
  if (found.by_kernels) {
    finding->evidence.push_back(
        fmt::format("NCCL's kernels on {} run for less time than those of the same calls elsewhere, which wait for it",
                    Ranks(ranks)));
  } else if (!found.by_messages || !found.now_and_then) {
    const auto waiting = found.by_messages ? &StepPart::message_ns : &StepPart::wait_ns;
    finding->evidence.push_back(
        fmt::format("in {} {} waits {} for others; each of the others waits {}, for whoever is last (medians of {} {})",
                    table.stretch > 0 ? "a stretch" : "a step", Ranks(ranks), median(true, waiting),
                    median(false, waiting), table.steps() - found.from, Steps(table)));
  }
  if (found.late_steps > 0)
    finding->evidence.push_back(
        fmt::format("it is the last in {} of {} {}", found.late_steps, table.steps() - found.from, Steps(table)));
  if (table.stretch > 0) finding->evidence.push_back("the calls repeat no steps, so that stretches were compared");
}

std::string StragglerStep(const Straggler& found, const Finding& finding) {
  const std::string who = finding.culprits.empty() ? "each node" : Ranks(finding.culprits);
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
  if (found.by_kernels)
    return fmt::format(
        "look at the GPU of {}: clocks, temperature, power and throttle reasons (`nvidia-smi -q -d "
        "PERFORMANCE,CLOCK`), "
        "other processes on it; then at how much work it is given",
        who);
  return fmt::format(
      "look at what {} does between its calls: `ncclwatch stacks` a few times, `perf top -p PID`; "
      "compare its input, clocks and neighbours with those of a rank that waits",
      who);
}

// All other ranks are victims.
Finding BeginFinding(const View& view, const StepTable& table, Kind kind, const std::vector<int>& culprits,
                     double errors) {
  Finding finding;
  finding.kind = kind;
  finding.certainty = errors >= kLikely ? Certainty::kLikely : Certainty::kSuspected;
  AddCulprits(view, culprits, &finding);
  for (const int rank : table.ranks)
    if (!std::binary_search(culprits.begin(), culprits.end(), rank)) finding.victims.push_back(rank);
  return finding;
}

// None: before the first step, perhaps.
void SetOnset(const View& view, const StepTable& table, std::optional<std::size_t> step, Finding* finding) {
  std::int64_t began_ns = 0;
  for (const auto& row : table.parts)
    if (began_ns == 0) began_ns = row[step.value_or(0)].began_ns;
  finding->began_at_ns = ToRealtime(view, began_ns);
  finding->onset = Onset{table.NumberOf(step.value_or(0)), finding->began_at_ns, !step};
}

double MeanStep(const StepTable& table) {
  double time = 0, steps = 0;
  for (const auto& row : table.parts)
    for (const StepPart& part : row)
      if (part.duration_ns > 0) time += static_cast<double>(part.duration_ns), ++steps;
  return steps > 0 ? time / steps / 1e9 : 0;
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

std::string GrownText(Regression::Part part) {
  switch (part) {
    case Regression::Part::kCompute: return "computation has grown";
    case Regression::Part::kExposed: return "communication has grown";
    case Regression::Part::kWait: return "waiting for others has grown";
    case Regression::Part::kIdle: return "waiting in other calls has grown";
    case Regression::Part::kUnknown: return "computation or communication has grown, which of them is not known";
    case Regression::Part::kSeveral: break;
  }
  return "several parts of it have grown";
}

std::string SummaryOf(const StepTable& table, const Regression& found, const std::vector<int>& ranks) {
  const std::string_view since = found.onset ? " before" : " in the earlier run";
  return fmt::format("A step takes {} where it took {}{}, {:.1f} % longer{}: {}{}.",
                     Seconds(static_cast<std::int64_t>(found.after.step)),
                     Seconds(static_cast<std::int64_t>(found.before.step)), since, Percent(found.change),
                     found.onset ? ", since " + StepName(table, *found.onset) : "", GrownText(found.part),
                     ranks.empty() ? " on all ranks" : " on " + Ranks(ranks));
}

std::string RegressionStep(const Regression& found, Kind kind) {
  if (found.part == Regression::Part::kUnknown)
    return "let NCCL time its kernels (NCCL_PROFILER_PLUGIN=STATIC_PLUGIN), which shows the part that grows";
  const std::string than = found.onset ? "from before that step" : "of the earlier run";
  if (kind == Kind::kSlowCompute)
    return "compare clocks, temperatures and throttle reasons of the GPUs, and what the program computes, with those " +
           than;
  return "compare the nodes, NCCL_* variables and library versions with those " + than;
}

}  // namespace

Finding StragglerFinding(const View& view, const StepTable& table, const Straggler& found) {
  std::vector<int> ranks;
  for (const std::size_t row : found.rows) ranks.push_back(table.ranks[row]);
  Finding finding = BeginFinding(view, table, Kind::kStraggler, ranks, found.certainty);
  SetOnset(view, table, found.since_before ? std::nullopt : std::optional(found.onset), &finding);
  const double after = InSeconds(found.step_ns);
  finding.effect = Effect{"step_time", "s", after * (1 - found.share), after};
  finding.shared_by.hosts = HostsOf(view, ranks);
  finding.share_lost = found.share;
  finding.late_ns = found.late_ns;
  finding.summary = SummaryOf(table, found, ranks);
  AddEvidence(table, found, ranks, &finding);
  if (!finding.shared_by.hosts.empty())
    finding.evidence.push_back("they are all ranks of " + Join(finding.shared_by.hosts, ", ") +
                               ", and no others are late");
  ExplainStraggler(view.snapshot->meanwhile, &finding);
  finding.next_steps.push_back(StragglerStep(found, finding));
  AddAdvice(&finding);
  return finding;
}

Finding StarvedFinding(const View& view, const StepTable& table, const StarvedJob& found) {
  Finding finding = BeginFinding(view, table, Kind::kStarvedInput, {}, kLikely);
  SetOnset(view, table, std::nullopt, &finding);
  const double step = MeanStep(table);
  finding.effect = Effect{"step_time", "s", step * (1 - found.share), step};
  finding.share_lost = found.share;
  finding.summary =
      fmt::format("Several ranks wait for input, for {:.0f} % of the time on average.", Percent(found.share));
  finding.evidence.push_back(fmt::format("{} ranks were sampled at random times, and most of them read{}",
                                         found.processes, found.words.empty() ? "" : ", " + found.words));
  if (!found.where.empty()) finding.evidence.push_back("it stands in " + Join(found.where, ", called from "));
  finding.next_steps.push_back(StragglerStep({}, finding));
  AddAdvice(&finding);
  return finding;
}

Finding ChronicFinding(const View& view, const StepTable& table, const Chronic& found) {
  Finding finding = BeginFinding(view, table, Kind::kStraggler, {found.rank}, found.certainty);
  SetOnset(view, table, std::nullopt, &finding);
  const double step = MeanStep(table);
  finding.effect = Effect{"step_time", "s", step * (1 - found.share), step};
  finding.share_lost = found.share;
  finding.summary = fmt::format(
      "{} comes a little later than the others all the time, by {:.1f} % of the step on average of {} steps.",
      Capital(Ranks({found.rank})), Percent(found.share), found.steps);
  finding.evidence.push_back(fmt::format(
      "{:.1f} standard errors from the middle of the ranks, and no other rank is like it", found.certainty));
  finding.next_steps.push_back(
      fmt::format("compare clocks, power limit, memory speed and neighbours of {} with those of another rank",
                  Ranks({found.rank})));
  AddAdvice(&finding);
  return finding;
}

Finding BubbleFinding(const View& view, const StepTable& table, const Bubble& found) {
  std::vector<int> ranks;
  for (const std::size_t row : found.rows) ranks.push_back(table.ranks[row]);
  Finding finding = BeginFinding(view, table, Kind::kPipelineBubble, ranks, kLikely);
  SetOnset(view, table, std::nullopt, &finding);
  finding.effect = Effect{"idle", "share", found.expected, found.idle};
  finding.share_lost = ranks.empty() ? found.idle : found.idle - found.expected;
  const std::string what =
      fmt::format("The {} stages of the pipeline idle for {:.0f} % of the step", found.stages, Percent(found.idle));
  if (ranks.empty()) {
    finding.summary = fmt::format("{}: {} micro-batches are too few for them.", what, found.batches);
  } else {
    std::vector<std::string> stages;
    for (const std::size_t stage : found.stage_of) stages.push_back(fmt::format("{}", stage));
    finding.summary = fmt::format("{}, and wait for stage {} ({}), which takes longer than the others.", what,
                                  Join(stages, ", "), Ranks(ranks));
  }
  finding.evidence.push_back(fmt::format(
      "{} stages and {} micro-batches leave (p - 1) / (m + p - 1) = {:.0f} % idle where all stages are even",
      found.stages, found.batches, Percent(found.expected)));
  if (!ranks.empty())
    finding.evidence.push_back(fmt::format("that stage idles for {:.0f} % of the step", Percent(found.idle_of_rows)));
  finding.next_steps.push_back(
      ranks.empty()
          ? fmt::format("use more micro-batches in a step: {} would leave {:.0f} % idle", 4 * found.stages,
                        Percent(static_cast<double>(found.stages - 1) / static_cast<double>(5 * found.stages - 1)))
          : "move layers from that stage to the others (embedding and loss count too), or find out why its "
            "GPUs are slower");
  AddAdvice(&finding);
  return finding;
}

Finding RegressionFinding(const View& view, const StepTable& table, const Regression& found) {
  std::vector<int> ranks;
  for (const std::size_t row : found.rows) ranks.push_back(table.ranks[row]);
  Finding finding = BeginFinding(view, table, KindOf(found), ranks, found.errors);
  SetOnset(view, table, found.onset, &finding);
  finding.effect = Effect{"step_time", "s", found.before.step / 1e9, found.after.step / 1e9};
  finding.shared_by.hosts = HostsOf(view, ranks);
  finding.share_lost = 1 - found.before.step / found.after.step;
  finding.summary = SummaryOf(table, found, ranks);
  finding.evidence.push_back(PartsText(found.before, found.after));
  finding.next_steps.push_back(RegressionStep(found, finding.kind));
  AddAdvice(&finding);
  return finding;
}

}  // namespace ncclwatch::diagnosis
