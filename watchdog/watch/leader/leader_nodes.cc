// What a leader does as one of several: it goes by its hub's word, or, being the hub, judges the job of all nodes. What
// it looks at is then the hub's table in place of its own boxes' comparison; fetched boxes stand beside its own.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/diagnose.h"
#include "core/model/text.h"
#include "core/slow/machine.h"
#include "core/view/as_of.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/act/files.h"
#include "watchdog/log/log.h"
#include "watchdog/rundir/process.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/base/log_text.h"
#include "watchdog/watch/leader/leader.h"

namespace ncclwatch::watch {
namespace {

using diagnosis::LiveCompare;

constexpr char kWordFile[] = "verdict.word";
constexpr int kMostRounds = 3;               // of asking other nodes, for one diagnosis
constexpr std::size_t kMostWord = 64 << 20;  // bytes of the hub's word as it is kept
constexpr int kMostCompletions = 3;          // diagnoses more of a standing verdict for the sake of its evidence
constexpr std::int64_t kBoxlessEvery_ns = 1000 * kMs;
constexpr std::uint64_t kFirstLookCalls = 512;  // newest calls of each process of this node that a first look takes in

bool Explains(const diagnosis::Diagnosis& diagnosis, std::uint64_t communicator) {
  return std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), [&](const diagnosis::Finding& finding) {
    return finding.communicator && finding.communicator->id == communicator;
  });
}

bool IsDeath(const diagnosis::Diagnosis& diagnosis) {
  if (diagnosis.clean()) return false;
  const diagnosis::Finding& first = diagnosis.findings.front();
  return first.certainty == diagnosis::Certainty::kCertain && !first.culprit_details.empty() &&
         first.culprit_details.front().exit.has_value();
}

bool SameVerdict(const PublishedVerdict& published, const diagnosis::Diagnosis& diagnosis) {
  return !diagnosis.clean() && diagnosis.findings.front().kind == published.kind &&
         diagnosis.findings.front().culprits == published.culprits;
}

// Ranks that have made the call in question as far as their node's summary tells; their records have not been seen.
std::size_t KnownByProgressOnly(const diagnosis::Diagnosis& diagnosis) {
  std::size_t ranks = 0;
  for (const diagnosis::CallSummary& call : diagnosis.findings.front().calls)
    if (!call.op && call.state != diagnosis::CallState::kNotCalled && call.state != diagnosis::CallState::kNotObserved)
      ranks += call.ranks.size();
  return ranks;
}

}  // namespace

const std::vector<LiveCompare::Suspicion>& Leader::Suspicions() const {
  return job_.IsHub() ? job_.hub().table().suspicions() : compare_->suspicions();
}

void Leader::Acknowledge(std::uint64_t communicator, std::int64_t now_ns) {
  compare_->Acknowledge(communicator, now_ns);
  if (job_.IsHub()) job_.hub().table().Acknowledge(communicator, now_ns);
}

std::int64_t Leader::QuietSince() const {
  return job_.IsHub() ? job_.hub().table().QuietSince() : compare_->QuietSince();
}

std::optional<LiveCompare::Front> Leader::FrontOf(std::uint64_t communicator) const {
  if (job_.IsHub()) return job_.hub().table().FrontOf(communicator);
  for (const LiveCompare::Front& front : compare_->Fronts())
    if (front.communicator == communicator) return front;
  return std::nullopt;
}

int Leader::Deaths() const { return job_.IsHub() ? job_.hub().table().deaths() : group_wait_.deaths(); }

bool Leader::IsGone(std::int32_t rank) const {
  return group_wait_.IsGone(rank) || (job_.IsHub() && job_.hub().table().IsGone(rank));
}

// Deaths on other nodes since the last call.
int Leader::DeathsElsewhere() {
  if (!job_.IsHub()) {
    deaths_in_table_ = 0;
    return 0;
  }
  const int deaths = job_.hub().table().deaths();
  const int fresh = deaths - std::min(deaths, deaths_in_table_);
  deaths_in_table_ = deaths;
  return fresh;
}

// What has come from the other nodes.
void Leader::Meet(std::int64_t now_ns) {
  job_.Receive(now_ns, group_wait_);
  if (std::optional<nodes::VerdictBroadcast> word = job_.TakeVerdictBroadcast())
    word->unproven ? ShowWord(*word) : TakeVerdictBroadcast(*word);
  while (std::optional<nodes::Action> action = job_.TakeAction()) TakeAction(*action);
  if (!job_.IsHub()) SayWhatWaits();
  if (job_.TakeReign()) {
    SayWhatWaits();
    round_.reset();
    Learn(now_ns);
    // Deaths that are news only to this hub have been judged by the one before it.
    deaths_in_table_ = 0;
    if (reported_) deaths_at_verdict_ = INT32_MAX;
    SayToAll(reported_ ? journal_.leader_state().verdict_at_ns : 0);
  }
  if (!job_.IsHub()) round_.reset();
}

// Nobody else knows better, or can be asked.
bool Leader::DiagnosesItself() const {
  return job_.role() == ClusterCoordinator::Role::kAlone || job_.role() == ClusterCoordinator::Role::kHub ||
         job_.Unproven();
}

// Strangers may have a part in it: then nothing is certain.
diagnosis::Diagnosis Leader::DiagnoseJob(const diagnosis::Snapshot& snapshot) const {
  diagnosis::Diagnosis judged = diagnosis::Diagnose(snapshot);
  if (!job_.Unproven()) return judged;
  for (diagnosis::Finding& finding : judged.findings)
    finding.certainty = std::min(finding.certainty, diagnosis::Certainty::kLikely);
  return judged;
}

// The hub, or who will be it, is to judge: what it cannot see from there is looked at here, and goes with the next
// summary.
void Leader::LookForHub(std::int64_t now_ns, const ShouldDiagnose& ripe) {
  if (!ripe.stall) return;
  group_wait_.LookAtSilent(now_ns);
  LookForBoxlessRanks(now_ns);
}

void Leader::LookForBoxlessRanks(std::int64_t now_ns) {
  const std::vector<LiveCompare::Front> fronts = compare_->Fronts();
  const bool initializing =
      std::any_of(fronts.begin(), fronts.end(), [](const LiveCompare::Front& front) { return front.initializing > 0; });
  if (!initializing || now_ns - looked_boxless_ns_ < kBoxlessEvery_ns) return;
  looked_boxless_ns_ = now_ns;
  group_wait_.LookForBoxlessRanks(now_ns);
}

// A diagnosis of the job begins: what is known is looked at, and who should be asked for more is asked.
void Leader::BeginRound(std::int64_t now_ns, const ShouldDiagnose& ripe) {
  const bool sure = ripe.deaths || ripe.mismatch;
  if (!sure && !job_.Settled(now_ns)) return;
  const std::int64_t at_ns = Monotonic();
  diagnosed_ns_ = now_ns;
  const diagnosis::Diagnosis first = DiagnoseJob(TakeSnapshot(at_ns, kFirstLookCalls));
  diagnosing_took_ns_ = Monotonic() - at_ns;
  round_ = Round{ripe, 0, false, at_ns, 0, true};
  // This node's processes may be ended within 0.1 s of the first death. How far the others are is not known well.
  if (ripe.new_deaths && IsDeath(first)) Follow(first, at_ns);
  const bool only_standing = ripe.standing && !ripe.deaths && !ripe.mismatch && !ripe.stall;
  if (only_standing && published_ && !first.clean()) {
    const PublishedVerdict now = PublishedFrom(first.findings.front());
    const bool same = now.kind == published_->kind && now.culprits == published_->culprits;
    const bool complete = reported_ && (KnownByProgressOnly(*reported_) == 0 || ++completions_ > kMostCompletions);
    if (same && now.certainty <= published_->certainty && complete && !KnowsMore(first)) {
      round_.reset();
      return;
    }
  }
  round_->first_look = false;
  AskOrDiagnose(now_ns, first, at_ns);
}

void Leader::ContinueRound(std::int64_t now_ns) {
  if (!job_.hub().Gathered(now_ns)) return;
  const std::int64_t began_ns = Monotonic();
  diagnosis::Snapshot snapshot = TakeSnapshot(round_->asked_ns, UINT64_MAX);
  diagnosis::RollBack(&snapshot);  // some have answered later, and this node's own boxes go on
  const diagnosis::Diagnosis known = DiagnoseJob(snapshot);
  diagnosing_took_ns_ = Monotonic() - began_ns;
  AskOrDiagnose(now_ns, known, round_->asked_ns);
}

// Goes on asking as long as the answers point to somebody else, then judges.
void Leader::AskOrDiagnose(std::int64_t now_ns, const diagnosis::Diagnosis& known, std::int64_t at_ns) {
  BeatInBetween();
  nodes::Hub& hub = job_.hub();
  std::vector<std::string> whom = hub.Whom(known);
  std::uint64_t whole = 0;
  if (whom.empty() && !round_->asked_for_all) {
    for (const LiveCompare::Suspicion& suspicion : hub.table().suspicions()) {
      if (suspicion.what != LiveCompare::What::kDifferentCall || Explains(known, suspicion.communicator)) continue;
      round_->asked_for_all = true;
      whole = suspicion.communicator;
      whom = hub.WhomForAll(whole);
      break;
    }
  }
  if (!whom.empty() && round_->asked++ < kMostRounds) {
    if (round_->asked_ns == 0) round_->asked_ns = Monotonic();
    return hub.Gather(whom, whole, now_ns);
  }
  const bool moved = Follow(known, at_ns);
  const bool quick = round_->ripe.new_deaths;
  if (!moved && published_ && SameVerdict(*published_, known) &&
      (KnowsMore(known) || (quick && journal_.leader_state().verdict_at_ns == round_->began_ns))) {
    if (WriteVerdict(known, at_ns) && !unsaid_) SayToAll(at_ns);  // the same verdict with all its evidence
  }
  SayWhatWaits();
  if (round_->ripe.mismatch) {
    for (const auto& [communicator, seen] : suspected_)
      if (seen.second != 0) Acknowledge(communicator, now_ns);
    suspected_.clear();
  }
  hub.LetGo();
  round_.reset();
}

// Nodes have come to this hub since the standing verdict was told, or have answered: it may have followed another hub a
// moment before.
bool Leader::KnowsMore(const diagnosis::Diagnosis& diagnosis) const {
  if (!reported_ || reported_->clean() || diagnosis.clean()) return false;
  return diagnosis.watched != reported_->watched ? diagnosis.watched > reported_->watched
                                                 : KnownByProgressOnly(diagnosis) < KnownByProgressOnly(*reported_);
}

// It says no more than that some are not seen, and they were a moment ago.
bool Leader::MayBeKnownSoon(const diagnosis::Diagnosis& diagnosis, std::int64_t now_ns) const {
  if (diagnosis.clean() || !job_.LostLately(now_ns)) return false;
  const diagnosis::Finding& first = diagnosis.findings.front();
  const std::set<int> lost = job_.IsHub() ? job_.LostRanks() : std::set<int>();
  return first.certainty < diagnosis::Certainty::kCertain && first.kind != diagnosis::Kind::kDeadRank &&
         first.kind != diagnosis::Kind::kEarlyExit &&
         std::any_of(first.culprits.begin(), first.culprits.end(), [&](int rank) {
           return lost.contains(rank) ||
                  std::count(diagnosis.unseen_ranks.begin(), diagnosis.unseen_ranks.end(), rank) > 0;
         });
}

void Leader::SayToAll(std::int64_t at_ns) {
  job_verdict_ = job_.IsHub();
  if (!job_verdict_) return;
  nodes::VerdictBroadcast word{.verdicts = lease_->words().verdicts.load(std::memory_order_acquire),
                               .limits = limits_,
                               .longest_wait_ns = longest_wait_ns_,
                               .stands = at_ns != 0 && published_.has_value(),
                               .announced = lease_->words().announced.load(std::memory_order_acquire) != 0,
                               .unproven = job_.Unproven(),
                               .diagnosed_ns = at_ns == 0 ? 0 : at_ns + job_.job_minus_monotonic_ns(),
                               .hub_host = {},
                               .diagnosis = reported_,
                               .stacks = stacks_};
  if (word.diagnosis) diagnosis::AddMachines(machines_, &word.diagnosis->findings);
  KeepWord(word);
  job_.Say(std::move(word), Monotonic());
  for (const reader::MachineSample& look : machines_)
    if (!look.events.empty()) job_.TellMachine(reader::Format(look, /*with_figures=*/false));
}

// For whoever leads this node next: from its boxes alone the verdict on the whole job could not be derived.
void Leader::KeepWord(const nodes::VerdictBroadcast& word) const {
  act::Draft kept(context_.directory, kWordFile);
  for (const std::string& piece : nodes::Write(word)) kept.Write(piece);
  kept.Keep();
}

// True if the standing verdict is one on the whole job, and it is told again as it was told.
bool Leader::RecallWord(const reader::LeaderState& last) {
  if (last.generation >> 32 == 0) return false;
  const std::string bytes = rundir::ReadSmall(context_.directory, kWordFile, kMostWord).value_or("");
  const std::optional<nodes::VerdictBroadcast> word = nodes::ReadKept(bytes);
  if (!word || !word->stands || word->diagnosed_ns - last.job_minus_monotonic_ns != last.verdict_at_ns) return false;
  published_ = PublishedFrom(word->diagnosis->findings.front());
  reported_ = word->diagnosis;
  stacks_ = word->stacks;
  unproven_ = word->unproven;
  deaths_at_verdict_ = INT32_MAX;
  job_verdict_ = true;
  return true;
}

// From another node: evidence is wanted of all, or stacks of culprits there.
void Leader::TakeAction(const nodes::Action& action) {
  if (action.evidence) asked_from_afar_ = lease_->words().evidence_wanted.fetch_add(1, std::memory_order_acq_rel) + 1;
  const std::int64_t at_ns = journal_.leader_state().verdict_at_ns;
  if (action.stacks.empty() || !job_.IsHub() || !reported_ || at_ns == 0) return;
  if (action.diagnosed_ns == at_ns + job_.job_minus_monotonic_ns()) AddStacks(action.stacks, at_ns);
}

// True if it is the hub that quotes them, with its word.
bool Leader::TellHubOfStacks(std::int64_t verdict_at_ns, const std::vector<reader::ProcessStacks>& stacks) {
  if (job_.role() != ClusterCoordinator::Role::kMember || !job_verdict_) return false;
  if (stacks.empty()) return true;
  job_.Ask({false, verdict_at_ns + job_.job_minus_monotonic_ns(), stacks}, true);
  return true;
}

// Whoever the hub is, it may be a stranger or listen to one: one line, and nothing else follows from it.
void Leader::ShowWord(const nodes::VerdictBroadcast& word) {
  if (!word.stands || !word.diagnosis) return;
  diagnosis::Finding first = word.diagnosis->findings.front();
  first.certainty = std::min(first.certainty, diagnosis::Certainty::kLikely);
  const std::string line = Headline(first);
  if (line == std::exchange(shown_, line)) return;
  log::Warn("from another node, which may be a stranger, so ncclwatch does not act upon it: {}", line);
}

// The hub has spoken: its verdict is this node's, in every file and in the box.
void Leader::TakeVerdictBroadcast(const nodes::VerdictBroadcast& word) {
  KeepWord(word);
  limits_ = word.limits;
  longest_wait_ns_ = std::max(longest_wait_ns_, word.longest_wait_ns);
  Learn(Monotonic());
  format::Lease& words = lease_->words();
  if (word.announced) words.announced.store(1, std::memory_order_release);
  if (!word.diagnosis) return;
  const std::int64_t at_ns = word.stands ? word.diagnosed_ns - job_.job_minus_monotonic_ns() : 0;
  if (word.stands)
    published_ = PublishedFrom(word.diagnosis->findings.front());
  else
    published_.reset();
  job_verdict_ = true;
  unproven_ = false;
  stacks_ = word.stacks;
  deaths_at_verdict_ = group_wait_.deaths();
  if (!WriteVerdict(*word.diagnosis, at_ns)) return;
  if (!word.stands) reported_.reset();
  if (word.verdicts <= words.verdicts.load(std::memory_order_acquire)) return;
  words.verdicts.store(word.verdicts, std::memory_order_release);
  if (!word.stands) return;
  const std::string line =
      fmt::format("{}, said in full by the leader on {}; here: {}", Headline(word.diagnosis->findings.front()),
                  word.hub_host, context_.directory.PathOf("diagnosis.txt"));
  if (published_->certainty == diagnosis::Certainty::kSuspected)
    log::Warn("{}", line);
  else
    log::Error("{}", line);
  if (context_.settings.on_fault != settings::OnFault::kReport) SaveEvidence();
}

}  // namespace ncclwatch::watch
