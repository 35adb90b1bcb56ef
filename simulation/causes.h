// What in a World that has come to a standstill waits for what: worked out from the simulation itself, not from what
// boxes show. It tells which ranks a deadlock is made of.
#pragma once

#include <vector>

#include "simulation/world.h"

namespace ncclwatch::simulation {

class Causes {
 public:
  explicit Causes(const World& world);
  // Ranks that are on a cycle: each waits for the next, by its host or its GPU. Ascending.
  std::vector<int> InCycles() const;

 private:
  // Things: kernels by their number, then hosts.
  std::size_t HostOf(int rank) const { return world_.kernels_.size() + static_cast<std::size_t>(rank); }
  int RankOf(std::size_t thing) const;
  void Need(std::size_t thing, std::size_t other) { needs_[thing].push_back(other); }
  void AddQueues();
  void AddHosts();
  void AddCollectives();
  void AddMessages();
  std::vector<std::vector<std::size_t>> Reversed() const;

  const World& world_;
  std::vector<std::vector<std::size_t>> needs_;
};

}  // namespace ncclwatch::simulation
