#include "watchdog/watch/leader.h"

#include <algorithm>

#include "watchdog/act/dump.h"
#include "watchdog/act/end_job.h"
#include "watchdog/act/files.h"
#include "watchdog/act/hook.h"
#include "watchdog/watch/clock.h"
#include "watchdog/watch/limits.h"

namespace ncclwatch::watch {
namespace {

using diagnosis::Certainty;
using diagnosis::LiveCompare;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kCompareEvery_ns = 100 * kMs;
constexpr std::int64_t kScanEvery_ns = 200 * kMs;
constexpr std::int64_t kSilentEvery_ns = 200 * kMs;
constexpr std::int64_t kLearnEvery_ns = 1000 * kMs;
constexpr std::int64_t kUnbornEvery_ns = 1000 * kMs;
constexpr std::int64_t kSettle_ns = 300 * kMs;      // for a mismatch's other members to arrive and give a majority
constexpr std::int64_t kAfterDeath_ns = 100 * kMs;  // quiet for this long after a death: does somebody wait for it?
constexpr std::int64_t kAfterDeathEvery_ns = 100 * kMs;
constexpr std::uint64_t kQuickCalls = 512;  // newest calls of each process that a quick look takes in
constexpr unsigned kWholeLookEvery = 8;     // looks after a death, until one goes through everything
constexpr std::int64_t kStallAgain_ns = 250 * kMs;
constexpr int kStallSoon = 8;  // looks at one quiet time before they become rarer
constexpr std::int64_t kStallAgainMost_ns = 20'000 * kMs;
constexpr std::int64_t kStandingEvery_ns = 400 * kMs;
constexpr std::int64_t kCostShare = 20;  // of the time at most 1 in 20 goes into diagnoses of healthy jobs
constexpr std::int64_t kSaveAtMost_ns = 10'000 * kMs;  // for evidence, before a job is ended all the same
constexpr std::int64_t kEndThemselves_ns = 1000 * kMs;
constexpr std::int64_t kEndAtMost_ns = 2000 * kMs;
constexpr std::uint64_t kMostVerdicts = 50;  // printed for one job

}  // namespace

Leader::Leader(const Context& context, LeaseFile* lease, const std::vector<std::string>* environment)
    : context_(context),
      lease_(lease),
      environment_(environment),
      journal_(context.own),
      compare_(std::make_unique<LiveCompare>()),
      crowd_(context, &journal_, compare_.get()) {}

Leader::~Leader() {
  // Overtaken (not: gave the lease back): the successor's judgement counts, and this process's says nothing any more.
  if (taken_over_ && !lease_->Mine()) journal_.Judge({});
}

void Leader::Tick(std::int64_t now_ns, std::int64_t gap_ns) {
  if (gap_ns > 0) not_before_ns_ = std::max(not_before_ns_, now_ns + gap_ns);
  if (!taken_over_ || now_ns - scanned_ns_ >= kScanEvery_ns) {
    scanned_ns_ = now_ns;
    crowd_.Scan(now_ns);
  }
  if (!taken_over_) TakeOver(now_ns);
  const int new_deaths = crowd_.LookForDeaths(now_ns);
  const bool off = lease_->words().switched_off.load(std::memory_order_acquire) != 0;
  if (off) {
    was_off_ = true;
    return;
  }
  if (was_off_) {  // nothing was recorded meanwhile: the cursors mean nothing any more
    was_off_ = false;
    auto fresh = std::make_unique<LiveCompare>();
    crowd_.FollowAnew(fresh.get());
    compare_ = std::move(fresh);
  }
  if (now_ns - looked_silent_ns_ >= kSilentEvery_ns && now_ns >= not_before_ns_) {
    looked_silent_ns_ = now_ns;
    crowd_.DropCut();
    crowd_.LookAtSilent(now_ns);
  }
  if (now_ns - compared_ns_ >= kCompareEvery_ns || new_deaths > 0) {
    compared_ns_ = now_ns;
    crowd_.DropCut();
    compare_->Poll(now_ns);
    if (now_ns - learned_ns_ >= kLearnEvery_ns) Learn(now_ns);
    Announce(now_ns);
    const Ripe ripe = WhatIsRipe(now_ns, new_deaths);
    if (ripe.any()) Judge(now_ns, ripe);
  }
  if (saved_ && standing_ && context_.settings.on_fault == settings::OnFault::kAbort && !ending_ &&
      standing_->certainty >= Certainty::kLikely &&
      (saved_->load(std::memory_order_acquire) || now_ns - save_began_ns_ > kSaveAtMost_ns)) {
    context_.log.Error("ending the job: every process of this node exits with status 86");
    ending_ = true;
    end_at_ns_ = now_ns;
    lease_->words().ending.store(lease_->Generation(), std::memory_order_release);
  }
}

void Leader::TakeOver(std::int64_t now_ns) {
  taken_over_ = true;
  took_over_ns_ = now_ns;
  reader::Judgement last;
  for (const Member& member : crowd_.members()) {
    const reader::Judgement judgement = member.box->Image(0).judgement;
    if (judgement.suspect_after_ns == 0) continue;  // never led
    longest_wait_ns_ = std::max(longest_wait_ns_, judgement.longest_wait_ns);
    earlier_waits_ = std::max(earlier_waits_, judgement.waits);
    if (judgement.generation > last.generation) last = judgement;
  }
  const bool stands = last.verdict_at_ns != 0 && lease_->words().verdicts.load(std::memory_order_acquire) != 0;
  // From the first moment on this judgement speaks for the job, so the standing verdict comes with it.
  SetVerdictAt(stands ? last.verdict_at_ns : 0);
  Learn(now_ns);
  if (!stands) return;
  // It is derived again rather than said again.
  const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(diagnosis::FromBoxes(crowd_.Images()));
  if (diagnosis.healthy()) return;
  standing_ = StandingOf(diagnosis.findings.front());
  saved_ = std::make_shared<std::atomic<bool>>(true);
}

void Leader::Learn(std::int64_t now_ns) {
  learned_ns_ = now_ns;
  const LiveCompare::Waits waits = compare_->waits();
  longest_wait_ns_ = std::max(longest_wait_ns_, waits.longest_ns);
  limits_ = LimitsFor(context_.settings.timeout_s, longest_wait_ns_);
  reader::Judgement judgement = journal_.judgement();
  judgement.suspect_after_ns = limits_.suspect_after_ns;
  judgement.likely_after_ns = limits_.likely_after_ns;
  judgement.longest_wait_ns = longest_wait_ns_;
  judgement.waits = earlier_waits_ + waits.resolved;
  judgement.generation = lease_->Generation();
  journal_.Judge(judgement);
}

Leader::Ripe Leader::WhatIsRipe(std::int64_t now_ns, int new_deaths) {
  Ripe ripe;
  ripe.deaths = RipeDeath(now_ns, new_deaths);
  ripe.new_deaths = ripe.deaths && new_deaths > 0;
  ripe.mismatch = RipeMismatch(now_ns);
  ripe.stall = RipeStall(now_ns);
  ripe.standing = standing_ && now_ns - judged_ns_ >= kStandingEvery_ns;
  if (ripe.new_deaths) return ripe;  // never put off
  if (now_ns - judged_ns_ < kCostShare * judging_took_ns_) return {};
  return ripe;
}

bool Leader::RipeMismatch(std::int64_t now_ns) {
  bool ripe = false;
  for (const LiveCompare::Suspicion& suspicion : compare_->suspicions()) {
    auto& [position, first_seen] = suspected_[suspicion.communicator];
    if (first_seen == 0 || position != suspicion.position) {
      position = suspicion.position;
      first_seen = now_ns;
    }
    ripe |= suspicion.arrived >= suspicion.size || now_ns - first_seen >= kSettle_ns;
  }
  return ripe;
}

bool Leader::RipeStall(std::int64_t now_ns) {
  std::int64_t since = compare_->QuietSince();
  // What a new leader finds standing still has stood since before it looked, perhaps since its predecessor fell silent.
  // The diagnosis goes by the records; this only decides when it is asked.
  if (since != 0 && since <= took_over_ns_ + kCompareEvery_ns) since -= kLeaseLength_ns;
  if (since == 0 || now_ns - since < limits_.suspect_after_ns) {
    stall_next_ns_ = stall_looks_ = 0;
    return false;
  }
  if (now_ns < not_before_ns_ || now_ns < stall_next_ns_ || standing_) return false;
  const int doublings = std::clamp(stall_looks_++ - kStallSoon, 0, 16);
  stall_next_ns_ = now_ns + std::min(kStallAgain_ns << doublings, kStallAgainMost_ns);
  return true;
}

bool Leader::RipeDeath(std::int64_t now_ns, int new_deaths) {
  // The survivors of what is certain already die one after the other.
  if (standing_ && standing_->certainty == Certainty::kCertain) return false;
  if (new_deaths > 0) return true;
  if (crowd_.deaths() == 0 || standing_) return false;
  const std::int64_t since = compare_->QuietSince();
  return since != 0 && now_ns - since >= kAfterDeath_ns && now_ns - judged_ns_ >= kAfterDeathEvery_ns;
}

// Not diagnosis::FromBoxes: that one goes back to the standing verdict, and this is about now.
diagnosis::Snapshot Leader::TakeSnapshot(std::int64_t now_ns, std::uint64_t max_calls) const {
  diagnosis::Snapshot snapshot;
  snapshot.now_ns = now_ns;
  snapshot.boot_id = context_.own->identity.boot_id;
  snapshot.limits = limits_;
  snapshot.boxes = crowd_.Images(max_calls);
  for (const reader::BoxImage& box : snapshot.boxes)
    if (box.boot_id == snapshot.boot_id)
      snapshot.observations.insert(snapshot.observations.end(), box.observations.begin(), box.observations.end());
  std::stable_sort(snapshot.observations.begin(), snapshot.observations.end(),
                   [](const reader::Observation& a, const reader::Observation& b) {
                     return std::pair(a.at_ns, a.pid) < std::pair(b.at_ns, b.pid);
                   });
  snapshot.notes = crowd_.notes();
  const std::string unseen = UnseenNote();
  if (!unseen.empty()) snapshot.notes.push_back(unseen);
  return snapshot;
}

Since Leader::SinceVerdict() const {
  Since since;
  since.deaths = crowd_.deaths() > deaths_at_verdict_;
  for (int culprit : standing_->culprits) since.culprit_died |= since.deaths && crowd_.IsGone(culprit);
  if (standing_->communicator == 0) return since;
  since.moved_on = true;
  for (const LiveCompare::Front& front : compare_->Fronts())
    if (front.communicator == standing_->communicator)
      since.moved_on = front.members == front.size && front.behind > standing_->position;
  return since;
}

void Leader::Judge(std::int64_t now_ns, const Ripe& ripe) {
  // A rank that joined since the last scan is not to be called unobserved: offline its box will be there.
  if (scanned_ns_ != now_ns) {
    scanned_ns_ = now_ns;
    crowd_.Scan(now_ns);
  }
  const std::vector<LiveCompare::Front> fronts = compare_->Fronts();
  const bool initializing =
      std::any_of(fronts.begin(), fronts.end(), [](const LiveCompare::Front& front) { return front.initializing > 0; });
  if (ripe.stall && initializing && now_ns - looked_unborn_ns_ >= kUnbornEvery_ns) {
    looked_unborn_ns_ = now_ns;
    crowd_.LookForUnborn(now_ns);
  }
  if (ripe.stall) crowd_.LookAtSilent(now_ns);
  // The instant judged comes after the last observation, or the offline diagnosis would not see it.
  const std::int64_t at_ns = Monotonic();
  judged_ns_ = now_ns;
  const bool only_deaths = ripe.deaths && !ripe.mismatch && !ripe.stall && !ripe.standing;
  const bool quick = ripe.new_deaths || (only_deaths && ++quick_looks_ % kWholeLookEvery != 0);
  const bool whole = !quick || ripe.new_deaths;
  // A launcher ends the survivors, this process among them, within 0.1 s of the first death: what the newest calls say
  // is on disk before the whole rings are gone through.
  if (quick) Follow(diagnosis::Diagnose(TakeSnapshot(at_ns, kQuickCalls)), at_ns);
  if (whole) {
    const diagnosis::Diagnosis diagnosis = diagnosis::Diagnose(TakeSnapshot(at_ns, UINT64_MAX));
    const bool moved = Follow(diagnosis, at_ns);
    if (quick && !moved && standing_ && !diagnosis.healthy() && journal_.judgement().verdict_at_ns == at_ns)
      WriteVerdict(diagnosis, diagnosis::ToText(diagnosis), at_ns);  // the same verdict with all its evidence
  }
  judging_took_ns_ = Monotonic() - at_ns;
  if (!ripe.mismatch) return;
  for (const auto& [communicator, seen] : suspected_)
    if (seen.second != 0) compare_->Acknowledge(communicator, now_ns);
  suspected_.clear();
}

// True if something came of it.
bool Leader::Follow(const diagnosis::Diagnosis& diagnosis, std::int64_t at_ns) {
  if (at_ns < not_before_ns_ && !diagnosis.healthy() && diagnosis.findings.front().certainty != Certainty::kCertain)
    return false;
  const Move move = Decide(standing_, diagnosis, standing_ ? SinceVerdict() : Since{});
  if (move == Move::kPublish || move == Move::kUpdate) Publish(diagnosis, at_ns, move == Move::kPublish);
  if (move == Move::kWithdraw) Withdraw(diagnosis);
  return move != Move::kNone;
}

void Leader::SetVerdictAt(std::int64_t at_ns) {
  reader::Judgement judgement = journal_.judgement();
  judgement.verdict_at_ns = at_ns;
  journal_.Judge(judgement);
}

void Leader::Publish(const diagnosis::Diagnosis& diagnosis, std::int64_t at_ns, bool first) {
  standing_ = StandingOf(diagnosis.findings.front());
  deaths_at_verdict_ = crowd_.deaths();
  const std::string text = diagnosis::ToText(diagnosis);
  if (!WriteVerdict(diagnosis, text, at_ns)) return;
  // Said right after, and counted once it is said: a successor says again what was cut off before.
  const std::uint64_t before = lease_->words().verdicts.load(std::memory_order_acquire);
  if (before < kMostVerdicts) {
    if (standing_->certainty == Certainty::kSuspected)
      context_.log.Warn(text);
    else
      context_.log.Error(text);
  }
  if (first) lease_->words().verdicts.fetch_add(1, std::memory_order_acq_rel);
  if (context_.settings.on_fault != settings::OnFault::kReport) SaveEvidence(diagnosis);
  if (before == 0 && first && !context_.settings.hook.empty() &&
      !act::StartHook(context_.settings.hook, context_.directory + "/diagnosis.json", *environment_))
    context_.log.Error("NCCLWATCH_HOOK could not be started");
}

void Leader::Withdraw(const diagnosis::Diagnosis& diagnosis) {
  const std::string line = WithdrawalLine(*standing_, Realtime());
  standing_.reset();
  if (WriteVerdict(diagnosis, diagnosis::ToText(diagnosis), 0)) context_.log.Warn(line);
}

// Files and black box must tell the same if this process is killed here: its launcher may be about to. So the slow part
// comes first, and the instant of the verdict right before the names.
bool Leader::WriteVerdict(const diagnosis::Diagnosis& diagnosis, const std::string& text, std::int64_t at_ns) {
  act::Draft for_programs(context_.directory + "/diagnosis.json"), for_people(context_.directory + "/diagnosis.txt");
  for_programs.Write(diagnosis::ToJson(diagnosis));
  for_people.Write(text);
  if (!lease_->Mine()) return false;  // held up for so long that another leads, and may have written
  SetVerdictAt(at_ns);
  std::string error = for_programs.Keep();
  const std::string second = for_people.Keep();
  if (error.empty()) error = second;
  if (error.empty() || said_no_room_) return true;
  said_no_room_ = true;
  context_.log.Error("the diagnosis could not be written: " + error);
  return true;
}

void Leader::SaveEvidence(const diagnosis::Diagnosis& diagnosis) {
  act::Dump dump;
  dump.directory = context_.directory;
  const format::Identity& identity = context_.own->identity;
  if (!context_.settings.out.empty()) {
    dump.out = context_.settings.out + "/" + identity.job;
    if (identity.attempt > 0) dump.out += "/attempt-" + std::to_string(identity.attempt);
  }
  for (const diagnosis::Culprit& culprit : diagnosis.findings.front().culprit_details)
    if (culprit.pid && !culprit.exit) dump.suspects.push_back({static_cast<std::int32_t>(*culprit.pid), culprit.rank});
  for (const Member& member : crowd_.members())
    if (!member.own) dump.boxes.push_back(member.box->path());
  dump.own = context_.own;
  dump.own_name = context_.own_path.substr(context_.own_path.rfind('/') + 1);
  if (!said_no_room_) dump.complain = [log = context_.log](const std::string& line) { log.Error(line); };
  saved_ = std::make_shared<std::atomic<bool>>(false);
  save_began_ns_ = Monotonic();
  act::SaveInBackground(std::move(dump), saved_);
}

bool Leader::EndOthers(std::int64_t now_ns) {
  crowd_.LookForDeaths(now_ns);
  bool left = false;
  for (const Member& member : crowd_.members()) {
    if (member.own || member.gone || member.pidfd < 0) continue;
    left = true;
    if (now_ns - end_at_ns_ >= kEndThemselves_ns) act::Kill(member.pidfd);
  }
  return !left || now_ns - end_at_ns_ >= kEndAtMost_ns;
}

}  // namespace ncclwatch::watch
