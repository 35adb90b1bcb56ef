#include "analyzer/stats/peers.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/recording/merge.h"
#include "analyzer/recording/message_waits.h"
#include "core/waits/mpi_proofs.h"

namespace ncclwatch::analyzer {
namespace {

std::int64_t WaitedNs(const PeerSum& sum) { return sum.receiver_waited_ns + sum.sender_waited_ns; }

void AddWait(const MessageWaits::Wait& wait, Peers* peers) {
  const std::int64_t waited_ns = std::min(wait.ready_ns, wait.returned_ns) - wait.entered_ns;
  if (wait.peer < 0 || waited_ns <= 0) return;
  if (wait.sends)
    peers->pairs[{wait.rank, wait.peer}].sender_waited_ns += waited_ns;
  else
    peers->pairs[{wait.peer, wait.rank}].receiver_waited_ns += waited_ns;
}

std::string PairTable(const Peers& peers, std::size_t most) {
  std::vector<std::pair<std::pair<int, int>, PeerSum>> rows(peers.pairs.begin(), peers.pairs.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(WaitedNs(a.second), a.second.bytes) > std::pair(WaitedNs(b.second), b.second.bytes);
  });
  Table table({{"FROM", true},
               {"TO", true},
               {"MESSAGES", true},
               {"BYTES", true},
               {"RECEIVER WAITED", true},
               {"SENDER WAITED", true}});
  for (std::size_t i = 0; i < rows.size() && (most == 0 || i < most); ++i) {
    const auto& [ranks, sum] = rows[i];
    table.Add({fmt::format("{}", ranks.first), fmt::format("{}", ranks.second), fmt::format("{}", sum.messages),
               BytesText(sum.bytes), DurationText(absl::Nanoseconds(sum.receiver_waited_ns)),
               DurationText(absl::Nanoseconds(sum.sender_waited_ns))});
  }
  std::string text = table.Text();
  if (most != 0 && rows.size() > most) text += fmt::format("... and {} more (--top 0 shows all)\n", rows.size() - most);
  return text;
}

struct RankPeers {
  std::uint64_t sent = 0, received = 0;  // bytes
  std::int64_t waited_ns = 0, awaited_ns = 0;
};

std::map<int, RankPeers> ByRank(const Peers& peers) {
  std::map<int, RankPeers> ranks;
  for (const auto& [pair, sum] : peers.pairs) {
    RankPeers& from = ranks[pair.first];
    from.sent += sum.bytes;
    from.waited_ns += sum.sender_waited_ns;
    from.awaited_ns += sum.receiver_waited_ns;
    RankPeers& to = ranks[pair.second];
    to.received += sum.bytes;
    to.waited_ns += sum.receiver_waited_ns;
    to.awaited_ns += sum.sender_waited_ns;
  }
  return ranks;
}

std::string RankTableOf(const Peers& peers) {
  Table table({{"RANK", true}, {"SENT", true}, {"RECEIVED", true}, {"WAITED", true}, {"AWAITED", true}});
  for (const auto& [rank, of] : ByRank(peers))
    table.Add({fmt::format("{}", rank), BytesText(of.sent), BytesText(of.received),
               DurationText(absl::Nanoseconds(of.waited_ns)), DurationText(absl::Nanoseconds(of.awaited_ns))});
  return table.Text();
}

}  // namespace

Peers PeersOf(const Recording& recording, std::vector<reader::Failure>* failures) {
  Peers peers;
  MessageWaits waits(diagnosis::kAlwaysBuffered);
  waits.on_message = [&](const MessageWaits::Message& message) {
    PeerSum& sum = peers.pairs[{message.from, message.to}];
    ++sum.messages;
    sum.bytes += message.bytes;
  };
  waits.on_wait = [&](const MessageWaits::Wait& wait) { AddWait(wait, &peers); };
  MergeCalls(recording, {}, failures, [&](MergedBatch* batch) {
    for (const MergedCall& merged : batch->calls)
      waits.Add(merged.call, merged.communicator, merged.process.rank(), merged.number,
                merged.piece.realtime_minus_monotonic_ns);
    return true;
  });
  peers.one_ended = waits.open();
  return peers;
}

nlohmann::ordered_json PeersJson(const Peers& peers) {
  auto pairs = nlohmann::ordered_json::array(), ranks = nlohmann::ordered_json::array();
  const auto us = [](std::int64_t ns) { return static_cast<double>(ns) / 1000; };
  for (const auto& [pair, sum] : peers.pairs)
    pairs.push_back({{"from", pair.first},
                     {"to", pair.second},
                     {"messages", sum.messages},
                     {"bytes", sum.bytes},
                     {"receiver_waited_us", us(sum.receiver_waited_ns)},
                     {"sender_waited_us", us(sum.sender_waited_ns)}});
  for (const auto& [rank, of] : ByRank(peers))
    ranks.push_back({{"rank", rank},
                     {"sent_bytes", of.sent},
                     {"received_bytes", of.received},
                     {"waited_us", us(of.waited_ns)},
                     {"awaited_us", us(of.awaited_ns)}});
  return {{"schema", "ncclwatch.stats/1"}, {"peers", pairs}, {"ranks", ranks}, {"one_ended", peers.one_ended}};
}

std::string PeersText(const Peers& peers, std::size_t most) {
  if (peers.pairs.empty()) return "no message whose two ends are recorded\n";
  std::string text = PairTable(peers, most) + "\n" + RankTableOf(peers);
  if (peers.one_ended > 0) text += fmt::format("{} messages of which only one end is recorded\n", peers.one_ended);
  return text;
}

}  // namespace ncclwatch::analyzer
