// Messages and bytes between each two ranks, and who waited for whom in them: `stats --by peer` and the report's map.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/recording/recording.h"

namespace ncclwatch::analyzer {

struct PeerSum {
  std::uint64_t messages = 0, bytes = 0;
  std::int64_t receiver_waited_ns = 0;  // for the sender to begin
  std::int64_t sender_waited_ns = 0;    // for the receiver
};

struct Peers {
  std::map<std::pair<int, int>, PeerSum> pairs;  // job ranks: from, to
  std::uint64_t one_ended = 0;                   // calls whose other end is not recorded; counted nowhere
};

// A wait for several messages counts once, for the one that was ready last.
Peers PeersOf(const Recording& recording, std::vector<reader::Failure>* failures);

nlohmann::ordered_json PeersJson(const Peers& peers);
// The pairs that waited longest, at most `most` (0: all), and the ranks.
std::string PeersText(const Peers& peers, std::size_t most);

}  // namespace ncclwatch::analyzer
