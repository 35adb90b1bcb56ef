#include "core/nodes/reporter.h"

#include <algorithm>

#include "core/live/live_compare.h"
#include "core/nodes/call_code.h"
#include "core/nodes/image_code.h"
#include "core/nodes/words_code.h"

namespace ncclwatch::nodes {
namespace {

// Between two looks: a member that has not moved since the one before stands on a chain that is settled.
constexpr std::int64_t kSettled_ns = 50'000'000;

std::uint64_t Age(std::int64_t now_ns, std::int64_t then_ns) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_ns - then_ns) / kAgeUnit_ns);
}

}  // namespace

void Reporter::Begin(std::uint32_t session) {
  session_ = session;
  sequence_ = 0;
  begins_ = true;
  reported_suspicious_.clear();
  reported_ns_ = urgent_ns_ = 0;
  for (auto& [key, process] : processes_) {  // since when members stand still is not forgotten
    process.known = false;
    process.reported_state = format::ProcessState::kRunning;
    process.reported_watching = true;
    process.reported_words = 0;
    process.reported_observations = 0;
    process.reported_inside_ns = 0;
    process.reported_environment = false;
    for (auto& [index, member] : process.members) {
      member.known = member.reported_last = false;
      member.reported = {};
      member.reported_check = member.pace = {};
    }
  }
}

Reporter::Process* Reporter::Of(const ProcessNow& now) {
  const auto [found, fresh] = processes_.try_emplace({now.pid_namespace, now.start_time, now.pid});
  if (fresh) found->second.number = processes_.size() - 1;
  return found->second.number < kMostProcesses ? &found->second : nullptr;
}

bool Reporter::StandsStill(const Member& member, std::int64_t now_ns) const {
  return now_ns - member.since_ns >= pace_.still_ns;
}

// True if it has stood in a call for so long that the hub should know.
bool Reporter::SeeMember(const MemberNow& now, std::int64_t now_ns, Member* member) const {
  const Progress progress{now.state,     now.entered, now.returned, now.outstanding,
                          now.creations, now.empties, now.sends,    now.receives};
  // The GPU is told once the communicator is made, its name perhaps later.
  const bool same = member->id == now.id && member->generation == now.generation && member->gpu == now.gpu &&
                    member->label == now.label;
  if (!same || member->since_ns == 0) {
    *member = {};
    member->id = now.id;
    member->generation = now.generation;
    member->gpu = now.gpu;
    member->label = now.label;
    // For how long it has stood still already nobody can say better than its newest call.
    member->since_ns = std::min(now_ns, std::max(now.last_entered_ns, now.created_ns));
  } else if (progress != member->seen) {
    member->since_ns = now_ns;
    member->reported_last = false;
  }
  member->seen = progress;
  if (now.pace && now.pace->position <= now.entered &&
      (member->pace.position == 0 || diagnosis::Rounder(now.pace->position, member->pace.position)))
    member->pace = *now.pace;
  return member->seen.Pending() && StandsStill(*member, now_ns) && IsNews(now, *member, now_ns);
}

bool Reporter::IsNews(const MemberNow& now, const Member& member, std::int64_t now_ns) const {
  if (!member.known || member.seen != member.reported) return true;
  // Only while it is at rest: what it stands at, and the whole call where it stands in one.
  if (!StandsStill(member, now_ns)) return false;
  if (member.reported_check.position != now.entered) return true;
  return now.last && !member.reported_last && member.seen.Pending();
}

bool Reporter::HasNews(const ProcessNow& now, const Process& process) {
  return now.state != process.reported_state || now.watching != process.reported_watching ||
         now.words_said != process.reported_words || now.observations.size() > process.reported_observations;
}

// What the hub should know of: 0 while it is in none, or not for long.
std::int64_t Reporter::InsideForLong(const ProcessNow& now, std::int64_t now_ns) const {
  return now.inside_since_ns != 0 && now_ns - now.inside_since_ns >= pace_.still_ns ? now.inside_since_ns : 0;
}

Reporter::Urgency Reporter::See(const NodeNow& now) {
  bool news = now.suspicious != reported_suspicious_ && !now.suspicious.empty();
  bool stuck = false;
  for (const ProcessNow& process_now : now.processes) {
    Process* process = Of(process_now);
    if (process == nullptr) continue;
    news |= !process->known || HasNews(process_now, *process);
    const std::int64_t inside_ns = InsideForLong(process_now, now.now_ns);
    stuck |= inside_ns != 0 && inside_ns != process->reported_inside_ns;
    for (const MemberNow& member : process_now.members)
      stuck |= SeeMember(member, now.now_ns, &process->members[member.index]);
  }
  return news ? Urgency::kNow : stuck ? Urgency::kSoon : Urgency::kNone;
}

void Reporter::WriteHead(const NodeNow& now, Writer* to) {
  const bool suspects = !now.suspicious.empty();
  to->Byte(kWireVersion);
  to->Byte(static_cast<std::uint8_t>((begins_ ? kBegins : 0) | (suspects ? kSuspects : 0)));
  to->Number(session_).Number(sequence_++).Number(now.revision).Number(static_cast<std::uint64_t>(now.now_ns));
  if (suspects) {
    constexpr std::size_t kEnough = 64;
    const std::size_t count = std::min(now.suspicious.size(), kEnough);
    to->Number(count);
    for (std::size_t i = 0; i < count; ++i) to->Whole(now.suspicious[i]);
  }
  reported_suspicious_ = now.suspicious;
  begins_ = false;
  said_.clear();
  facts_before_ = environment_before_ = nullptr;
}

void Reporter::WriteFacts(const ProcessNow& now, bool same_node, Writer* to) {
  to->Number(now.pid).Number(now.start_time).Signed(now.rank).Signed(now.local_rank).Text(now.command, kMostCommand);
  if (same_node) return;
  to->Number(now.pid_namespace).Signed(now.world_size).Signed(now.local_world_size).Number(now.attempt);
  to->Text(now.boot_id, kMostName)
      .Text(now.host, kMostName)
      .Text(now.node, kMostName)
      .Text(now.job, kMostName)
      .Number(now.nccl_version);
  to->Number(static_cast<std::uint64_t>(now.gpu_marks)).Signed(now.realtime_minus_monotonic_ns);
}

// Mostly all processes of a node have the same.
void Reporter::WriteEnvironment(const ProcessNow& now, Writer* to) {
  const bool same = environment_before_ && environment_before_->environment == now.environment &&
                    environment_before_->nccl_version == now.nccl_version;
  to->Byte(same ? 1 : 0);
  if (!same) to->Number(now.nccl_version).Text(now.environment, kMostEnvironment);
  environment_before_ = &now;
}

std::vector<std::string> Reporter::Look(const NodeNow& now) {
  const Urgency urgency = See(now);
  const bool stuck = urgency == Urgency::kSoon && now.now_ns - urgent_ns_ >= pace_.urgent_every_ns;
  // With a death goes what everyone had done until then.
  const bool whole = begins_ || urgency == Urgency::kNow || now.now_ns - reported_ns_ >= pace_.every_ns;
  std::vector<std::string> bodies;
  if (!stuck && !whole) return bodies;
  urgent_ns_ = now.now_ns;
  if (whole) reported_ns_ = now.now_ns;
  Writer body;
  WriteHead(now, &body);
  for (const ProcessNow& process_now : now.processes) {
    Process* process = Of(process_now);
    if (process == nullptr) continue;
    if (body.size() > kMostBody / 2) {
      bodies.push_back(body.Number(kNoProcess).Take());
      body = {};
      WriteHead(now, &body);
    }
    WriteProcess(process_now, now.now_ns, !whole, process, &body);
  }
  bodies.push_back(body.Number(kNoProcess).Take());
  return bodies;
}

void Reporter::WriteProcess(const ProcessNow& now, std::int64_t now_ns, bool urgent, Process* process, Writer* to) {
  std::vector<std::pair<const MemberNow*, Member*>> news;
  for (const MemberNow& member_now : now.members) {
    Member& member = process->members[member_now.index];
    // Others are told once a second: a message for each of their calls would be many.
    if (urgent && !StandsStill(member, now_ns)) continue;
    if (member_now.index < kMostIndex && IsNews(member_now, member, now_ns)) news.emplace_back(&member_now, &member);
  }
  std::sort(news.begin(), news.end(), [](const auto& a, const auto& b) { return a.first->index < b.first->index; });
  const std::int64_t inside_ns = InsideForLong(now, now_ns);
  const bool inside = inside_ns != process->reported_inside_ns;
  if (urgent && news.empty() && process->known && !inside && !HasNews(now, *process)) return;
  const bool facts = !process->known;
  const bool same_node =
      facts && facts_before_ != nullptr && now.pid_namespace == facts_before_->pid_namespace &&
      now.boot_id == facts_before_->boot_id && now.host == facts_before_->host && now.node == facts_before_->node &&
      now.job == facts_before_->job && now.world_size == facts_before_->world_size &&
      now.local_world_size == facts_before_->local_world_size && now.attempt == facts_before_->attempt &&
      now.nccl_version == facts_before_->nccl_version && now.gpu_marks == facts_before_->gpu_marks;
  const bool state = now.state != process->reported_state || now.watching != process->reported_watching;
  const bool words = now.words_said != process->reported_words;
  const bool environment = !urgent && !now.environment.empty() && !process->reported_environment;
  const std::size_t seen = now.observations.size() - std::min(now.observations.size(), process->reported_observations);
  to->Number(process->number);
  to->Byte(static_cast<std::uint8_t>((facts ? kProcessFacts : 0) | (same_node ? kSameNode : 0) |
                                     (state ? kProcessState : 0) | (words ? kWords : 0) | (seen > 0 ? kSeen : 0) |
                                     (news.empty() ? 0 : kMembers) | (inside ? kInsideCall : 0) |
                                     (environment ? kEnvironment : 0)));
  if (facts) WriteFacts(now, same_node, to);
  if (facts) facts_before_ = &now;
  to->Number(Age(now_ns, now.heartbeat_ns));
  if (state) to->Number(static_cast<std::uint64_t>(now.state)).Byte(now.watching ? 1 : 0);
  if (inside) to->Number(inside_ns == 0 ? 0 : Age(now_ns, inside_ns) + 1);
  if (environment) WriteEnvironment(now, to);
  if (environment) process->reported_environment = true;
  if (words) {
    WriteLastWords(now.last_words, to);
    WriteWords(now.words, to);
  }
  if (seen > 0) to->Number(seen);
  for (std::size_t i = now.observations.size() - seen; i < now.observations.size(); ++i)
    WriteObservation(now.observations[i], to);
  process->known = true;
  process->reported_state = now.state;
  process->reported_watching = now.watching;
  process->reported_words = now.words_said;
  process->reported_observations = now.observations.size();
  process->reported_inside_ns = inside_ns;
  if (news.empty()) return;
  to->Number(news.size());
  std::uint64_t next = 0;
  for (const auto& [member_now, member] : news) {
    to->Number(member_now->index - next);
    next = member_now->index + 1;
    WriteMember(*member_now, now_ns, member, to);
  }
}

// The bits, and into *to what they announce.
std::uint8_t Reporter::WriteCheck(const MemberNow& now, std::int64_t now_ns, Member* member, Writer* to) {
  const bool at_rest = now_ns - member->since_ns >= kSettled_ns;
  Check check = at_rest ? Check{now.entered, now.chain} : member->pace;
  member->pace = {};
  if (check.position == 0 || check.position > now.entered) return 0;
  member->reported_check = check;
  const bool here = check.position == now.entered;
  if (!here) to->Number(now.entered - check.position);
  Check& said = said_[now.id];
  const bool same = said == check;
  if (!same) to->Whole(check.chain);
  said = check;
  return static_cast<std::uint8_t>((here ? kCheckHere : kCheckBefore) | (same ? kSameCheck : 0));
}

void Reporter::WriteMember(const MemberNow& now, std::int64_t now_ns, Member* member, Writer* to) {
  const Progress& seen = member->seen;
  const Progress& reported = member->reported;
  const bool facts = !member->known;
  const bool counts = seen.creations != reported.creations || seen.empties != reported.empties ||
                      seen.sends != reported.sends || seen.receives != reported.receives;
  const bool last = now.last && seen.Pending() && StandsStill(*member, now_ns);
  Writer check;
  const std::uint8_t check_bits = WriteCheck(now, now_ns, member, &check);
  to->Byte(static_cast<std::uint8_t>(
      (facts ? kMemberFacts : 0) | (seen.state != format::CommunicatorState::kReady ? kState : 0) |
      (seen.returned != seen.entered ? kInside : 0) | (seen.outstanding ? kOutstanding : 0) | check_bits |
      (counts || last ? kMore : 0)));
  if (facts) {
    to->Number(now.generation).Whole(now.id).Number(now.parent == 0 ? 0 : 1);
    if (now.parent != 0) to->Whole(now.parent).Number(now.parent_ordinal);
    to->Number(now.rank).Number(now.size).Number(now.flags).Signed(now.color);
    to->Number(Age(now_ns, now.created_ns)).Text(now.label, format::kLabelBytes).Text(now.gpu, kMostName);
  }
  if (seen.state != format::CommunicatorState::kReady) to->Number(static_cast<std::uint64_t>(seen.state));
  to->Number(seen.entered);
  if (seen.returned != seen.entered) to->Signed(static_cast<std::int64_t>(seen.entered - seen.returned));
  to->Number(Age(now_ns, member->since_ns)).Raw(check.bytes());
  if (counts || last) to->Byte(static_cast<std::uint8_t>((counts ? kCounts : 0) | (last ? kLastCall : 0)));
  if (counts) to->Number(seen.creations).Number(seen.empties).Number(seen.sends).Number(seen.receives);
  if (last) WriteCall(*now.last, now_ns, to);
  member->known = true;
  member->reported = seen;
  member->reported_last = last;
}

}  // namespace ncclwatch::nodes
