#include "watchdog/watch/leader/slow_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/model/text.h"
#include "core/nodes/steps_code.h"
#include "core/report/render.h"
#include "core/slow/machine.h"
#include "core/slow/number_findings.h"
#include "core/slow/skew.h"
#include "core/view/view.h"
#include "watchdog/evidence/topology_file.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/node/node_steps.h"

namespace ncclwatch::watch {
namespace {

constexpr std::int64_t kSlowEvery_ns = 5'000'000'000;
constexpr std::int64_t kAgain_ns = 2'500'000'000;       // where there is something to be said, or taken back
constexpr int kFirstLooks = 12;                         // ... and in the beginning
constexpr std::int64_t kSlowCostShare = 200;            // of the time at most 1 in 200 goes into looks
constexpr std::int64_t kLineEvery_ns = 60'000'000'000;  // on stderr
constexpr int kLooks = 2, kLooksOfSuspected = 4;        // that find the same before it is said

constexpr std::int64_t kLeastSampled_ms = 5'000;

using diagnosis::Kind;

bool IsStraggler(const diagnosis::Finding& finding) {
  return finding.kind == Kind::kStraggler || finding.kind == Kind::kStarvedInput ||
         finding.kind == Kind::kBlockingCheckpoint;
}

// A straggler is the same once it is known what it does meanwhile.
std::string SignatureOf(const std::vector<diagnosis::Finding>& findings) {
  if (findings.empty()) return {};
  const diagnosis::Finding& first = findings.front();
  const Kind kind = IsStraggler(first) ? Kind::kStraggler : first.kind;
  return fmt::format("{} ({})", diagnosis::Name(kind), diagnosis::Ranks(first.culprits));
}

double StepOf(const diagnosis::Finding& straggler) {
  return straggler.effect ? straggler.effect->after.value_or(0) : 0;
}

// From one late step to the next, as far as it is known.
double ApartOf(const diagnosis::Finding& straggler) {
  const double share = straggler.share_lost.value_or(0);
  return share > 0 ? std::max(StepOf(straggler), static_cast<double>(straggler.late_ns) / 1e9 / share)
                   : StepOf(straggler);
}

// Of the culprits those that live here. What the hub has said does not tell how late they are in a step.
std::vector<act::LateTarget> TargetsOf(const diagnosis::Finding& straggler, const NodeProcesses& group_wait,
                                       const format::Identity& own) {
  constexpr std::size_t kMostTargets = 8;
  const double lost_s = straggler.share_lost.value_or(0) * StepOf(straggler);
  const std::int64_t late_ns = straggler.late_ns != 0 ? straggler.late_ns : static_cast<std::int64_t>(1e9 * lost_s);
  std::vector<act::LateTarget> targets;
  for (const diagnosis::Culprit& culprit : straggler.culprit_details) {
    if (culprit.host != own.host || late_ns <= 0) continue;
    for (const Member& member : group_wait.members())
      if (member.near && !member.gone && culprit.pid == static_cast<std::uint32_t>(member.pid) &&
          culprit.start_time == member.start_time && targets.size() < kMostTargets)
        targets.push_back({member.pid, member.start_time, late_ns});
  }
  return targets;
}

// Ranks of this node that are not late, for comparison.
void AddOthers(const std::vector<diagnosis::Culprit>& late, const NodeProcesses& group_wait,
               std::vector<act::LateTarget>* targets) {
  constexpr std::size_t kOthers = 3;
  std::size_t added = 0;
  for (const Member& member : group_wait.members()) {
    if (added == kOthers) return;
    const auto is_it = [&](const diagnosis::Culprit& one) { return one.pid == static_cast<std::uint32_t>(member.pid); };
    if (!member.near || member.gone || std::any_of(late.begin(), late.end(), is_it)) continue;
    targets->push_back({member.pid, member.start_time, 0});
    ++added;
  }
}

}  // namespace

SlowWatch::SlowWatch(const Context& context, const std::vector<std::string>* environment)
    : context_(context), events_(context), meanwhile_(context, environment) {
  steps_.SetMost(StepsKept(context.own->identity.world_size));
}

void SlowWatch::Hear(std::string_view body) {
  std::optional<std::vector<diagnosis::ReportedRank>> ranks = nodes::ReadSteps(body);
  if (!ranks) return;
  for (diagnosis::ReportedRank& rank : *ranks) steps_.Take(std::move(rank));
}

void SlowWatch::Look(std::int64_t now_ns, const diagnosis::Snapshot& snapshot, const NodeProcesses& group_wait,
                     bool judges_steps, const std::function<void()>& beat) {
  ReadTopologyOnce();
  context_of_job_.least_idle = context_.settings.bubble;
  context_of_job_.lateness = &lateness_;
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  beat();
  std::vector<diagnosis::Finding> numbers = diagnosis::NumberFindings(view);
  diagnosis::AddMachines(snapshot.machines, &numbers);
  if (judges_steps && diagnosis::AllHaveSaid(view))
    if (auto skew = diagnosis::FindSkew(view)) numbers.push_back(std::move(*skew));
  std::vector<diagnosis::IgnoredFindings> ignored;
  LeaveOut(snapshot.ignore, &numbers, &ignored);
  JudgeNumbers(std::move(numbers), now_ns);
  if (judges_steps) {
    const diagnosis::StepTable table = steps_.Table(view);
    beat();
    std::vector<diagnosis::Finding> findings = diagnosis::FindSlowSteps(view, table, context_of_job_);
    LeaveOut(snapshot.ignore, &findings, &ignored);
    LookCloser(now_ns, group_wait, findings);
    LookAtAll(table, group_wait, findings);
    if (Judge(findings, now_ns, &of_steps_)) said_ = std::move(findings);
  }
  const bool again = HasNews() || looks_ < kFirstLooks;
  ++looks_;
  next_ns_ = now_ns + std::max(again ? kAgain_ns : kSlowEvery_ns, kSlowCostShare * (Monotonic() - now_ns));
}

bool SlowWatch::HasFindings() const {
  return !of_steps_.seen.empty() ||
         std::any_of(of_numbers_.begin(), of_numbers_.end(), [](const auto& one) { return !one.second.seen.empty(); });
}

bool SlowWatch::HasNews() const {
  return of_steps_.IsNew() ||
         std::any_of(of_numbers_.begin(), of_numbers_.end(), [](const auto& one) { return one.second.IsNew(); });
}

// A leak is no reason to keep quiet about NaN: each kind is judged for itself.
void SlowWatch::JudgeNumbers(std::vector<diagnosis::Finding> findings, std::int64_t now_ns) {
  std::map<Kind, std::vector<diagnosis::Finding>> by_kind;
  for (const auto& known : of_numbers_) by_kind[known.first];  // may be over
  for (diagnosis::Finding& finding : findings) by_kind[finding.kind].push_back(std::move(finding));
  for (const auto& [kind, found] : by_kind) Judge(found, now_ns, &of_numbers_[kind]);
}

// True if it was said. Only what was there more than once: what lasts for one look is nobody's matter, and of what is
// no more than suspected the next looks may know better.
bool SlowWatch::Judge(const std::vector<diagnosis::Finding>& findings, std::int64_t now_ns, Subject* subject) {
  const std::string signature = SignatureOf(findings);
  subject->looks = signature == std::exchange(subject->seen, signature) ? subject->looks + 1 : 1;
  const bool likely = findings.empty() || findings.front().certainty >= diagnosis::Certainty::kLikely;
  if (subject->looks < (likely ? kLooks : kLooksOfSuspected) || signature == subject->reported) return false;
  if (subject->reported_ns != 0 && now_ns - subject->reported_ns < kLineEvery_ns) return false;
  if (meanwhile_.Busy() && std::any_of(findings.begin(), findings.end(), IsStraggler)) return false;
  subject->reported_ns = now_ns;
  const std::string before = std::exchange(subject->reported, signature);
  if (findings.empty()) log::Warn("over: {}", before);
  for (const diagnosis::Finding& finding : findings) {
    log::Warn("{} ({}): {}", diagnosis::Name(finding.kind), diagnosis::Name(finding.certainty), finding.summary);
    WriteEvent(finding, /*into_out=*/true);
  }
  return true;
}

std::optional<std::vector<diagnosis::Finding>> SlowWatch::TakeSaid() { return std::exchange(said_, std::nullopt); }

void SlowWatch::TakeWord(const std::vector<diagnosis::Finding>& findings, const NodeProcesses& group_wait,
                         std::int64_t now_ns) {
  LookCloser(now_ns, group_wait, findings);
  of_steps_ = {SignatureOf(findings), SignatureOf(findings), kLooks, now_ns};
  for (const diagnosis::Finding& finding : findings) {
    log::Info("the hub says: {} ({}): {}", diagnosis::Name(finding.kind), diagnosis::Name(finding.certainty),
              finding.summary);
    WriteEvent(finding, /*into_out=*/false);
  }
}

// Of stragglers of this node: once for the same ranks, and for others not before kLookAgain_ns, since a look costs the
// node a little.
void SlowWatch::LookCloser(std::int64_t now_ns, const NodeProcesses& group_wait,
                           const std::vector<diagnosis::Finding>& findings) {
  constexpr std::int64_t kLookAgain_ns = 10'000'000'000;
  constexpr double kLateSteps = 24;
  constexpr std::int64_t kMost_ms = 60'000;
  const auto straggler = std::find_if(findings.begin(), findings.end(), IsStraggler);
  if (straggler == findings.end() || meanwhile_.Busy() || straggler->culprits == looked_at_) return;
  if (looked_ns_ != 0 && now_ns - looked_ns_ < kLookAgain_ns) return;
  std::vector<act::LateTarget> targets = TargetsOf(*straggler, group_wait, context_.own->identity);
  if (targets.empty()) return;
  AddOthers(straggler->culprit_details, group_wait, &targets);
  looked_at_ = straggler->culprits;
  looked_ns_ = now_ns;
  const double steps_ms = 1e3 * kLateSteps * ApartOf(*straggler);
  meanwhile_.Begin(std::move(targets), std::clamp(static_cast<std::int64_t>(steps_ms), kLeastSampled_ms, kMost_ms));
}

// Where all wait for the same, nobody is late. Once while steps go on and nothing is found, and once for each finding
// that blames nobody.
void SlowWatch::LookAtAll(const diagnosis::StepTable& table, const NodeProcesses& group_wait,
                          const std::vector<diagnosis::Finding>& findings) {
  constexpr std::size_t kFewestSteps = 20;
  const bool all =
      findings.empty() || (findings.front().culprits.empty() && findings.front().kind != Kind::kStarvedInput);
  const std::string signature = SignatureOf(findings);
  if (!all || meanwhile_.Busy() || table.steps() < kFewestSteps || signature == looked_at_all_) return;
  if (looks_ == 0 || signature != of_steps_.seen) return;  // not seen twice
  std::vector<act::LateTarget> targets;
  AddOthers({}, group_wait, &targets);
  looked_at_all_ = signature;
  if (targets.size() < 2) return;  // one alone tells nothing of all
  meanwhile_.Begin(std::move(targets), kLeastSampled_ms);
}

void SlowWatch::ReadTopologyOnce() {
  const std::string& path = context_.settings.topology;
  if (path.empty() || std::exchange(topology_read_, true)) return;
  std::string wrong;
  context_of_job_.topology = evidence::ReadTopology(path, &wrong);
  if (!wrong.empty()) log::Warn("NCCLWATCH_TOPOLOGY: {}", wrong);
}

void SlowWatch::WriteEvent(const diagnosis::Finding& finding, bool into_out) {
  const std::vector<diagnosis::Culprit>& who = finding.culprit_details;
  const std::string details = diagnosis::ToJsonLine(finding);
  events_.Write({.realtime_ns = finding.detected_at_ns,
                 .type = diagnosis::Name(finding.kind),
                 .step = finding.onset ? static_cast<std::int64_t>(finding.onset->step) : format::kNoStep,
                 .rank = finding.culprits.empty() ? format::kNoRank : finding.culprits.front(),
                 .host = who.empty() ? std::string_view(context_.own->identity.host) : who.front().host,
                 .details = details,
                 .into_out = into_out});
}

}  // namespace ncclwatch::watch
