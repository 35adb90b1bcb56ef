#include "watchdog/watch/leader/leader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/diagnose.h"
#include "core/view/from_boxes.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/evidence/ignore_file.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"
#include "watchdog/watch/base/limits.h"
#include "watchdog/watch/base/log_text.h"

namespace ncclwatch::watch {
namespace {

using diagnosis::Certainty;
using diagnosis::Kind;
using diagnosis::LiveCompare;

constexpr std::int64_t kCompareEvery_ns = 100 * kMs;
constexpr std::int64_t kScanEvery_ns = 200 * kMs;
constexpr std::int64_t kSilentEvery_ns = 200 * kMs;
constexpr std::int64_t kLearnEvery_ns = 1000 * kMs;
constexpr std::int64_t kNamed_ns = 100 * kMs;      // all have arrived: each process names the site of its newest call
constexpr std::int64_t kSettle_ns = 300 * kMs;     // for a mismatch's other members to arrive and give a majority
constexpr std::int64_t kSettleTie_ns = 800 * kMs;  // ... where one stands against one, and either may be wrong
constexpr std::int64_t kSettleJoining_ns = 1500 * kMs;  // ... where nodes are still on their way to this hub
constexpr std::int64_t kBoxlessKnown_ns =
    500 * kMs;  // after a stall in init: other nodes look for who has not joined, and say
constexpr std::int64_t kAfterDeath_ns = 100 * kMs;  // quiet for this long after a death: does somebody wait for it?
constexpr std::int64_t kAfterDeathEvery_ns = 100 * kMs;
constexpr std::uint64_t kQuickCalls = 512;  // newest calls of each process that a quick look takes in
constexpr unsigned kWholeLookEvery = 8;     // looks after a death, until one goes through everything
constexpr std::int64_t kStallAgain_ns = 250 * kMs;
constexpr int kStallSoon = 8;  // looks at one quiet time before they become rarer
constexpr std::int64_t kStallAgainMost_ns = 20'000 * kMs;
constexpr std::int64_t kHeldLooks_ns[] = {300 * kMs, 600 * kMs, 1100 * kMs, 2500 * kMs};
// A call that is wrong and has not come back is judged once more, when MPI has had its time to refuse it.
constexpr std::int64_t kMisuseAgain_ns = 600 * kMs;
constexpr std::int64_t kPublishedEvery_ns = 400 * kMs;
constexpr std::int64_t kCostShare = 20;  // of the time at most 1 in 20 goes into diagnoses of healthy jobs

}  // namespace

Leader::Leader(const Context& context, LeaseFile* lease, const std::vector<std::string>* environment)
    : context_(context),
      lease_(lease),
      environment_(environment),
      journal_(context.own),
      evidence_(context.command, environment),
      crashes_(context, environment),
      steps_(context),
      slow_(context, environment),
      machine_(context, environment),
      names_(context, environment),
      compare_(std::make_unique<LiveCompare>()),
      group_wait_(context, &journal_, compare_.get()),
      job_(context, lease, &journal_, *environment) {
  std::vector<std::string> wrong;
  ignore_ = evidence::ReadIgnoreFile(context.settings.ignore, &wrong);
  for (const std::string& line : wrong) log::Warn("NCCLWATCH_IGNORE: {}", line);
}

Leader::~Leader() {
  // Overtaken (not: gave the lease back): the successor's diagnosis counts, and this process's says nothing any more.
  if (!taken_over_) return;
  if (!lease_->Mine()) {
    journal_.WriteState({});
    return;
  }
  try {
    SayWhatWaits();
    // That this process ends, if it does, it tells itself where no other is left on the node
    job_.Report(Monotonic(), group_wait_, compare_.get());
  } catch (const std::exception&) {
  }
}

void Leader::Tick(std::int64_t now_ns, std::int64_t gap_ns) {
  if (gap_ns > 0) not_before_ns_ = std::max(not_before_ns_, now_ns + gap_ns);
  if (!taken_over_ || now_ns - scanned_ns_ >= kScanEvery_ns) {
    scanned_ns_ = now_ns;
    group_wait_.Scan(now_ns);
  }
  if (!taken_over_) TakeOver(now_ns);
  if (ending_) return;  // communicators are being aborted: what is seen now says nothing about the fault
  Meet(now_ns);
  const int deaths_here = group_wait_.LookForDeaths(now_ns);
  if (deaths_here > 0) crashes_.Begin(group_wait_, now_ns);
  undiagnosed_deaths_ += deaths_here + DeathsElsewhere();
  LookAfterEvidence();
  const bool off = lease_->words().switched_off.load(std::memory_order_acquire) != 0;
  if (off) {
    if (!std::exchange(was_off_, true)) log::Info("watching is switched off");
    return;
  }
  if (was_off_) {  // nothing was recorded meanwhile: the cursors mean nothing any more
    was_off_ = false;
    log::Info("watching is switched on again");
    auto fresh = std::make_unique<LiveCompare>();
    group_wait_.FollowAnew(fresh.get());
    compare_ = std::move(fresh);
  }
  if (now_ns - looked_silent_ns_ >= kSilentEvery_ns && now_ns >= not_before_ns_) {
    looked_silent_ns_ = now_ns;
    group_wait_.DropCut();
    if (group_wait_.LookAtSilent(now_ns)) crashes_.Begin(group_wait_, now_ns);
  }
  const bool due = now_ns - compared_ns_ >= kCompareEvery_ns || undiagnosed_deaths_ > 0;
  if (due && !crashes_.Busy(now_ns)) {
    const int new_deaths = std::exchange(undiagnosed_deaths_, 0);
    compared_ns_ = now_ns;
    group_wait_.DropCut();
    compare_->Poll(now_ns);
    job_.Report(now_ns, group_wait_, compare_.get());
    FollowSteps(now_ns);
    FollowMachines(now_ns);
    names_.LookIfDue(group_wait_, now_ns, published_ || !suspected_.empty() || stall_looks_ > 0);
    if (now_ns - learned_ns_ >= kLearnEvery_ns) Learn(now_ns);
    Announce(now_ns);
    const ShouldDiagnose ripe = WhatIsRipe(now_ns, new_deaths);
    if (round_) ContinueRound(now_ns);
    if (ripe.any() && (ripe.new_deaths || (!round_ && !names_.Busy(now_ns))))
      Diagnose(now_ns, ripe);
    else if (slow_.Due(now_ns))
      LookForSlowness(now_ns);
  }
  EndIfDue(now_ns);
}

void Leader::TickOnceMore(std::int64_t now_ns) {
  constexpr std::int64_t kFrames_ns = 70 * kMs;  // within SigtermDelay::kPatience_ms, with room to judge
  Tick(now_ns, 0);
  if (!crashes_.Busy(now_ns)) return;
  crashes_.Await(kFrames_ns);
  Tick(Monotonic(), 0);
}

void Leader::TakeOver(std::int64_t now_ns) {
  taken_over_ = true;
  took_over_ns_ = now_ns;
  StartCollector();
  StartMetrics();
  reader::LeaderState last;
  for (const Member& member : group_wait_.members()) {
    const reader::LeaderState leader_state = member.box->Image(0).leader_state;
    if (leader_state.suspect_after_ns == 0) continue;  // never led
    longest_wait_ns_ = std::max(longest_wait_ns_, leader_state.longest_wait_ns);
    earlier_waits_ = std::max(earlier_waits_, leader_state.waits);
    if (leader_state.generation > last.generation) last = leader_state;
  }
  const bool stands = last.verdict_at_ns != 0 && lease_->words().verdicts.load(std::memory_order_acquire) != 0;
  // From the first moment on this diagnosis speaks for the job, so the standing verdict comes with it.
  SetVerdictAt(stands ? last.verdict_at_ns : 0);
  Learn(now_ns);
  // Its predecessor began to end the job, and is gone before all others are.
  if (lease_->words().ending.load(std::memory_order_acquire) != 0) BeginEnding(now_ns);
  if (!stands || RecallWord(last)) return;
  // It is derived again rather than said again.
  diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(diagnosis::FromBoxes(group_wait_.Images()));
  LeaveOut(ignore_, &diagnosis);
  if (diagnosis.clean()) return;
  published_ = PublishedFrom(diagnosis.findings.front());
  reported_ = diagnosis;
  std::optional<reader::VerdictStacks> stacks = reader::ReadVerdictStacks(context_.directory);
  if (stacks && stacks->verdict_at_ns == last.verdict_at_ns)
    stacks_ = std::move(stacks->processes);
  else if (context_.settings.on_fault != settings::OnFault::kReport)
    SaveEvidence();  // its predecessor did not get that far
}

void Leader::Learn(std::int64_t now_ns) {
  learned_ns_ = now_ns;
  // Limits follow from waits, and strangers must not make them.
  const LiveCompare::Waits waits = job_.IsHub() && !job_.Unproven() ? job_.hub().table().waits() : compare_->waits();
  if (DiagnosesItself()) longest_wait_ns_ = std::max(longest_wait_ns_, waits.longest_ns);
  if (job_.role() != ClusterCoordinator::Role::kMember || DiagnosesItself())
    limits_ = LimitsFor(context_.settings.timeout_s, longest_wait_ns_);
  if (limits_.suspect_after_ns != std::exchange(logged_suspect_after_ns_, limits_.suspect_after_ns))
    log::Debug("a stall is suspected after {:.1f} s and likely after {:.1f} s: the longest wait so far was {:.3f} s",
               InSeconds(limits_.suspect_after_ns), InSeconds(limits_.likely_after_ns), InSeconds(longest_wait_ns_));
  reader::LeaderState leader_state = journal_.leader_state();
  leader_state.suspect_after_ns = limits_.suspect_after_ns;
  leader_state.likely_after_ns = limits_.likely_after_ns;
  leader_state.longest_wait_ns = longest_wait_ns_;
  leader_state.waits = earlier_waits_ + waits.resolved;
  leader_state.generation = job_.Generation();
  leader_state.job_minus_monotonic_ns = job_.job_minus_monotonic_ns();
  journal_.WriteState(leader_state);
}

Leader::ShouldDiagnose Leader::WhatIsRipe(std::int64_t now_ns, int new_deaths) {
  ShouldDiagnose ripe;
  ripe.deaths = RipeDeath(now_ns, new_deaths);
  ripe.new_deaths = ripe.deaths && new_deaths > 0;
  ripe.mismatch = RipeMismatch(now_ns);
  ripe.stall = RipeStall(now_ns);
  ripe.held = RipeHeld(now_ns);
  ripe.misuse = !published_ && RipeMisuse(now_ns);
  // One on the whole job is not taken back by who sees a part of it.
  ripe.standing = published_ && job_.IsHub() == job_verdict_ && now_ns - diagnosed_ns_ >= kPublishedEvery_ns;
  if (ripe.new_deaths) return ripe;  // never put off
  if (now_ns - diagnosed_ns_ < kCostShare * diagnosing_took_ns_) return {};
  return ripe;
}

bool Leader::RipeMismatch(std::int64_t now_ns) {
  bool ripe = false;
  const std::int64_t settle_ns = job_.IsHub() && !job_.Settled(now_ns) ? kSettleJoining_ns : kSettle_ns;
  for (const LiveCompare::Suspicion& suspicion : Suspicions()) {
    auto& [position, first_seen] = suspected_[suspicion.communicator];
    if (first_seen == 0 || position != suspicion.position) {
      position = suspicion.position;
      first_seen = now_ns;
    }
    const bool one_against_one = suspicion.arrived <= 2;
    const std::int64_t wait_ns = suspicion.arrived >= suspicion.size ? kNamed_ns
                                 : one_against_one                   ? std::max(settle_ns, kSettleTie_ns)
                                                                     : settle_ns;
    ripe |= now_ns - first_seen >= wait_ns;
  }
  return ripe;
}

bool Leader::RipeStall(std::int64_t now_ns) {
  std::int64_t since = QuietSince();
  // What a new leader finds standing still has stood since before it looked, perhaps since its predecessor fell silent.
  // The diagnosis goes by the records; this only decides when it is asked.
  if (since != 0 && since <= took_over_ns_ + kCompareEvery_ns) since -= kLeaseLength_ns;
  if (since == 0 || now_ns - since < limits_.suspect_after_ns) {
    stall_next_ns_ = stall_looks_ = 0;
    return false;
  }
  if (now_ns < not_before_ns_ || now_ns < stall_next_ns_ || published_) return false;
  if (job_.IsHub() && now_ns - since < limits_.suspect_after_ns + kBoxlessKnown_ns) {
    const std::optional<LiveCompare::Front> world = job_.hub().table().World();
    if (world && world->initializing > 0) return false;
  }
  const int doublings = std::clamp(stall_looks_++ - kStallSoon, 0, 16);
  stall_next_ns_ = now_ns + std::min(kStallAgain_ns << doublings, kStallAgainMost_ns);
  return true;
}

// Calls of MPI block, so that a cycle of them is proven before any time is up. A quiet time is looked at once it is
// longer than most, and once more when sends can no more be on their way into a buffer.
bool Leader::RipeHeld(std::int64_t now_ns) {
  const std::int64_t since = QuietSince();
  if (since == 0 || published_ || !group_wait_.SpeaksMpi()) return false;
  if (since != held_since_ns_) held_looks_ = 0;
  held_since_ns_ = since;
  if (held_looks_ >= std::size(kHeldLooks_ns) || now_ns - since < kHeldLooks_ns[held_looks_]) return false;
  ++held_looks_;
  return true;
}

bool Leader::RipeMisuse(std::int64_t now_ns) const {
  return MisusesSaid() > misuses_diagnosed_ || (misuse_again_ns_ != 0 && now_ns >= misuse_again_ns_);
}

std::uint64_t Leader::MisusesSaid() const {
  std::uint64_t said = 0;
  for (const Member& member : group_wait_.members()) said += member.box->misuses_said();
  return said;
}

bool Leader::RipeDeath(std::int64_t now_ns, int new_deaths) {
  // The survivors of what is certain already die one after the other.
  if (published_ && published_->certainty == Certainty::kCertain) return false;
  if (new_deaths > 0) return true;
  if (Deaths() == 0 || published_) return false;
  const std::int64_t since = QuietSince();
  return since != 0 && now_ns - since >= kAfterDeath_ns && now_ns - diagnosed_ns_ >= kAfterDeathEvery_ns;
}

void Leader::BeatInBetween() const {
  if (lease_->Mine()) lease_->Beat(Monotonic());
}

// Not diagnosis::FromBoxes: that one goes back to the standing verdict, and this is about now.
diagnosis::Snapshot Leader::TakeSnapshot(std::int64_t now_ns, std::uint64_t max_calls, bool others_too) const {
  BeatInBetween();  // of ten thousand processes a diagnosis takes as long as a lease, on a busy machine
  diagnosis::Snapshot snapshot;
  snapshot.now_ns = now_ns;
  snapshot.boot_id = context_.own->identity.boot_id;
  snapshot.limits = limits_;
  snapshot.ignore = ignore_;
  snapshot.boxes = group_wait_.Images(max_calls);
  snapshot.notes = group_wait_.notes();
  if (job_.IsHub() && others_too) {
    std::vector<reader::BoxImage> others = job_.OtherBoxes(snapshot.boxes, now_ns);
    std::move(others.begin(), others.end(), std::back_inserter(snapshot.boxes));
    const std::vector<std::string> notes = job_.Notes(now_ns);
    snapshot.notes.insert(snapshot.notes.end(), notes.begin(), notes.end());
  }
  diagnosis::GatherObservations(&snapshot);
  const std::string unseen = UnseenNote();
  if (!unseen.empty()) snapshot.notes.push_back(unseen);
  BeatInBetween();
  return snapshot;
}

Since Leader::SinceVerdict() const {
  Since since;
  since.deaths = Deaths() > deaths_at_verdict_;
  for (int culprit : published_->culprits) since.culprit_died |= since.deaths && IsGone(culprit);
  if (published_->communicator == 0) return since;
  const std::optional<LiveCompare::Front> front = FrontOf(published_->communicator);
  // Of a call that all had made already only its end says so.
  const bool all_made_it = published_->kind == Kind::kDeviceStall || published_->kind == Kind::kTransportStall;
  const auto passed = [&] { return all_made_it ? front->pending == 0 : front->behind > published_->position; };
  since.moved_on = !front || (front->members == front->size && passed());
  return since;
}

void Leader::Diagnose(std::int64_t now_ns, const ShouldDiagnose& ripe) {
  const std::uint64_t misuses = MisusesSaid();
  if (misuses > misuses_diagnosed_)
    misuse_again_ns_ = now_ns + kMisuseAgain_ns;
  else if (now_ns >= misuse_again_ns_)
    misuse_again_ns_ = 0;
  misuses_diagnosed_ = misuses;
  if (!DiagnosesItself()) return LookForHub(now_ns, ripe);
  ripe_text_ = ripe.Text();
  // A rank that joined since the last scan is not to be called unobserved: offline its box will be there.
  if (scanned_ns_ != now_ns) {
    scanned_ns_ = now_ns;
    group_wait_.Scan(now_ns);
  }
  if (ripe.stall) LookForBoxlessRanks(now_ns);
  if (ripe.stall) group_wait_.LookAtSilent(now_ns);
  if (job_.IsHub()) return BeginRound(now_ns, ripe);
  // The instant judged comes after the last observation, or the offline diagnosis would not see it.
  const std::int64_t at_ns = Monotonic();
  diagnosed_ns_ = now_ns;
  const bool only_deaths = ripe.deaths && !ripe.mismatch && !ripe.stall && !ripe.standing;
  const bool quick = ripe.new_deaths || (only_deaths && ++quick_looks_ % kWholeLookEvery != 0);
  const bool whole = !quick || ripe.new_deaths;
  // A launcher ends the survivors, this process among them, within 0.1 s of the first death: what the newest calls say
  // is on disk before the whole rings are gone through.
  if (quick) Follow(diagnosis::Diagnose(TakeSnapshot(at_ns, kQuickCalls)), at_ns);
  if (whole) {
    const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(TakeSnapshot(at_ns, UINT64_MAX));
    const bool moved = Follow(diagnosis, at_ns);
    if (quick && !moved && published_ && !diagnosis.clean() && journal_.leader_state().verdict_at_ns == at_ns)
      WriteVerdict(diagnosis, at_ns);  // the same verdict with all its evidence
  }
  diagnosing_took_ns_ = Monotonic() - at_ns;
  if (!ripe.mismatch) return;
  for (const auto& [communicator, seen] : suspected_)
    if (seen.second != 0) Acknowledge(communicator, now_ns);
  suspected_.clear();
}

std::string Leader::ShouldDiagnose::Text() const {
  std::vector<std::string_view> why;
  if (deaths) why.push_back("a process is gone");
  if (mismatch) why.push_back("ranks have made different calls");
  if (stall) why.push_back("nothing moves");
  if (held) why.push_back("calls of MPI are blocked");
  if (misuse) why.push_back("a call of MPI was wrong");
  if (standing) why.push_back("a verdict stands");
  return fmt::format("{}", fmt::join(why, ", "));
}

// As long as one look after the other comes to the same, one line says it.
void Leader::LogOutcome(const std::string& outcome) {
  if (outcome != std::exchange(logged_outcome_, outcome)) log::Debug("looked closer ({}): {}", ripe_text_, outcome);
}

// True if something came of it.
bool Leader::Follow(const diagnosis::Diagnosis& diagnosis, std::int64_t at_ns) {
  LogOutcome(OutcomeOf(diagnosis));
  if (!diagnosis.unexplained.empty() && !std::exchange(said_unexplained_, true)) log::Warn("{}", diagnosis.unexplained);
  if (at_ns < not_before_ns_ && !diagnosis.clean() && diagnosis.findings.front().certainty != Certainty::kCertain)
    return false;
  if (MayBeKnownSoon(diagnosis, at_ns)) {
    stall_looks_ = 0;
    return false;
  }
  const Move move = Decide(published_, diagnosis, published_ ? SinceVerdict() : Since{});
  if (job_verdict_ && published_ && reported_ && diagnosis.watched < reported_->watched) return false;
  // What strangers may have had a part in, and now have none: it counts from here on.
  const bool proven_now = move == Move::kNone && unproven_ && !job_.Unproven() && published_ && !diagnosis.clean() &&
                          diagnosis.findings.front().kind == published_->kind &&
                          diagnosis.findings.front().culprits == published_->culprits;
  if (proven_now) Publish(diagnosis, at_ns, false);
  if (move == Move::kPublish || move == Move::kUpdate) Publish(diagnosis, at_ns, move == Move::kPublish);
  if (move == Move::kWithdraw) Withdraw(diagnosis);
  return move != Move::kNone;
}

}  // namespace ncclwatch::watch
