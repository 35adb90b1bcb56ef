#include "watchdog/exchange/tcp/dialer.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace ncclwatch::exchange {
namespace {

constexpr std::int64_t kFirstWait_ns = 50'000'000;
constexpr std::int64_t kBusyWait_ns = 200'000'000, kLongestBusyWait_ns = 4'000'000'000;
constexpr std::size_t kMostTargets = 128;

}  // namespace

void Dialer::Aim(std::vector<Endpoint> targets, std::int64_t longest_ns) {
  if (targets.size() > kMostTargets) targets.resize(kMostTargets);
  longest_ns_ = longest_ns;
  if (targets == targets_) return;
  targets_ = std::move(targets);
  std::map<Endpoint, Pace> paces;
  for (const Endpoint& target : targets_) {
    const auto known = paces_.find(target);
    paces.emplace(target, known == paces_.end() ? Pace{} : known->second);
  }
  paces_ = std::move(paces);
}

void Dialer::Hurry(const Endpoint& target) {
  const auto found = paces_.find(target);
  if (found != paces_.end()) found->second = {};
}

void Dialer::Stop() {
  targets_.clear();
  paces_.clear();
  while (!calls_.empty()) HangUp(calls_.back().get());
}

bool Dialer::Calling(const Endpoint& target) const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& call) { return call->remote() == target; });
}

// Nodes that lost their hub together shall not call together for ever.
std::int64_t Dialer::Jittered(std::int64_t wait_ns) {
  if (random_ == 1)
    for (const char c : context_->setup.self.node) random_ = random_ * 16777619u ^ static_cast<unsigned char>(c);
  random_ = random_ * 1664525u + 1013904223u;
  return wait_ns * 3 / 4 + wait_ns / 2 * (random_ >> 22) / 1024;
}

void Dialer::Call(const Endpoint& target, std::int64_t now_ns) {
  Pace& pace = paces_[target];
  // A longer one was the answer's, not ours.
  const std::int64_t longest_ns = std::max({kFirstWait_ns, longest_ns_, pace.wait_ns});
  pace.wait_ns = std::clamp(pace.wait_ns * 8 / 5, kFirstWait_ns, longest_ns);
  pace.next_ns = now_ns + Jittered(pace.wait_ns);
  std::unique_ptr<Connection> call = Connection::Dial(context_->loop, &context_->keys, &context_->counters, target,
                                                      context_->place.Source(target), this);
  if (!call) {
    char text[128];
    last_failure_ = target.ToText() + ": " + strerror_r(errno, text, sizeof(text));
    return;
  }
  calls_.push_back(std::move(call));
}

std::int64_t Dialer::Limit_ns(const Connection& call) const {
  const Timing& timing = context_->setup.timing;
  return call.born_ns() + (call.connected() ? timing.handshake : timing.connect);
}

void Dialer::Tick(std::int64_t now_ns) {
  std::vector<Connection*> late;
  for (const auto& call : calls_)
    if (now_ns > Limit_ns(*call)) late.push_back(call.get());
  for (Connection* const call : late) Fail(call, "no answer");
  for (const Endpoint& target : targets_) {
    if (calls_.size() >= kAtOnce) break;
    if (paces_[target].next_ns <= now_ns && !Calling(target)) Call(target, now_ns);
  }
}

std::int64_t Dialer::Due_ns() const {
  std::int64_t due = INT64_MAX;
  for (const auto& call : calls_) due = std::min(due, Limit_ns(*call) + 1);
  if (calls_.size() >= kAtOnce) return due;
  for (const auto& [target, pace] : paces_)
    if (!Calling(target)) due = std::min(due, pace.next_ns);
  return due;
}

std::unique_ptr<Connection> Dialer::Release(Connection* connection) {
  const auto found =
      std::find_if(calls_.begin(), calls_.end(), [connection](const auto& one) { return one.get() == connection; });
  if (found == calls_.end()) return nullptr;
  std::unique_ptr<Connection> released = std::move(*found);
  calls_.erase(found);
  return released;
}

void Dialer::HangUp(Connection* connection) {
  if (std::unique_ptr<Connection> released = Release(connection)) {
    released->Close();
    context_->loop->DeferDelete(std::move(released));
  }
}

void Dialer::OnProven(Connection* connection) {
  connection->Send(static_cast<std::uint16_t>(Kind::kJoin), handler_->OwnJoin().Encode());
}

void Dialer::OnFrame(Connection* connection, Frame frame) {
  const Endpoint from = connection->remote();
  switch (static_cast<Kind>(frame.kind)) {
    case Kind::kWelcome:
      if (const std::optional<Welcome> welcome = Welcome::Decode(frame.payload))
        return handler_->OnWelcome(Release(connection), *welcome);
      break;
    case Kind::kElsewhere:
      if (std::optional<Redirect> elsewhere = Redirect::Decode(frame.payload)) {
        elsewhere->guessable = connection->guessable();
        HangUp(connection);
        return handler_->OnElsewhere(from, *elsewhere);
      }
      break;
    case Kind::kYield: HangUp(connection); return handler_->OnYield(from);
    default: break;
  }
  ++context_->counters.messages_refused;
  HangUp(connection);
}

void Dialer::Fail(Connection* connection, const std::string& why) {
  last_failure_ = connection->remote().ToText() + ": " + why;
  if (connection->other_version()) context_->SayVersion(connection->remote(), why);
  const auto pace = paces_.find(connection->remote());
  if (pace != paces_.end()) {
    pace->second.failed = true;
    // Somebody is there and has no time for us: with a thousand others it would have ever less if all came at once.
    if (connection->was_connected()) {
      pace->second.wait_ns = std::clamp(2 * pace->second.wait_ns, kBusyWait_ns, kLongestBusyWait_ns);
      pace->second.next_ns = Now() + Jittered(pace->second.wait_ns);
    }
  }
  HangUp(connection);
}

void Dialer::OnEnd(Connection* connection, const std::string& why) { Fail(connection, why); }

bool Dialer::Reaches(const Endpoint& target) const {
  const auto pace = paces_.find(target);
  if (pace == paces_.end() || pace->second.failed) return false;
  // The kernel answers for a process that is stopped, too.
  const std::int64_t since_ns = Now() - context_->setup.timing.connect;
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& call) {
    return call->remote() == target && call->connected() && call->born_ns() >= since_ns;
  });
}

}  // namespace ncclwatch::exchange
