// Which waits of MPI's calls only the other rank can end, whatever MPI does, and which ranks therefore never go on.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

// What MPI does by itself takes microseconds, but its rank may have to wait for a processor: a send that is buffered, a
// fence that need not wait, a message that is there.
inline constexpr std::int64_t kHeldNs = 500'000'000;
// Every MPI takes as little as this into a buffer, if it has one left.
inline constexpr std::uint64_t kAlwaysBuffered = 1024;
// So much any MPI has moved within kHeldNs.
inline constexpr std::uint64_t kSoonMoved = 1 << 20;

// Of the nodes of a graph that are stuck as far as it tells: what of it is proven.
class Proofs {
 public:
  Proofs(const View& view, const WaitGraph& graph, const std::vector<int>& nodes);

  // Waits along a cycle of the nodes: such as are proven, else such as may hold. Empty: neither exists.
  std::vector<const Wait*> Cycle() const;
  // It is proven that none of the cycle ever goes on, whatever others do.
  bool IsClosed(const std::vector<const Wait*>& cycle) const;

 private:
  // Nodes, and the groups of calls of which one leads elsewhere.
  struct Among {
    std::set<int> nodes;
    std::vector<char> elsewhere;
  };
  using Rule = bool (Proofs::*)(const Wait&, const Among&) const;

  void Join(const std::vector<reader::Call>& calls);
  bool Leads(const reader::Call& call, const std::set<int>& nodes) const;
  Among In(std::set<int> nodes) const;
  bool MayHold(const Wait& wait, const Among& others) const;
  bool Binds(const Wait& wait, const Among& others) const;
  bool NeverGoesOn(int node, const Among& others) const;
  Among Shrunk(const std::function<bool(int, const Among&)>& stays) const;
  std::vector<const Wait*> Cycle(Rule counts) const;

  const View& view_;
  const WaitGraph& graph_;
  const std::vector<int>& nodes_;
  std::vector<std::vector<const reader::Call*>> groups_;  // what one call awaits together
  std::unordered_map<const reader::Call*, std::vector<std::size_t>> groups_of_;
  std::unordered_map<const reader::Call*, std::vector<int>> awaited_;  // nodes
};

}  // namespace ncclwatch::diagnosis
