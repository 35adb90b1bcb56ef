#include "core/slow/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/finding.h"
#include "core/model/text.h"
#include "core/report/advice.h"
#include "core/rules/describe.h"
#include "core/slow/bubble.h"
#include "core/slow/chronic.h"
#include "core/slow/links.h"
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
#include "ncclwatch/functions/bandwidth.h"

namespace ncclwatch::diagnosis {
namespace {

// Communication that takes longer, as a finding.

constexpr double kLeastLoss = 0.2;  // of the bandwidth
constexpr double kLikelyLink = 10;  // standard errors

functions::Pattern PatternOf(const StepTransfers& one) {
  using functions::Pattern;
  if (one.is_message) return Pattern::kSend;
  return functions::IsMpi(one.function) ? functions::PatternOfMpi(one.function)
                                        : functions::PatternOfNccl(one.function);
}

std::optional<double> BusbwOf(const StepTransfers& one, double ns) {
  const auto bandwidth =
      functions::BandwidthOf(PatternOf(one), one.bytes, static_cast<std::uint32_t>(one.rows.size()), ns);
  return bandwidth ? std::optional(bandwidth->busbw_GBps) : std::nullopt;
}

std::string Time(double ns) {
  if (ns < 1e6) return fmt::format("{:.3g} us", ns / 1e3);
  return ns < 1e9 ? fmt::format("{:.3g} ms", ns / 1e6) : fmt::format("{:.3g} s", ns / 1e9);
}

std::string BehindText(const StepTable& table, const Component& part) {
  constexpr std::size_t kMostNamed = 16;
  std::vector<std::string> names;
  for (const int host : part.hosts) names.push_back(table.host_names[static_cast<std::size_t>(host)]);
  std::sort(names.begin(), names.end());
  const std::size_t all = names.size();
  names.resize(std::min(all, kMostNamed));
  const std::string hosts = Join(names, ", ") + (all > kMostNamed ? ", ..." : "");
  return part.name.empty() ? hosts : fmt::format("the hosts behind switch {} ({})", part.name, hosts);
}

// "between node08 and node09", "of the network adapter of GPU 3 on node08"
std::string PartText(const StepTable& table, const Component& part) {
  const auto host = [&](std::size_t i) { return table.host_names[static_cast<std::size_t>(part.hosts[i])]; };
  switch (part.kind) {
    case Component::Kind::kRanks:
      return fmt::format("between rank {} and rank {}", table.ranks[part.rows[0]], table.ranks[part.rows[1]]);
    case Component::Kind::kNic: return fmt::format("of the network adapter of GPU {} on {}", part.rail, host(0));
    case Component::Kind::kHostPair: return fmt::format("between {} and {}", host(0), host(1));
    case Component::Kind::kInside: return fmt::format("within {}", host(0));
    case Component::Kind::kUplink: return fmt::format("from {} to other hosts", host(0));
    case Component::Kind::kHost: return "of " + host(0);
    case Component::Kind::kRail: return fmt::format("of rail {}, the GPUs of that number on all hosts", part.rail);
    case Component::Kind::kWithin: return "among " + BehindText(table, part);
    case Component::Kind::kBeyond: return fmt::format("between {} and all others", BehindText(table, part));
    case Component::Kind::kSwitch: return "of " + BehindText(table, part);
    case Component::Kind::kSpine: return fmt::format("between the switches below {}", part.name);
    case Component::Kind::kNetwork: break;
  }
  return "between all hosts";
}

std::string WhereText(const StepTable& table, const SlowLinks& found, const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (const Component& part : found.parts) parts.push_back(PartText(table, part));
  if (!parts.empty()) return Join(parts, ", and ");
  if (!found.hosts.empty()) return "of " + Join(found.hosts, ", ");
  return ranks.empty() ? "of all ranks" : "of " + Ranks(ranks);
}

// What fits as well, and who could tell.
void AddInstead(const StepTable& table, const SlowLinks& found, Finding* finding) {
  constexpr std::size_t kMostTold = 3;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(found.instead.size(), kMostTold); ++i)
    parts.push_back(PartText(table, found.instead[i]));
  if (parts.empty()) return;
  const std::size_t more = found.instead.size() - parts.size();
  finding->evidence.push_back(fmt::format("the same would be seen if communication {} alone were slow{}",
                                          Join(parts, ", or "),
                                          more > 0 ? fmt::format(", or {} more such parts", more) : ""));
}

std::string SummaryOf(const StepTable& table, const SlowLinks& found, const std::vector<int>& ranks) {
  const StepTransfers& example = table.transfers[found.example];
  const std::string since = found.since_before ? fmt::format("where the same elsewhere takes {}", Time(found.before_ns))
                                               : fmt::format("instead of {} since step {}", Time(found.before_ns),
                                                             table.NumberOf(found.onset));
  return fmt::format("Communication {} has become slower: {} of {} takes {} {}; {:.1f} % of the time is lost.",
                     WhereText(table, found, ranks), functions::OpName(example.function), Bytes(example.bytes),
                     Time(found.after_ns), since, 100 * found.share);
}

std::optional<Finding> LinkFinding(const View& view, const StepTable& table, const Topology& topology,
                                   double least_share) {
  const std::optional<SlowLinks> found = FindSlowLinks(table, topology, kLeastLoss, least_share);
  if (!found) return std::nullopt;
  std::vector<int> ranks;
  for (const std::size_t row : found->rows) ranks.push_back(table.ranks[row]);
  std::sort(ranks.begin(), ranks.end());
  Finding finding;
  finding.kind = Kind::kSlowCommunication;
  finding.certainty = found->certainty >= kLikelyLink ? Certainty::kLikely : Certainty::kSuspected;
  AddCulprits(view, ranks, &finding);
  for (const int rank : table.ranks)
    if (!std::binary_search(ranks.begin(), ranks.end(), rank)) finding.victims.push_back(rank);
  finding.began_at_ns = ToRealtime(view, table.parts.front()[found->onset].began_ns);
  finding.onset = Onset{table.NumberOf(found->onset), finding.began_at_ns, found->since_before};
  const StepTransfers& example = table.transfers[found->example];
  finding.effect = Effect{"busbw", "GB/s", BusbwOf(example, found->before_ns), BusbwOf(example, found->after_ns)};
  finding.shared_by = SharedBy{found->hosts, found->rail, found->switch_name, {}};
  if (!found->pair.empty()) finding.shared_by.pair = ranks;
  finding.share_lost = found->share;
  finding.summary = SummaryOf(table, *found, ranks);
  finding.evidence.push_back(fmt::format(
      "{} of {} kinds of calls take longer, by communicator, operation and size; waiting for late ranks is not in it",
      found->slower, found->slower + found->as_before));
  if (finding.effect->before && finding.effect->after)
    finding.evidence.push_back(fmt::format("bus bandwidth {:.3g} GB/s, {} {:.3g} GB/s", *finding.effect->after,
                                           found->since_before ? "elsewhere" : "before", *finding.effect->before));
  AddInstead(table, *found, &finding);
  if (table.host_names.size() > 1)
    finding.next_steps.push_back(
        "measure it: `ncclwatch doctor --active --only pair-bandwidth` under the launcher, on the hosts of the job");
  finding.next_steps.push_back(
      "look at the counters of what is named: port and link errors, speed and width of the links, congestion "
      "(`ibqueryerrors`, `ethtool -S`, `nvidia-smi nvlink -e`), and at who else uses it since then");
  AddAdvice(&finding);
  return finding;
}

constexpr std::size_t kCallsInAll = 4'000'000;  // of all ranks, that are looked at
constexpr std::size_t kMostOfARank = 16384;
constexpr double kLeastOfStretches = 0.1;     // of the time, where calls repeat no steps
constexpr double kLeastChronic = 0.006;       // of the step, where hundreds of steps tell it
constexpr std::uint64_t kOneRise_steps = 10;  // and a twentieth of all
constexpr double kExplains = 0.8;             // of what steps take longer, by what else is found

// What is found beside it began then, or costs as much.
bool IsExplained(const Finding& rise, const std::vector<Finding>& others, std::uint64_t steps) {
  const auto explains = [&](const Finding& other) {
    const auto [first, second] = std::minmax(other.onset->step, rise.onset->step);
    const std::uint64_t apart = second - first;
    return apart <= kOneRise_steps + steps / 20 || *other.share_lost >= kExplains * *rise.share_lost;
  };
  return std::any_of(others.begin(), others.end(), explains);
}

// The cause is what began first; of what was there from the beginning, what costs most.
void SortByOnset(std::vector<Finding>* findings) {
  const auto key = [](const Finding& one) {
    return std::pair(one.onset->since_before ? 0 : one.onset->step, -*one.share_lost);
  };
  std::stable_sort(findings->begin(), findings->end(),
                   [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
}

bool IsStraggler(const Finding& finding) {
  return finding.kind == Kind::kStraggler || finding.kind == Kind::kStarvedInput ||
         finding.kind == Kind::kBlockingCheckpoint;
}

// Too little for the steps at hand.
void AddChronic(const View& view, const StepTable& table, const SlowContext& context, std::vector<Finding>* findings) {
  LatenessSums own;
  LatenessSums* const sums = context.lateness ? context.lateness : &own;
  AddLateness(table, sums);
  const auto found = FindChronic(*sums, table, kLeastChronic);
  if (!found) return;
  // Whoever waits for a straggler in one communicator comes a little later in another.
  if (std::none_of(findings->begin(), findings->end(), IsStraggler))
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
void AddStarvedJob(const View& view, const StepTable& table, std::vector<Finding>* findings) {
  const std::optional<StarvedJob> found = FindStarvedJob(view.snapshot->meanwhile);
  if (!found || !IsSteadyLoop(table)) return;
  const auto loses_less = [&](const Finding& one) { return IsStraggler(one) && *one.share_lost < found->share; };
  if (!std::all_of(findings->begin(), findings->end(), loses_less)) return;
  *findings = {StarvedFinding(view, table, *found)};
}

void AddByOwnTime(const View& view, const StepTable& table, double least, std::vector<Finding>* findings) {
  if (!findings->empty()) return;
  for (const Straggler& found : FindStragglersByOwnTime(table, least))
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
  for (const Straggler& found : FindStragglers(table, least_lost))
    findings.push_back(StragglerFinding(view, table, found));
  if (table.stretch > 0) {
    AddByOwnTime(view, table, least_lost, &findings);
    return Finished(view, std::move(findings));
  }
  AddStarvedJob(view, table, &findings);
  if (auto found = LinkFinding(view, table, context.topology, kLeastShareLost)) findings.push_back(std::move(*found));
  AddChronic(view, table, context, &findings);
  if (const auto found = FindBubble(table, context.least_idle)) findings.push_back(BubbleFinding(view, table, *found));
  AddByOwnTime(view, table, least_lost, &findings);
  SortByOnset(&findings);
  if (const auto found = FindRise(table, kLeastRegression)) {
    Finding rise = RegressionFinding(view, table, *found);
    if (!IsExplained(rise, findings, table.NumberOf(table.steps() - 1) - table.first))
      findings.push_back(std::move(rise));
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
