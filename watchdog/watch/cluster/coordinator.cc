#include "watchdog/watch/cluster/coordinator.h"

#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/nodes/diagnosis_code.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/act/system_log.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/base/clock.h"

namespace ncclwatch::watch {
namespace {

using exchange::Type;
using nodes::Kind;

// A hub that is gone is followed by another one within about this time; then this node judges by itself.
constexpr std::int64_t kLookFor_ns = 5'000 * kMs;
constexpr std::int64_t kClocksEvery_ns = 1'000 * kMs;
constexpr std::int64_t kLostEvery_ns = 200 * kMs;
constexpr std::int64_t kAloneLineEvery_ns = 60'000 * kMs;
constexpr std::size_t kMostActions = 64;       // that wait to be looked at
constexpr std::size_t kHeirs = 2;              // the first that joined: they follow a hub that is gone
constexpr std::uint64_t kByTheHub = 1u << 31;  // in a diagnosis's generation

Type TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kSummary: return Type::kSummary;
    case Kind::kFetch: return Type::kFetch;
    case Kind::kRecords: return Type::kRecords;
    case Kind::kWord: break;
  }
  return Type::kVerdict;
}

// Its machine is there, its leader is not.
bool WasClosed(const std::string& why) { return why == exchange::kHasLeft || why == exchange::kWasClosed; }

}  // namespace

ClusterCoordinator::ClusterCoordinator(const Context& context, LeaseFile* lease, Journal* journal,
                                       const std::vector<std::string>& environment)
    : context_(context),
      lease_(lease),
      journal_(journal),
      environment_(environment),
      generation_(lease->Generation()),
      plan_(SetupFor(context, generation_, environment)),
      planned_ns_(Monotonic()) {
  if (plan_) search_.emplace(plan_->request);
  OpenExchange();
}

ClusterCoordinator::~ClusterCoordinator() = default;

std::size_t ClusterCoordinator::nodes() const {
  if (!hub_) return 1;
  const auto& all = hub_->table().nodes();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const auto& node) { return node.second.connected; }));
}

std::uint64_t ClusterCoordinator::Generation() const {
  return (term_ & UINT32_MAX) << 32 | (IsHub() ? kByTheHub : 0) | (generation_ & (kByTheHub - 1));
}

bool ClusterCoordinator::Send(const std::string& node, Kind kind, std::string body) {
  return exchange_ && exchange_->Send(node, TypeOf(kind), std::move(body));
}

void ClusterCoordinator::Receive(std::int64_t now_ns, const NodeProcesses& group_wait) {
  OpenExchange();
  if (!exchange_) return;
  KeepSecret(now_ns);
  for (const std::string& line : exchange_->TakeLines()) log::Warn("{}", line);
  Settle(now_ns);
  while (std::optional<exchange::Message> message = exchange_->Receive()) Take(std::move(*message), now_ns, group_wait);
  if (now_ns - clocks_ns_ >= kClocksEvery_ns) {
    clocks_ns_ = now_ns;
    LearnClocks(hub_ ? hub_.get() : standby_hub_.get());
  }
  if (!hub_) return;
  if (!guessable_.empty() && now_ns - counted_proven_ns_ >= kClocksEvery_ns) {
    counted_proven_ns_ = now_ns;
    if (ProvenAreAll()) {
      proven_are_all_ = true;
      StartTableAnew(now_ns);
    }
  }
  if (now_ns - lost_looked_ns_ >= kLostEvery_ns) {
    lost_looked_ns_ = now_ns;
    LookAfterTheLost(now_ns);
    SayEarlierRuns();
    if (hub_->earlier_runs().contains(own_)) return LeaveToLaterRun(now_ns);
  }
  hub_->Repeat(now_ns);
}

void ClusterCoordinator::Settle(std::int64_t now_ns) {
  const exchange::Status status = exchange_->status();
  // A hub that hears of a later one counts on from there; it knows what it knew.
  const bool the_same = status.hub_node == hub_node_ && (status.hub ? hub_ != nullptr : status.term == term_);
  if (status.connected && the_same) term_ = status.term;
  if (status.connected && !the_same) {
    term_ = status.term;
    hub_node_ = status.hub_node;
    revision_ = 0;
    pieces_ = {};
    word_.reset();
    word_unproven_ = proven_are_all_ = false;
    guessable_.clear();
    reporter_.Begin(++session_);
    hub_.reset();
    if (status.hub) BeginReign(now_ns);
    standby_hub_.reset();
  }
  hub_guessable_ = status.connected && !status.hub && (status.guessable || only_guessable_);
  if (hub_guessable_) SayGuessable();
  if (!status.connected) {
    if (role_ != Role::kLooking && role_ != Role::kAlone) {
      hub_lost_ns_ = now_ns;
      SetRole(Role::kLooking, now_ns);
    }
    if (since_ns_ == 0) since_ns_ = now_ns;
    if (role_ == Role::kLooking && now_ns - since_ns_ >= kLookFor_ns) SetRole(Role::kAlone, now_ns);
    return;
  }
  SetRole(!status.hub ? Role::kMember : CutOff(now_ns) ? Role::kAlone : Role::kHub, now_ns);
}

void ClusterCoordinator::SetRole(Role role, std::int64_t now_ns) {
  if (role == role_) return;
  role_ = role;
  since_ns_ = now_ns;
  LogRole();
  if (role != Role::kAlone || (said_alone_ns_ != 0 && now_ns - said_alone_ns_ < kAloneLineEvery_ns)) return;
  said_alone_ns_ = now_ns;
  const format::Identity& own = context_.own->identity;
  const int others = own.local_world_size > 0 ? own.world_size - own.local_world_size : 0;  // 0: not known
  log::Warn("the other nodes of the job cannot be reached ({}): {}those of this node are judged alone", place_,
            others > 0 ? fmt::format("{} ranks are not seen, and ", others) : "");
}

void ClusterCoordinator::LogRole() const {
  switch (role_) {
    case Role::kAlone: return log::Info("judges this node alone");
    case Role::kLooking: return log::Info("looks for the other nodes at {}", place_);
    case Role::kMember: return log::Info("is connected to the hub on node {}, term {}", hub_node_, term_);
    case Role::kHub: return log::Info("is the hub of the job's nodes, term {}", term_);
  }
}

void ClusterCoordinator::BeginReign(std::int64_t now_ns) {
  const std::string before = standby_hub_ ? standby_hub_->table().nodes().begin()->first : "";
  hub_ = standby_hub_ ? std::move(standby_hub_) : std::make_unique<nodes::Hub>(this, own_);
  // It may be there again; that it is not there now is known, how it went is in a message still to come.
  if (!before.empty() && hub_->table().nodes().at(before).connected) hub_->Leave(before, false, now_ns);
  hub_->table().SetWallClock(WallClock());
  hub_->Join(own_, now_ns);
  hub_->table().SetShift(own_, 0);
  joined_.clear();
  reign_began_ns_ = now_ns;
  act::TellSystemLog(context_.own->identity, fmt::format("is the hub of its job's nodes ({})", place_));
  new_reign_ = true;
  lost_.clear();
  if (job_minus_here_ns_ == 0) job_minus_here_ns_ = WallClock();
}

void ClusterCoordinator::LeaveToLaterRun(std::int64_t now_ns) {
  log::Warn(
      "a later run has begun the ranks of this node elsewhere: this process belongs to an earlier run, "
      "and leaves the other nodes alone");
  exchange_.reset();
  hub_.reset();
  SetRole(Role::kAlone, now_ns);
}

bool ClusterCoordinator::TakeReign() { return std::exchange(new_reign_, false) && hub_; }

void ClusterCoordinator::Take(exchange::Message message, std::int64_t now_ns, const NodeProcesses& group_wait) {
  message.guessable = (message.guessable || only_guessable_) && message.from != own_;
  if (message.type == Type::kAction) {
    if (message.guessable) return;
    std::optional<nodes::Action> action = nodes::ReadAction(message.body);
    if (action && actions_.size() < kMostActions) actions_.push_back(std::move(*action));
    return;
  }
  if (hub_) return TakeOnHub(std::move(message), now_ns);
  if (message.from == hub_node_) TakeFromHub(std::move(message), now_ns, group_wait);
}

void ClusterCoordinator::TakeFromHub(exchange::Message message, std::int64_t now_ns, const NodeProcesses& group_wait) {
  if (message.type == Type::kFetch) return Answer(message, group_wait);
  if (message.type == Type::kLeft && standby_hub_)
    return standby_hub_->Leave(message.from, WasClosed(message.body), now_ns);
  if (message.type == Type::kSummary) {
    if (message.guessable) return;
    if (!standby_hub_) {
      standby_hub_ = std::make_unique<nodes::Hub>(this, own_);
      standby_hub_->table().SetWallClock(WallClock());
      standby_hub_->Join(message.from, now_ns);
    }
    return standby_hub_->TakeSummary(message.from, message.body, now_ns);
  }
  if (message.type == Type::kMachine && !message.guessable) return KeepMachine(std::move(message.body));
  if (message.type == Type::kSlowness && !message.guessable) slow_ = nodes::ReadFindings(message.body);
  if (message.type != Type::kVerdict) return;
  bool damaged = false;
  const std::optional<std::string> whole = pieces_.Add(message.body, &damaged);
  if (!whole) return;
  std::optional<nodes::VerdictBroadcast> word = nodes::ReadWord(*whole);
  if (!word) return;
  revision_ = word->revision;
  word->unproven = word->unproven || message.guessable;
  word_unproven_ = word->unproven;
  if (word->job_minus_yours_ns != 0 && !word->unproven) job_minus_here_ns_ = word->job_minus_yours_ns;
  word_ = std::move(word);
}

void ClusterCoordinator::TakeOnHub(exchange::Message message, std::int64_t now_ns) {
  switch (message.type) {
    case Type::kJoined:
      log::Debug("node {} has joined{}", message.from, message.guessable ? "; it may be a stranger" : "");
      return TakeJoined(message.from, message.guessable, now_ns);
    case Type::kLeft:
      log::Debug("node {} has left: {}", message.from,
                 WasClosed(message.body) ? "it closed its connection" : "it is not heard of any more");
      std::erase(joined_, message.from);
      return hub_->Leave(message.from, WasClosed(message.body), now_ns);
    case Type::kSummary:
      if (message.guessable && !guessable_.contains(message.from)) return;
      return hub_->TakeSummary(message.from, message.body, now_ns);
    case Type::kRecords:
      if (message.guessable) return;
      return hub_->TakeRecords(message.from, message.body);
    case Type::kSteps: return message.guessable ? void() : KeepSteps(std::move(message.body));
    case Type::kMachine: return message.guessable ? void() : KeepMachine(std::move(message.body));
    case Type::kFetch: return reporter_.Begin(++session_);  // a successor has missed something
    default: return;
  }
}

void ClusterCoordinator::Answer(const exchange::Message& asked, const NodeProcesses& group_wait) {
  const std::optional<nodes::Fetch> fetch = nodes::ReadFetch(asked.body);
  if (!fetch) return;
  if (fetch->number == 0) return reporter_.Begin(++session_);
  if (asked.guessable) return;
  const std::uint64_t calls = fetch->communicator != 0 ? UINT64_MAX : fetch->newest_calls;
  for (std::string& piece : nodes::Answer(*fetch, group_wait.Images(calls)))
    exchange_->Send(asked.from, Type::kRecords, std::move(piece));
}

void ClusterCoordinator::Report(std::int64_t now_ns, const NodeProcesses& group_wait, diagnosis::LiveCompare* compare) {
  if (!exchange_) return;
  if (!hub_ && role_ != Role::kMember) return;
  nodes::NodeNow now = eyes_.Look(now_ns, group_wait, compare);
  now.revision = revision_;
  for (std::string& body : reporter_.Look(now)) {
    if (!hub_) {
      exchange_->Send(hub_node_, Type::kSummary, std::move(body));
      continue;
    }
    hub_->TakeSummary(own_, body, now_ns);
    for (std::size_t i = 0; i < std::min(kHeirs, joined_.size()); ++i)
      exchange_->Send(joined_[i], Type::kSummary, body);
  }
  if (hub_) hub_->table().Poll(now_ns);
}

std::optional<nodes::VerdictBroadcast> ClusterCoordinator::TakeVerdictBroadcast() {
  if (role_ != Role::kMember) return std::nullopt;
  return std::exchange(word_, std::nullopt);
}

void ClusterCoordinator::Ask(const nodes::Action& action, bool hub_only) {
  if (role_ == Role::kHub || role_ == Role::kMember)
    exchange_->Send(hub_only ? "" : "*", Type::kAction, nodes::Write(action));
}

std::optional<nodes::Action> ClusterCoordinator::TakeAction() {
  if (actions_.empty()) return std::nullopt;
  nodes::Action action = std::move(actions_.front());
  actions_.pop_front();
  return action;
}

void ClusterCoordinator::Linger() const {
  constexpr unsigned kLinger_us = 15'000;
  if (role_ == Role::kHub || role_ == Role::kMember) usleep(kLinger_us);
}

void ClusterCoordinator::Say(nodes::VerdictBroadcast word, std::int64_t now_ns) {
  word.hub_host = context_.own->identity.host;
  hub_->Say(std::move(word), job_minus_here_ns_, now_ns);
}

std::vector<reader::BoxImage> ClusterCoordinator::OtherBoxes(const std::vector<reader::BoxImage>& own,
                                                             std::int64_t now_ns) const {
  return hub_->Boxes(own, job_minus_here_ns_, now_ns);
}

std::int64_t ClusterCoordinator::WallClock() const {
  return context_.own->clock.realtime_minus_monotonic_ns.load(std::memory_order_relaxed);
}

// By the exchange's estimate where there is one, else by the wall clocks.
void ClusterCoordinator::LearnClocks(nodes::Hub* hub) {
  if (hub == nullptr) return;
  const format::Header& own = *context_.own;
  const std::int64_t realtime_ns = WallClock();
  std::map<std::string, std::int64_t> known;
  late_ns_ = 0;
  for (const exchange::Peer& peer : exchange_->Peers()) {
    if (peer.clock_error_ns >= 0) known[peer.node] = -peer.clock_offset_ns;
    late_ns_ = std::max(late_ns_, peer.late_ns);
  }
  hub->SetLate(late_ns_);
  for (const auto& [name, node] : hub->table().nodes()) {
    if (name == own_ || node.processes.empty()) continue;
    const nodes::ProcessNow& process = node.processes.begin()->second.now;
    const auto estimate = known.find(name);
    const bool same_clock = process.boot_id == std::string_view(own.identity.boot_id);
    const std::int64_t by_wall_clock_ns = process.realtime_minus_monotonic_ns - realtime_ns;
    hub->table().SetShift(name, same_clock ? 0 : estimate != known.end() ? estimate->second : by_wall_clock_ns);
  }
}

}  // namespace ncclwatch::watch
