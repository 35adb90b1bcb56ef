// What a hub makes of nodes that it does not hear of any more: how long it waits for them, and what it says then.
#include <fmt/format.h>

#include <algorithm>

#include "core/model/text.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/log/log.h"
#include "watchdog/watch/cluster/coordinator.h"

namespace ncclwatch::watch {
namespace {

// The leader of a node may have changed, or the network lose packets for a while: no verdict by a time-out is so quick.
constexpr std::int64_t kLostAfter_ns = 6'000 * kMs;
// ... where nodes have been lost and were there again within the last minute.
constexpr std::int64_t kLostAfterOthers_ns = 15'000 * kMs, kOthers_ns = 60'000 * kMs;
constexpr std::int64_t kClosedAfter_ns = 1'200 * kMs;  // longer than a lease, and time to come back
// Where signs of life come too late: to come back takes a connection and a proof, and parts of both may be lost.
constexpr int kLates = 6;
constexpr std::int64_t kMostLate_ns = 12'000 * kMs;
constexpr std::int64_t kSettle_ns = 3'000 * kMs;  // who looks for a hub calls every 2 s at least
// As long as the exchange's longest patience: a network that loses packets may be heard again until then.
constexpr std::int64_t kMayComeBack_ns = 10'000 * kMs;

bool LeftByItself(const nodes::ProcessRow& row) { return row.gone || row.now.state == format::ProcessState::kExiting; }

std::string RanksOf(const nodes::Table::Node& node) {
  std::vector<int> ranks;
  for (const auto& [number, row] : node.processes) ranks.push_back(row.now.rank);
  std::sort(ranks.begin(), ranks.end());
  return diagnosis::RankSet(ranks);
}

std::string HostOf(const nodes::Table::Node& node) {
  return node.processes.empty() ? node.name : node.processes.begin()->second.now.host;
}

}  // namespace

bool ClusterCoordinator::Settled(std::int64_t now_ns) const {
  if (now_ns - reign_began_ns_ >= kSettle_ns) return true;
  std::size_t seen = 0;
  for (const auto& [name, node] : hub_->table().nodes()) seen += node.processes.size();
  const std::int32_t world = context_.own->identity.world_size;
  return world > 0 && seen >= static_cast<std::size_t>(world);
}

bool ClusterCoordinator::LostLately(std::int64_t now_ns) const {
  if (!hub_) return hub_lost_ns_ != 0 && now_ns - hub_lost_ns_ < kMayComeBack_ns;
  const auto& all = hub_->table().nodes();
  return std::any_of(all.begin(), all.end(), [&](const auto& one) {
    const nodes::Table::Node& node = one.second;
    const std::int64_t may_ns = node.closed ? LostAfter_ns(node, now_ns) : kMayComeBack_ns;
    return !node.connected && node.left_ns != 0 && now_ns - node.left_ns < may_ns;
  });
}

std::set<int> ClusterCoordinator::LostRanks() const {
  std::set<int> ranks;
  for (const auto& [name, node] : hub_->table().nodes()) {
    if (node.connected) continue;
    for (const auto& [number, row] : node.processes) ranks.insert(row.now.rank);
  }
  return ranks;
}

// More of the job has been lost at once than is left: it is this node that is cut off.
bool ClusterCoordinator::CutOff(std::int64_t now_ns) const {
  std::size_t here = 0, lost = 0;
  for (const auto& [name, node] : hub_->table().nodes()) {
    for (const auto& [number, row] : node.processes) {
      here += node.connected ? 1 : 0;
      const bool silent = !node.connected && !node.closed && now_ns - node.left_ns >= kLostAfter_ns + Allowance_ns();
      lost += silent && !LeftByItself(row) ? 1 : 0;
    }
  }
  return lost > here;
}

std::int64_t ClusterCoordinator::Allowance_ns() const { return std::min(kLates * late_ns_, kMostLate_ns); }

std::int64_t ClusterCoordinator::LostAfter_ns(const nodes::Table::Node& node, std::int64_t now_ns) const {
  const bool flaps = came_again_ns_ != 0 && now_ns - came_again_ns_ < kOthers_ns;
  if (node.closed) return (flaps ? kLostAfter_ns : kClosedAfter_ns) + Allowance_ns();
  return (flaps ? kLostAfterOthers_ns : kLostAfter_ns) + Allowance_ns();
}

void ClusterCoordinator::SayEarlierRuns() {
  for (const std::string& name : hub_->earlier_runs()) {
    const auto node = hub_->table().nodes().find(name);
    if (name == own_ || node == hub_->table().nodes().end() || !said_earlier_.insert(name).second) continue;
    log::Warn("node {} still has ranks {} of an earlier run of this job: they are not watched", HostOf(node->second),
              RanksOf(node->second));
  }
}

void ClusterCoordinator::LookAfterTheLost(std::int64_t now_ns) {
  if (CutOff(now_ns)) return;
  // The table forgets nodes where there are too many.
  if (lost_.size() > hub_->table().nodes().size())
    std::erase_if(lost_, [&](const auto& one) { return !hub_->table().nodes().contains(one.first); });
  for (const auto& [name, node] : hub_->table().nodes()) {
    if (hub_->earlier_runs().contains(name)) continue;
    const bool lost =
        !node.connected && now_ns - node.left_ns >= LostAfter_ns(node, now_ns) && !hub_->table().IsOvertaken(node);
    const bool again = node.connected && node.next > 0;
    bool& reported = lost_[name];
    if (lost == reported || (!lost && !again)) continue;
    reported = lost;
    bool any = false;
    for (const auto& [number, row] : node.processes) {
      if (row.gone && lost) continue;
      any |= !LeftByItself(row);
      reader::Observation seen;
      seen.at_ns = node.closed ? node.left_ns : now_ns;
      seen.pid = row.now.pid;
      seen.start_time = row.now.start_time;
      seen.place = row.place();
      seen.rank = row.now.rank;
      seen.what = !lost         ? format::Observed::kRunning
                  : node.closed ? format::Observed::kClosed
                                : format::Observed::kLost;
      // A stranger could say of anybody's process that it was his, and go.
      if (!guessable_.contains(name)) journal_->Observe(seen);
    }
    if (any && (!lost || !node.closed))  // a node that has left may have been done; a verdict says if it was not
      log::Warn("node {} (ranks {}) is {}", HostOf(node), RanksOf(node),
                lost ? "not heard of any more" : "there again");
  }
}

std::vector<std::string> ClusterCoordinator::Notes(std::int64_t now_ns) const {
  std::vector<std::string> notes;
  for (const auto& [name, node] : hub_->table().nodes()) {
    if (node.connected || node.processes.empty() || hub_->earlier_runs().contains(name)) continue;
    if (std::all_of(node.processes.begin(), node.processes.end(),
                    [](const auto& row) { return LeftByItself(row.second); }))
      continue;
    notes.push_back(fmt::format("node {} has not been heard of for {} s: nothing newer is known of ranks {}",
                                HostOf(node), (now_ns - node.left_ns) / 1'000'000'000, RanksOf(node)));
  }
  if (Unproven())
    notes.push_back(
        "some nodes have shown nothing that a stranger could not guess: what rests on them is likely at most, "
        "and not acted on (NCCLWATCH_TOKEN_FILE)");
  for (const std::string& node : hub_->others())
    notes.push_back(fmt::format("node {} runs another version of ncclwatch, and is not watched from here", node));
  for (const std::string& node : hub_->crowded())
    notes.push_back(fmt::format("node {} tells more than there is room for, and is not watched from here", node));
  return notes;
}

}  // namespace ncclwatch::watch
