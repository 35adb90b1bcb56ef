// What a leader does about what it has found: says it, writes it, saves evidence, ends the job.
#include <sys/stat.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/diagnose.h"
#include "core/reader/load.h"
#include "core/report/render.h"
#include "core/report/where.h"
#include "core/slow/machine.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/act/collector.h"
#include "watchdog/act/end_job.h"
#include "watchdog/act/files.h"
#include "watchdog/act/hook.h"
#include "watchdog/act/system_log.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/base/log_text.h"
#include "watchdog/watch/leader/leader.h"
#include "watchdog/watch/process/ending.h"

namespace ncclwatch::watch {
namespace {

using diagnosis::Certainty;

constexpr std::int64_t kSaveAtMost_ns = 10'000 * kMs;  // for evidence, before a job is ended all the same
constexpr std::int64_t kStacksFromAfar_ns =
    act::kStacksDeadline_ms * kMs + 2000 * kMs;  // from another node: taken there, by each process itself if need be
constexpr std::int64_t kCompareOwnEvery_ns = 400 * kMs;
constexpr std::int64_t kEndThemselves_ns = Ending::kAtMost_ns;
constexpr std::int64_t kEndAtMost_ns = kEndThemselves_ns + 1000 * kMs;
constexpr std::uint64_t kMostVerdicts = 50;  // printed for one job
constexpr std::uint64_t kNewestCalls = 16;   // of a process, among which the newest whole record is looked for

// The thread whose stack says what the process does about NCCL; 0 if none of its calls is left.
std::uint32_t ThreadOf(const reader::MappedBox& box) {
  const std::uint64_t head = box.head();
  reader::Call call;
  for (std::uint64_t i = 1; i <= std::min(head, kNewestCalls); ++i)
    if (box.Read(head - i, &call)) return call.thread;
  return 0;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// What a verdict says, at the level of its certainty.
void Tell(const std::optional<PublishedVerdict>& published, const std::string& text) {
  if (published && published->certainty == Certainty::kSuspected)
    log::Warn("{}", text);
  else
    log::Error("{}", text);
}

bool Among(const std::vector<act::StackTarget>& targets, std::int32_t pid) {
  return std::any_of(targets.begin(), targets.end(), [pid](const auto& target) { return target.pid == pid; });
}

}  // namespace

void Leader::SetVerdictAt(std::int64_t at_ns) {
  reader::LeaderState leader_state = journal_.leader_state();
  leader_state.verdict_at_ns = at_ns;
  journal_.WriteState(leader_state);
}

void Leader::Publish(const diagnosis::Diagnosis& diagnosis, std::int64_t at_ns, bool first) {
  published_ = PublishedFrom(diagnosis.findings.front());
  unproven_ = job_.IsHub() && job_.Unproven();
  own_boxes_agree_ = false;
  deaths_at_verdict_ = Deaths();
  if (first) {
    stacks_.clear();
    completions_ = 0;
  }
  const bool unsaid = unsaid_;
  unsaid_ = false;
  job_verdict_ = job_.IsHub();
  if (!WriteVerdict(diagnosis, at_ns)) return;
  unsaid_ = first && round_ && round_->first_look;
  if (unsaid_) return SayToAll(at_ns);
  Say(at_ns, first || unsaid);
}

void Leader::SayWhatWaits() {
  if (std::exchange(unsaid_, false) && reported_) Say(journal_.leader_state().verdict_at_ns, true);
}

void Leader::Linger() {
  SayWhatWaits();
  job_.Linger();
}

void Leader::Say(std::int64_t at_ns, bool first) {
  // Said right after the files are written, and counted once it is said: a successor says again what was cut off
  // before.
  const std::uint64_t before = lease_->words().verdicts.load(std::memory_order_acquire);
  if (before < kMostVerdicts) {
    const std::string text = diagnosis::ToText(WithStacks(*reported_));
    Tell(published_, text);
  }
  if (first) lease_->words().verdicts.fetch_add(1, std::memory_order_acq_rel);
  SayToAll(at_ns);
  if (unproven_ && !OwnBoxesSayAsMuch()) return;
  own_boxes_agree_ = true;
  if (context_.settings.on_fault != settings::OnFault::kReport && before < kMostVerdicts) SaveEvidence();
  if (before == 0 && first && !context_.settings.hook.empty()) StartHook();
}

void Leader::StartHook() {
  act::Hook hook;
  hook.command = context_.settings.hook;
  hook.input = context_.directory.PathOf("diagnosis.json");
  hook.environment = *environment_;
  hook.limit_s = context_.settings.hook_timeout_s;
  hook.complain = [](const std::string& line) { log::Error("{}", line); };
  act::TellSystemLog(context_.own->identity, "starts the command of NCCLWATCH_HOOK");
  if (!act::StartHook(std::move(hook))) log::Error("NCCLWATCH_HOOK could not be started");
}

// Not where `ncclwatch run` does so itself: then the new one finds that there is one, and ends.
void Leader::StartCollector() {
  if (context_.settings.trace != settings::Trace::kFull) return;
  act::CollectorStart start;
  start.command = context_.command;
  start.run_directory = context_.directory.path();
  start.to = act::CollectorPlace(context_.settings.trace_directory, context_.settings.out,
                                 reader::Text(context_.own->identity.job), start.run_directory);
  start.most_bytes = context_.settings.trace_most_bytes;
  start.environment = *environment_;
  start.complain = [](const std::string& line) { log::Error("{}", line); };
  if (start.command.empty())
    log::Error("calls are not recorded: the command ncclwatch does not lie beside this library (NCCLWATCH_COMMAND)");
  else if (start.to.empty())
    log::Error("calls are not recorded: the present directory is in memory; NCCLWATCH_TRACE_DIR names another one");
  else if (!act::StartCollector(std::move(start)))
    log::Error("calls are not recorded: no thread for the collector");
}

void Leader::StartMetrics() {
  if (context_.settings.metrics.empty()) return;
  act::MetricsStart start;
  start.command = context_.command;
  start.run_directory = context_.directory.path();
  start.where = context_.settings.metrics;
  start.token_file = context_.settings.metrics_token_file;
  start.environment = *environment_;
  start.complain = [](const std::string& line) { log::Error("{}", line); };
  if (start.command.empty())
    log::Error("there are no metrics: the command ncclwatch does not lie beside this library (NCCLWATCH_COMMAND)");
  else if (!act::StartMetrics(std::move(start)))
    log::Error("there are no metrics: no thread for them");
}

void Leader::Withdraw(const diagnosis::Diagnosis& diagnosis) {
  const std::string line = WithdrawalLine(*published_, Realtime());
  published_.reset();
  stacks_.clear();
  const bool said = !std::exchange(unsaid_, false);
  if (WriteVerdict(diagnosis, 0)) {
    if (said) log::Warn("{}", line);
    SayToAll(0);
  }
  reported_.reset();
}

diagnosis::Diagnosis Leader::WithStacks(diagnosis::Diagnosis judged) const {
  if (!IsHubsVerdict()) diagnosis::AddMachines(machines_, &judged.findings);  // a hub has done so before it tells
  diagnosis::AddWhere(stacks_, &judged);
  return judged;
}

// Files and black box must tell the same if this process is killed here: its launcher may be about to. So the slow part
// comes first, and the stacks that the verdict quotes and its instant right before the names.
bool Leader::WriteVerdict(const diagnosis::Diagnosis& judged, std::int64_t at_ns) {
  reported_ = judged;
  const diagnosis::Diagnosis shown = WithStacks(judged);
  std::optional<act::Draft> for_quoting;
  if (!stacks_.empty()) {
    context_.directory.MakeFolder(reader::kStacksFolder);  // a member quotes what the hub has told it
    for_quoting.emplace(context_.directory, reader::kVerdictStacksFile)
        .Write(reader::Format({.verdict_at_ns = at_ns, .processes = stacks_}));
  }
  act::Draft for_programs(context_.directory, "diagnosis.json"), for_people(context_.directory, "diagnosis.txt");
  for_programs.Write(diagnosis::ToJson(shown));
  for_people.Write(diagnosis::ToText(shown));
  if (!lease_->Mine()) return false;  // held up for so long that another leads, and may have written
  std::string error = for_quoting ? for_quoting->Keep() : "";
  SetVerdictAt(at_ns);
  for (act::Draft* draft : {&for_programs, &for_people}) {
    const std::string why = draft->Keep();
    if (error.empty()) error = why;
  }
  if (error.empty()) log::Debug("diagnosis.json is written: {}", OutcomeOf(judged));
  if (error.empty() || said_no_room_) return true;
  said_no_room_ = true;
  log::Error("the diagnosis could not be written: {}", error);
  return true;
}

// Of the standing verdict if there is one: culprits first, then every process of the node that can be looked at.
EvidenceRequest Leader::Request() const {
  EvidenceRequest request;
  act::Dump& dump = request.dump;
  dump.directory = context_.directory;
  dump.verdict = reported_.has_value();
  dump.redact = context_.settings.redact;
  const format::Identity& identity = context_.own->identity;
  dump.out = OutFolder(context_);
  for (const Member& member : group_wait_.members())
    if (!member.own) dump.boxes.push_back(BaseName(member.box->path()));
  dump.own = context_.own;
  dump.own_name = BaseName(context_.own_path);
  if (!said_no_room_) dump.complain = [](const std::string& line) { log::Error("{}", line); };
  if (reported_) {
    request.verdict_at_ns = journal_.leader_state().verdict_at_ns;
    for (const diagnosis::Culprit& culprit : reported_->findings.front().culprit_details) {
      if (!culprit.pid || culprit.exit || culprit.host != identity.host) continue;
      const auto pid = static_cast<std::int32_t>(*culprit.pid);
      const auto member = std::find_if(
          group_wait_.members().begin(), group_wait_.members().end(),
          [&](const Member& one) { return one.pid == pid && one.start_time == culprit.start_time && one.near; });
      // Another machine or container may bear this host's name, and its pids mean other processes here.
      const bool boxless = group_wait_.IsBoxless(*culprit.pid, culprit.start_time);
      if (member == group_wait_.members().end() && !boxless) {
        SayNotHere(culprit);
        continue;
      }
      dump.suspects.push_back({pid, culprit.rank, culprit.start_time});
      request.targets.push_back({pid, culprit.start_time, boxless ? 0 : ThreadOf(*member->box)});
    }
  }
  for (const Member& member : group_wait_.members())
    if (member.near && !member.gone && !Among(request.targets, member.pid))
      request.targets.push_back({member.pid, member.start_time, ThreadOf(*member.box)});
  return request;
}

void Leader::SayNotHere(const diagnosis::Culprit& culprit) const {
  if (job_verdict_) return;  // of the whole job: the node that it lives on looks at it
  log::Warn("no evidence of rank {}: pid {} may be another process here (it is of another boot, container or time)",
            culprit.rank, *culprit.pid);
}

void Leader::SaveEvidence() {
  save_began_ns_ = Monotonic();
  EvidenceRequest request = Request();
  log::Debug("saves evidence: stacks of {} processes, {} of them suspects", request.targets.size(),
             request.dump.suspects.size());
  evidence_.Ask(std::move(request));
}

// Stacks of the standing verdict's culprits are told with it from now on.
void Leader::TakeIn(Stacks stacks) {
  log::Debug("stacks of {} processes are read", stacks.processes.size());
  if (!stacks.complaint.empty() && !said_no_stacks_) {
    said_no_stacks_ = true;
    log::Warn("stacks are missing: {}", stacks.complaint);
  }
  const std::int64_t at_ns = journal_.leader_state().verdict_at_ns;
  if (!reported_ || reported_->clean() || at_ns == 0 || stacks.verdict_at_ns != at_ns) return;
  std::vector<reader::ProcessStacks> quoted;
  for (const diagnosis::Finding& finding : reported_->findings)
    for (const diagnosis::Culprit& culprit : finding.culprit_details)
      for (const reader::ProcessStacks& process : stacks.processes)
        if (culprit.pid == process.pid && culprit.start_time == process.start_time) quoted.push_back(process);
  if (!TellHubOfStacks(at_ns, quoted)) AddStacks(std::move(quoted), at_ns);
}

// Of culprits, to those that are there.
void Leader::AddStacks(std::vector<reader::ProcessStacks> more, std::int64_t at_ns) {
  const std::vector<std::string> before = diagnosis::WhereLines(WithStacks(*reported_));
  for (reader::ProcessStacks& process : more) {
    std::erase_if(stacks_, [&](const reader::ProcessStacks& old) {
      return old.pid == process.pid && old.start_time == process.start_time && old.host == process.host;
    });
    stacks_.push_back(std::move(process));
  }
  const std::vector<std::string> lines = diagnosis::WhereLines(WithStacks(*reported_));
  if (lines.empty() || lines == before || !WriteVerdict(*reported_, at_ns)) return;
  SayToAll(at_ns);
  std::string text;
  for (const std::string& line : lines) text += diagnosis::Wrapped("- ", line);
  struct stat info = {};
  constexpr char kMerged[] = "stacks/merged.txt";
  if (context_.directory.Stat(kMerged, &info))
    text += fmt::format("all stacks: {}\n", context_.directory.PathOf(kMerged));
  Tell(published_, text);
}

// What is asked for, by whomever (format::Lease::evidence_wanted), and what becomes of it.
void Leader::LookAfterEvidence() {
  format::Lease& words = lease_->words();
  if (!requests_) requests_ = words.evidence_given.load(std::memory_order_acquire);
  const std::uint64_t wanted = words.evidence_wanted.load(std::memory_order_acquire);
  if (wanted > *requests_) {
    requests_ = wanted;
    if (wanted != asked_from_afar_) job_.Ask({.evidence = true, .diagnosed_ns = 0, .stacks = {}}, false);
    EvidenceRequest request = Request();
    request.request = wanted;
    request.dump.suspects.clear();
    for (const Member& member : group_wait_.members())
      if (member.near && !member.gone) request.dump.suspects.push_back({member.pid, member.rank, member.start_time});
    evidence_.Ask(std::move(request));
  }
  if (std::optional<Stacks> stacks = evidence_.Tick()) TakeIn(std::move(*stacks));
  if (evidence_.answered() <= words.evidence_given.load(std::memory_order_relaxed)) return;
  words.evidence_given.store(evidence_.answered(), std::memory_order_release);
  log::Warn("evidence as asked for: {}/stacks and /evidence", context_.directory.path());
}

// Stacks of culprits that are on other nodes, or their hub's word that quotes ours.
bool Leader::AwaitsStacks(std::int64_t now_ns) const {
  if (!job_verdict_ || !reported_ || now_ns - save_began_ns_ >= kStacksFromAfar_ns) return false;
  for (const diagnosis::Finding& finding : reported_->findings)
    for (const diagnosis::Culprit& culprit : finding.culprit_details) {
      const bool quoted = std::any_of(stacks_.begin(), stacks_.end(), [&](const reader::ProcessStacks& one) {
        return culprit.pid == one.pid && culprit.start_time == one.start_time;
      });
      if (culprit.pid && !culprit.exit && !quoted) return true;
    }
  return false;
}

// What strangers may have had a part in is acted on only where the boxes of this node alone give reason enough.
bool Leader::OwnBoxesSayAsMuch() const {
  const diagnosis::Diagnosis own = diagnosis::Diagnose(TakeSnapshot(Monotonic(), UINT64_MAX, false));
  return !own.clean() && own.findings.front().certainty >= Certainty::kLikely;
}

bool Leader::MayEnd(std::int64_t now_ns) {
  if (!unproven_ || own_boxes_agree_) return true;
  if (now_ns - compared_own_ns_ < kCompareOwnEvery_ns) return false;
  compared_own_ns_ = now_ns;
  if (!OwnBoxesSayAsMuch()) return false;
  own_boxes_agree_ = true;
  SaveEvidence();
  return true;
}

void Leader::EndIfDue(std::int64_t now_ns) {
  if (!published_ || unsaid_ || ending_ || context_.settings.on_fault != settings::OnFault::kAbort) return;
  if (published_->certainty < Certainty::kLikely || !MayEnd(now_ns)) return;
  if (!evidence_.Saved() && now_ns - save_began_ns_ <= kSaveAtMost_ns) return;
  if (AwaitsStacks(now_ns)) return;
  log::Error("ending the job: communicators are aborted, and processes that do not end exit with status 86");
  BeginEnding(now_ns);
}

void Leader::BeginEnding(std::int64_t now_ns) {
  ending_ = true;
  end_at_ns_ = now_ns;
  std::string why = "ends its job on this node (NCCLWATCH_ON_FAULT=abort)";
  if (reported_ && !reported_->clean())
    why += fmt::format(" over {}", diagnosis::Name(reported_->findings.front().kind));
  act::TellSystemLog(context_.own->identity, why);
  lease_->words().ending.store(lease_->Generation(), std::memory_order_release);
}

// Cannot end itself, whatever it is told.
bool Leader::IsHeld(const Member& member) {
  return member.last == format::Observed::kStopped || member.last == format::Observed::kFrozen ||
         member.last == format::Observed::kStuck;
}

bool Leader::EndOthers(std::int64_t now_ns) {
  group_wait_.LookForDeaths(now_ns);
  group_wait_.LookAtSilent(now_ns);
  bool left = false;
  for (const Member& member : group_wait_.members()) {
    if (member.own || member.gone || member.pidfd < 0) continue;
    left = true;
    if (!IsHeld(member) && now_ns - end_at_ns_ < kEndThemselves_ns) continue;
    if (killed_.insert(member.pid).second)
      act::TellSystemLog(context_.own->identity,
                         fmt::format("kills process {} (rank {}), which does not end", member.pid, member.rank));
    act::Kill(member.pidfd);
  }
  return !left || now_ns - end_at_ns_ >= kEndAtMost_ns;
}

}  // namespace ncclwatch::watch
