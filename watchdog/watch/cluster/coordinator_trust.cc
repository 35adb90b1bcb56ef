// Whom a leader may believe: nodes that were proved by nothing better than a guessable token may be strangers.
#include <algorithm>
#include <utility>

#include "watchdog/log/log.h"
#include "watchdog/watch/cluster/coordinator.h"

namespace ncclwatch::watch {

// Once for a leader.
void ClusterCoordinator::SayGuessable() {
  if (std::exchange(said_guessable_, true)) return;
  log::Warn(
      "a stranger could guess the token by which the nodes of this job trust one another: verdicts of other nodes are "
      "shown, but not acted upon (abort, evidence, hook); NCCLWATCH_TOKEN_FILE gives the nodes a secret");
}

bool ClusterCoordinator::Unproven() const {
  if (!hub_) return role_ == Role::kMember && (hub_guessable_ || word_unproven_);
  const auto& all = hub_->table().nodes();
  return std::any_of(guessable_.begin(), guessable_.end(), [&](const std::string& node) {
    const auto found = all.find(node);
    return found != all.end() && !found->second.processes.empty();
  });
}

// No rank is left that a guessable token could stand for.
bool ClusterCoordinator::ProvenAreAll() const {
  std::set<int> ranks;
  for (const auto& [name, node] : hub_->table().nodes())
    if (!guessable_.contains(name))
      for (const auto& [number, row] : node.processes) ranks.insert(row.now.rank);
  const std::int32_t world = context_.own->identity.world_size;
  return world > 0 && ranks.size() >= static_cast<std::size_t>(world);
}

// Without what may have been told by strangers, of whomever.
void ClusterCoordinator::StartTableAnew(std::int64_t now_ns) {
  hub_.reset();
  standby_hub_.reset();
  reporter_.Begin(++session_);
  std::vector<std::string> joined = std::exchange(joined_, {});
  BeginReign(now_ns);
  if (proven_are_all_) {
    std::erase_if(joined, [this](const std::string& node) { return guessable_.contains(node); });
    guessable_.clear();
  }
  for (const std::string& node : joined) {
    hub_->SetSilent(node, guessable_.contains(node));
    hub_->Join(node, now_ns);
  }
  joined_ = std::move(joined);
}

void ClusterCoordinator::TakeJoined(const std::string& node, bool guessable, std::int64_t now_ns) {
  if (guessable) SayGuessable();
  if (guessable && proven_are_all_) return;
  if (const auto known = hub_->table().nodes().find(node); known != hub_->table().nodes().end())
    if (known->second.left_ns != 0 && !known->second.closed) came_again_ns_ = now_ns;
  std::erase(joined_, node);
  joined_.push_back(node);
  if (guessable) {
    guessable_.insert(node);
  } else if (guessable_.erase(node) != 0) {
    return StartTableAnew(now_ns);
  }
  hub_->SetSilent(node, guessable);
  hub_->Join(node, now_ns);
}

}  // namespace ncclwatch::watch
