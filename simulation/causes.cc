#include "simulation/causes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace ncclwatch::simulation {

Causes::Causes(const World& world) : world_(world), needs_(world.kernels_.size() + world.ranks_.size()) {
  AddQueues();
  AddHosts();
  AddCollectives();
  AddMessages();
}

int Causes::RankOf(std::size_t thing) const {
  const std::size_t kernels = world_.kernels_.size();
  return thing < kernels ? world_.kernels_[thing].rank : static_cast<int>(thing - kernels);
}

void Causes::AddQueues() {
  for (std::size_t k = 0; k < world_.kernels_.size(); ++k)
    for (const int next : world_.kernels_[k].next) Need(static_cast<std::size_t>(next), k);
}

void Causes::AddHosts() {
  for (std::size_t r = 0; r < world_.ranks_.size(); ++r) {
    const World::RankState& rank = world_.ranks_[r];
    if (rank.state == World::RankState::State::kWaiting && rank.waits_for >= 0)
      Need(HostOf(static_cast<int>(r)), static_cast<std::size_t>(rank.waits_for));
  }
  for (const auto& [key, meeting] : world_.meetings_) {
    const std::set<int> here(meeting.ranks.begin(), meeting.ranks.end());
    for (const int member : world_.CommAt(key.first).members)
      if (!here.contains(member))
        for (const int waiter : meeting.ranks) Need(HostOf(waiter), HostOf(member));
  }
}

// Who has not begun it waits in a queue with it, or its host has not launched it.
void Causes::AddCollectives() {
  std::map<std::tuple<int, std::uint64_t, int>, std::size_t> queued;  // communicator, number, rank
  for (std::size_t k = 0; k < world_.kernels_.size(); ++k)
    for (const World::Task& task : world_.kernels_[k].tasks)
      if (!task.message) queued[{task.op.comm, task.number, world_.kernels_[k].rank}] = k;
  for (std::size_t c = 0; c < world_.instances_.size(); ++c) {
    for (std::size_t i = 0; i < world_.instances_[c].size(); ++i) {
      const World::Instance& instance = world_.instances_[c][i];
      std::set<int> begun;
      for (const World::Arrival& arrival : instance.arrivals) begun.insert(arrival.rank);
      for (const int member : world_.CommAt(static_cast<int>(c)).members) {
        if (begun.contains(member)) continue;
        const auto at = queued.find({static_cast<int>(c), world_.first_instance_[c] + i, member});
        const std::size_t other = at != queued.end() ? at->second : HostOf(member);
        for (const World::Arrival& arrival : instance.arrivals)
          if (!arrival.over) Need(static_cast<std::size_t>(arrival.kernel), other);
      }
    }
  }
}

void Causes::AddMessages() {
  // Sends and receives that are queued, by communicator, sender, receiver, direction, in the order of their launches.
  std::map<std::tuple<int, int, int, bool>, std::vector<std::pair<std::uint64_t, std::size_t>>> queued;
  for (std::size_t k = 0; k < world_.kernels_.size(); ++k) {
    const World::Kernel& kernel = world_.kernels_[k];
    for (const World::Task& task : kernel.tasks) {
      if (!task.message) continue;
      const int own = world_.CommAt(task.op.comm).RankOf(kernel.rank);
      const bool sends = task.op.function == Function::ncclSend;
      queued[{task.op.comm, sends ? own : task.op.root, sends ? task.op.root : own, sends}].push_back({task.number, k});
    }
  }
  for (auto& [key, kernels] : queued) std::sort(kernels.begin(), kernels.end());
  for (const auto& [key, pair] : world_.pairs_) {
    const int comm = static_cast<int>(key >> 40), from = static_cast<int>(key >> 20 & 0xfffff),
              to = static_cast<int>(key & 0xfffff);
    const auto add = [&](const std::deque<World::Side>& sides, bool sends) {
      const auto found = queued.find({comm, from, to, !sends});
      const int partner = world_.CommAt(comm).members[static_cast<std::size_t>(sends ? to : from)];
      for (std::size_t i = 0; i < sides.size(); ++i) {
        const bool is_queued = found != queued.end() && i < found->second.size();
        if (!sides[i].over && sides[i].kernel >= 0)
          Need(static_cast<std::size_t>(sides[i].kernel), is_queued ? found->second[i].second : HostOf(partner));
      }
    };
    add(pair.sends, true);
    add(pair.receives, false);
  }
}

std::vector<std::vector<std::size_t>> Causes::Reversed() const {
  std::vector<std::vector<std::size_t>> reversed(needs_.size());
  for (std::size_t thing = 0; thing < needs_.size(); ++thing)
    for (const std::size_t other : needs_[thing]) reversed[other].push_back(thing);
  return reversed;
}

namespace {

using Edges = std::vector<std::vector<std::size_t>>;

// Everything that can be reached, those that are left last at the end. Without recursion: chains are long.
void Visit(const Edges& edges, std::size_t start, std::vector<char>* seen, std::vector<std::size_t>* left) {
  if ((*seen)[start] != 0) return;
  std::vector<std::pair<std::size_t, std::size_t>> path = {{start, 0}};
  (*seen)[start] = 1;
  while (!path.empty()) {
    auto& [thing, next] = path.back();
    if (next == edges[thing].size()) {
      left->push_back(thing);
      path.pop_back();
      continue;
    }
    const std::size_t other = edges[thing][next++];
    if ((*seen)[other] != 0) continue;
    (*seen)[other] = 1;
    path.push_back({other, 0});
  }
}

}  // namespace

// The strongly connected components of more than one thing (Kosaraju).
std::vector<int> Causes::InCycles() const {
  std::vector<std::size_t> order;
  std::vector<char> seen(needs_.size(), 0);
  for (std::size_t thing = 0; thing < needs_.size(); ++thing) Visit(needs_, thing, &seen, &order);
  const Edges reversed = Reversed();
  std::fill(seen.begin(), seen.end(), 0);
  std::set<int> ranks;
  for (auto thing = order.rbegin(); thing != order.rend(); ++thing) {
    std::vector<std::size_t> component;
    Visit(reversed, *thing, &seen, &component);
    if (component.size() < 2) continue;
    for (const std::size_t part : component) ranks.insert(RankOf(part));
  }
  return {ranks.begin(), ranks.end()};
}

}  // namespace ncclwatch::simulation
