// How many sends and receives each process has made with each peer, as its box counts them.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "core/view/view.h"

namespace ncclwatch::diagnosis {

struct MessageCounts {
  std::uint64_t sends = 0;
  std::uint64_t receives = 0;
};

class PeerCounts {
 public:
  explicit PeerCounts(const View& view);
  // With the peer of that rank in the communicator. Null: none are counted.
  const MessageCounts* Of(const Member& member, std::uint32_t peer) const;

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // communicator, generation, peer
  static Key KeyOf(std::uint32_t communicator, std::uint32_t generation, std::uint32_t peer);
  std::vector<std::vector<std::pair<Key, MessageCounts>>> of_process_;  // by key
};

}  // namespace ncclwatch::diagnosis
