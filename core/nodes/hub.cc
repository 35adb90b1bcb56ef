#include "core/nodes/hub.h"

#include <algorithm>
#include <cstdint>

#include "core/nodes/table.h"
#include "core/reader/image.h"

namespace ncclwatch::nodes {
namespace {

// A process as its node's summaries tell it, in the form of a box: communicators with their counts and states, and the
// call in which a member has stood still. What a summary does not say it does not invent: such an image is marked, and
// the counts of its messages are taken for unknown.

// Tickets are not told: one is made up that has finished or has not.
void AddProgress(const MemberRow& row, reader::Communicator* comm) {
  constexpr std::uint64_t kOne = 1;
  comm->tickets = kOne;
  comm->marks[0] = row.now.outstanding ? 0 : kOne;
  if (row.last && (row.last->flags & format::kMarked) != 0) {
    comm->tickets = row.last->ticket + 1;
    comm->marks = {};
    if (!row.now.outstanding) comm->marks[row.last->ticket % format::kMarks] = row.last->ticket + 1;
  }
}

reader::Communicator CommunicatorOf(const MemberRow& row) {
  const MemberNow& now = row.now;
  reader::Communicator comm;
  comm.index = now.index;
  comm.generation = now.generation;
  comm.id = now.id;
  comm.parent = now.parent;
  comm.parent_ordinal = now.parent_ordinal;
  comm.rank = now.rank;
  comm.size = now.size;
  comm.color = now.color;
  comm.flags = now.flags;
  comm.state = now.state;
  comm.label = now.label;
  comm.gpu = now.gpu;
  comm.created_ns = now.created_ns;
  comm.entered = now.entered;
  comm.returned = now.returned;
  comm.chain = now.chain;
  comm.creations = now.creations;
  comm.sends = now.sends;
  comm.receives = now.receives;
  comm.empties = now.empties;
  comm.last.entered_ns = row.last ? row.last->entered_ns : now.entered > 0 ? row.since_ns : 0;
  comm.last.flags = format::kMarked;
  AddProgress(row, &comm);
  return comm;
}

// now_ns: the hub's. The heartbeat is as old as it was when it was told, unless the node is not heard of any more.
reader::BoxImage ThinImage(const Table::Node& node, const ProcessRow& row, std::int64_t now_ns) {
  const ProcessNow& now = row.now;
  reader::BoxImage image;
  image.from_summary = true;
  image.boot_id = now.boot_id;
  image.host = now.host;
  image.node = now.node;
  image.job = now.job;
  image.command = now.command;
  image.pid_namespace = now.pid_namespace;
  image.start_time = now.start_time;
  image.pid = now.pid;
  image.attempt = now.attempt;
  image.rank = now.rank;
  image.world_size = now.world_size;
  image.local_rank = now.local_rank;
  image.local_world_size = now.local_world_size;
  image.state = now.state;
  image.watching = now.watching;
  image.heartbeats = 1;
  image.heartbeat_ns = now.heartbeat_ns;
  // Heard of is alive: that a process gives no sign of life its own leader alone can say.
  const std::int64_t there_ns = (node.connected ? now_ns : node.left_ns) - node.shift_ns;
  if (!row.gone && there_ns > row.reported_ns) image.heartbeat_ns += there_ns - row.reported_ns;
  image.realtime_minus_monotonic_ns = now.realtime_minus_monotonic_ns;
  image.nccl_version = now.nccl_version;
  image.environment = now.environment;
  image.gpu_marks = now.gpu_marks;
  image.last_words = now.last_words;
  image.words = now.words;
  image.observations = now.observations;
  image.first_slot = 1;  // its history is not whole
  for (const auto& [index, member] : row.members) {
    if (member.now.state == format::CommunicatorState::kFree) continue;
    image.communicators.push_back(CommunicatorOf(member));
    if (!member.last) continue;
    reader::Call call = *member.last;
    call.communicator = member.now.index;
    call.generation = member.now.generation;
    call.flags &= ~std::uint32_t{format::kStartMarked};  // whether it has begun is not told
    image.calls.push_back(call);
  }
  std::sort(image.calls.begin(), image.calls.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
  image.head = image.calls.empty() ? 1 : image.calls.back().slot + 1;
  return image;
}

constexpr std::size_t kSmallJob = 16;      // nodes: all of them are asked
constexpr std::size_t kMostAsked = 64;     // of a larger one
constexpr std::size_t kForAll = 4;         // nodes a side, where the whole ring is wanted
constexpr std::uint64_t kCalls = 200'000;  // that are wanted in memory at once, over all processes
constexpr std::uint64_t kFewestCalls = 64;
constexpr std::uint64_t kMostAnswerBytes = 48u << 20;  // of all answers together
constexpr std::uint64_t kFewestBytes = 256u << 10;
constexpr std::uint64_t kSlowCalls = 64;           // of each process, and
constexpr std::uint64_t kSlowBytes = 16384;        // from a node that did not answer in time,
constexpr std::int64_t kSlow_ns = 30'000'000'000;  // for so long
// For answers; a node that is slower is judged by its summaries.
constexpr std::int64_t kPatience_ns = 1'500'000'000, kMostPatience_ns = 8'000'000'000;
constexpr int kPatienceLates = 4;  // an answer is more than one segment, and each may be lost

// Of answers that come, over all nodes: bytes that are not whole yet, and of memory for those that are.
constexpr std::size_t kMostPieces = 128u << 20, kMostFetched = 1u << 30;

constexpr std::int64_t kAnew_ns = 500'000'000;  // between two wishes for a new session
// A word that is on its way is not sent again at once, and each time after twice as long.
constexpr std::int64_t kRepeat_ns = 1'000'000'000;
constexpr int kMostDoublings = 5;

// Two nodes claim the same rank. Their clocks agree better than this, and the ranks of one run begin closer together
// than a run ends and another one begins.
constexpr std::int64_t kLaterRun_ns = 5'000'000'000;
constexpr std::int64_t kTick_ns = 10'000'000;  // of start_time: USER_HZ is 100 on every Linux

// Wall clock. Both come from another node, as any numbers; two of these can be subtracted.
std::int64_t BeganAt_ns(const ProcessNow& process) {
  constexpr std::int64_t kQuarter = INT64_MAX / 4;
  const std::uint64_t ticks = std::min<std::uint64_t>(process.start_time, kQuarter / kTick_ns);
  return static_cast<std::int64_t>(ticks) * kTick_ns +
         std::clamp(process.realtime_minus_monotonic_ns, -kQuarter, kQuarter);
}

bool IsAlive(const ProcessRow& row) { return !row.gone && row.now.state != format::ProcessState::kExiting; }

bool SameProcess(const reader::BoxImage& a, const reader::BoxImage& b) {
  return a.pid == b.pid && a.start_time == b.start_time && a.pid_namespace == b.pid_namespace && a.boot_id == b.boot_id;
}

}  // namespace

void Hub::Join(const std::string& node, std::int64_t now_ns) {
  table_.Join(node, now_ns);
  if (!table_.nodes().contains(node)) {
    ++refused_;
    return;
  }
  pieces_.erase(node);
  waiting_.erase(node);
  owing_.erase(node);
  ForgetUnknown();
  if (node == own_) return;
  Ask(node, {});
  asked_anew_ns_[node] = now_ns;
  Tell(node, now_ns);
}

// The table forgets nodes that have left where there are too many.
void Hub::ForgetUnknown() {
  const auto unknown = [this](const auto& one) { return !table_.nodes().contains(one.first); };
  const auto unknown_name = [this](const std::string& name) { return !table_.nodes().contains(name); };
  if (asked_anew_ns_.size() <= table_.nodes().size()) return;
  std::erase_if(asked_anew_ns_, unknown);
  std::erase_if(reported_, unknown);
  std::erase_if(slow_until_ns_, unknown);
  std::erase_if(fetched_, unknown);
  std::erase_if(owing_, unknown_name);
  std::erase_if(others_, unknown_name);
  std::erase_if(crowded_, unknown_name);
}

// An old leader that has survived its run finds the next run at the same address, and knows its token. Two live
// processes with one rank cannot belong to one run: the node with the older process belongs to an earlier one.
void Hub::FindEarlierRuns() {
  struct Claim {
    std::int64_t began_ns;
    const std::string* node;
  };
  std::unordered_map<std::int32_t, Claim> claims;
  earlier_runs_.clear();
  for (const auto& [name, node] : table_.nodes()) {
    for (const auto& [number, row] : node.processes) {
      if (row.now.rank < 0 || !IsAlive(row)) continue;
      const Claim here{BeganAt_ns(row.now), &name};
      const auto [claim, first] = claims.try_emplace(row.now.rank, here);
      if (first || claim->second.node == &name) continue;
      const bool newer = here.began_ns > claim->second.began_ns;
      const Claim& later = newer ? here : claim->second;
      const Claim& older = newer ? claim->second : here;
      if (later.began_ns - older.began_ns >= kLaterRun_ns) earlier_runs_.insert(*older.node);
      if (newer) claim->second = here;
    }
  }
}

void Hub::Leave(const std::string& node, bool closed, std::int64_t now_ns) {
  table_.Leave(node, closed, now_ns);
  pieces_.erase(node);
  waiting_.erase(node);
}

void Hub::TakeSummary(const std::string& node, std::string_view body, std::int64_t now_ns) {
  if (!table_.nodes().contains(node)) {
    ++refused_;
    return;
  }
  const Table::Node& row = table_.nodes().at(node);
  const auto known = std::pair(row.session, row.processes.size());
  const Outcome outcome = table_.Tell(node, body, now_ns);
  if (known != std::pair(row.session, row.processes.size())) FindEarlierRuns();
  if (outcome == Outcome::kOther) others_.insert(node);
  if (outcome == Outcome::kFull) crowded_.insert(node);
  if (outcome == Outcome::kTaken) crowded_.erase(node);
  if (outcome == Outcome::kDamaged || outcome == Outcome::kFull) ++refused_;
  if ((outcome != Outcome::kGap && outcome != Outcome::kDamaged) || node == own_) return;
  std::int64_t& asked_ns = asked_anew_ns_[node];
  if (now_ns - asked_ns < kAnew_ns) return;
  asked_ns = now_ns;
  Ask(node, {});
}

bool Hub::HasRoomFor(std::string_view piece) const {
  std::size_t bytes = piece.size();
  for (const auto& [node, pieces] : pieces_) bytes += pieces.bytes();
  return bytes <= kMostPieces;
}

std::size_t Hub::RoomForBoxes(const std::string& node) const {
  std::size_t made = 0;
  for (const auto& [name, fetched] : fetched_) made += name == node ? 0 : fetched.made;
  return std::min(kMostMade, kMostFetched - std::min(kMostFetched, made));
}

void Hub::TakeRecords(const std::string& node, std::string_view body) {
  // Only of whom something was asked, and only what there is room for.
  if ((!owing_.contains(node) && !waiting_.contains(node)) || !HasRoomFor(body)) {
    pieces_.erase(node);
    ++refused_;
    return;
  }
  bool damaged = false;
  const std::optional<std::string> whole = pieces_[node].Add(body, &damaged);
  refused_ += damaged ? 1 : 0;
  if (!whole) return;
  pieces_.erase(node);
  owing_.erase(node);
  std::optional<Records> records = ReadRecords(*whole, RoomForBoxes(node));
  refused_ += records ? 0 : 1;
  const auto waited = waiting_.find(node);
  if (waited == waiting_.end() || (records && records->number != waited->second)) return;
  waiting_.erase(waited);
  if (records) fetched_[node] = {std::move(records->boxes), records->made};
}

void Hub::Ask(const std::string& node, const Fetch& fetch) { post_->Send(node, Kind::kFetch, nodes::Write(fetch)); }

std::vector<std::string> Hub::Whom(const diagnosis::Diagnosis& first) const {
  std::vector<std::string> whom;
  std::set<std::string> known = silent_;
  known.insert(own_);
  for (const auto& [node, boxes] : fetched_) known.insert(node);
  const auto add = [&](const std::string& node) {
    const auto found = table_.nodes().find(node);
    if (found == table_.nodes().end() || !found->second.connected || owing_.contains(node) || whom.size() >= kMostAsked)
      return;
    if (known.insert(node).second) whom.push_back(node);
  };
  if (table_.nodes().size() <= kSmallJob) {
    for (const auto& [node, row] : table_.nodes()) add(node);
    return whom;
  }
  std::set<int> culprits;
  for (const diagnosis::Finding& finding : first.findings)
    culprits.insert(finding.culprits.begin(), finding.culprits.end());
  for (const auto& [node, row] : table_.nodes())
    for (const auto& [number, process] : row.processes)
      if (culprits.contains(process.now.rank)) add(node);
  for (const Table::Suspicion& suspicion : table_.suspicions())
    for (const std::string& node : table_.Concerned(suspicion.communicator)) add(node);
  for (const diagnosis::Finding& finding : first.findings)
    if (finding.communicator)
      for (const std::string& node : table_.Concerned(finding.communicator->id)) add(node);
  for (const std::string& node : table_.Quiet(INT64_MAX)) add(node);
  return whom;
}

std::vector<std::string> Hub::WhomForAll(std::uint64_t communicator) const {
  std::vector<std::string> concerned = table_.Concerned(communicator);
  std::erase_if(concerned, [&](const std::string& node) {
    const auto found = table_.nodes().find(node);
    return node == own_ || silent_.contains(node) || found == table_.nodes().end() || !found->second.connected ||
           owing_.contains(node);
  });
  if (concerned.size() <= 2 * kForAll) return concerned;
  concerned.erase(concerned.begin() + kForAll, concerned.end() - kForAll);
  return concerned;
}

void Hub::SetSilent(const std::string& node, bool silent) {
  if (silent)
    silent_.insert(node);
  else
    silent_.erase(node);
}

void Hub::Gather(const std::vector<std::string>& nodes, std::uint64_t communicator, std::int64_t now_ns) {
  waiting_.clear();
  std::uint64_t processes = 0;
  for (const std::string& node : nodes) {
    const auto found = table_.nodes().find(node);
    if (found != table_.nodes().end()) processes += found->second.processes.size();
  }
  Fetch fetch;
  fetch.number = ++fetches_;
  fetch.newest_calls = std::max(kFewestCalls, kCalls / std::max<std::uint64_t>(1, processes));
  fetch.communicator = communicator;
  fetch.most_bytes = std::max(kFewestBytes, kMostAnswerBytes / std::max<std::uint64_t>(1, nodes.size()));
  for (const std::string& node : nodes) {
    waiting_[node] = fetch.number;
    owing_.insert(node);
    const auto slow = slow_until_ns_.find(node);
    if (slow == slow_until_ns_.end() || now_ns >= slow->second) {
      Ask(node, fetch);
      continue;
    }
    Fetch little = fetch;
    little.newest_calls = std::min(little.newest_calls, kSlowCalls);
    little.most_bytes = std::min(little.most_bytes, kSlowBytes);
    Ask(node, little);
  }
  gathering_ = true;
  gather_until_ns_ = now_ns + std::min(kPatience_ns + kPatienceLates * late_ns_, kMostPatience_ns);
}

bool Hub::Gathered(std::int64_t now_ns) {
  if (!gathering_ || (!waiting_.empty() && now_ns < gather_until_ns_)) return false;
  gathering_ = false;
  for (const auto& [node, number] : waiting_) slow_until_ns_[node] = now_ns + kSlow_ns;
  waiting_.clear();
  return true;
}

void Hub::LetGo() {
  fetched_.clear();
  gathering_ = false;
  waiting_.clear();
}

std::vector<reader::BoxImage> Hub::Boxes(const std::vector<reader::BoxImage>& own, std::int64_t job_minus_here_ns,
                                         std::int64_t now_ns) const {
  std::vector<reader::BoxImage> boxes;
  for (const auto& [name, node] : table_.nodes()) {
    if (name == own_ || table_.IsOvertaken(node) || earlier_runs_.contains(name)) continue;
    const std::size_t begin = boxes.size();
    const auto fetched = fetched_.find(name);
    if (fetched != fetched_.end()) {
      boxes.insert(boxes.end(), fetched->second.boxes.begin(), fetched->second.boxes.end());
    } else {
      for (const auto& [number, row] : node.processes) {
        boxes.push_back(ThinImage(node, row, now_ns));
        table_.BringForward(node, &boxes.back());
      }
    }
    for (std::size_t i = begin; i < boxes.size(); ++i) {
      reader::LeaderState& leader_state = boxes[i].leader_state;
      leader_state = {};
      if (job_minus_here_ns != 0) leader_state.job_minus_monotonic_ns = job_minus_here_ns + node.shift_ns;
    }
  }
  // Nodes that share a run directory tell of the same processes.
  std::erase_if(boxes, [&](const reader::BoxImage& box) {
    return std::any_of(own.begin(), own.end(), [&](const auto& mine) { return SameProcess(box, mine); });
  });
  return boxes;
}

void Hub::Say(VerdictBroadcast word, std::int64_t job_minus_here_ns, std::int64_t now_ns) {
  word.revision = word_.revision + 1;
  word_ = std::move(word);
  job_minus_here_ns_ = job_minus_here_ns;
  reported_.clear();
  for (const auto& [node, row] : table_.nodes())
    if (node != own_ && row.connected && !Tell(node, now_ns)) break;
}

bool Hub::Tell(const std::string& node, std::int64_t now_ns) {
  if (word_.revision == 0 || earlier_runs_.contains(node)) return true;
  reported_[node].at_ns = now_ns;
  word_.job_minus_yours_ns = job_minus_here_ns_ == 0 ? 0 : job_minus_here_ns_ + table_.nodes().at(node).shift_ns;
  bool sent = true;
  for (std::string& body : nodes::Write(word_)) sent = sent && post_->Send(node, Kind::kWord, std::move(body));
  if (!sent) reported_.erase(node);
  return sent;
}

void Hub::Repeat(std::int64_t now_ns) {
  for (const auto& [node, row] : table_.nodes()) {
    if (node == own_ || !row.connected || row.next == 0 || row.revision == word_.revision) continue;
    Reported& reported = reported_[node];
    if (now_ns - reported.at_ns < kRepeat_ns << std::min(reported.again, kMostDoublings)) continue;
    ++reported.again;
    if (!Tell(node, now_ns)) break;
  }
}

}  // namespace ncclwatch::nodes
