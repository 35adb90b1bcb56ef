// What leaders tell one another of steps, of what slows them and of their machines.
#include <utility>

#include "core/nodes/diagnosis_code.h"
#include "watchdog/watch/cluster/coordinator.h"

namespace ncclwatch::watch {
namespace {

constexpr std::size_t kMostSteps = 64u << 20;  // bytes, from one look of the leader to the next

}  // namespace

void ClusterCoordinator::TellSteps(std::string body) {
  if (role_ == Role::kMember) exchange_->Send(hub_node_, exchange::Type::kSteps, std::move(body));
}

void ClusterCoordinator::KeepSteps(std::string body) {
  if (steps_bytes_ + body.size() > kMostSteps) return;
  steps_bytes_ += body.size();
  steps_.push_back(std::move(body));
}

std::optional<std::string> ClusterCoordinator::TakeSteps() {
  if (steps_.empty()) return std::nullopt;
  std::string body = std::move(steps_.front());
  steps_.pop_front();
  steps_bytes_ -= body.size();
  return body;
}

void ClusterCoordinator::SaySlow(const std::vector<diagnosis::Finding>& findings) {
  if (role_ == Role::kHub) exchange_->Send("*", exchange::Type::kSlowness, nodes::WriteFindings(findings));
}

std::optional<std::vector<diagnosis::Finding>> ClusterCoordinator::TakeSlow() {
  return std::exchange(slow_, std::nullopt);
}

void ClusterCoordinator::TellMachine(std::string text) {
  if (role_ == Role::kMember) exchange_->Send(hub_node_, exchange::Type::kMachine, std::move(text));
  if (role_ == Role::kHub) exchange_->Send("*", exchange::Type::kMachine, std::move(text));
}

void ClusterCoordinator::KeepMachine(std::string text) {
  constexpr std::size_t kMostTexts = 8192, kMostText = 128 << 10;
  if (machines_.size() < kMostTexts && text.size() <= kMostText) machines_.push_back(std::move(text));
}

std::optional<std::string> ClusterCoordinator::TakeMachine() {
  if (machines_.empty()) return std::nullopt;
  std::string text = std::move(machines_.front());
  machines_.pop_front();
  return text;
}

}  // namespace ncclwatch::watch
