#include "analyzer/stats/peers.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "analyzer/report/sections.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kMostFields = 20'000;  // that a browser draws at once
constexpr int kMostOfSide = 256;

using PeerFields = std::map<std::pair<int, int>, std::array<std::uint64_t, 4>>;  // messages, bytes, both waits in ns

PeerFields PeerFieldsOf(const Peers& peers, int ranks_of_field) {
  PeerFields fields;
  for (const auto& [pair, sum] : peers.pairs) {
    auto& field = fields[{pair.first / ranks_of_field, pair.second / ranks_of_field}];
    field[0] += sum.messages;
    field[1] += sum.bytes;
    field[2] += static_cast<std::uint64_t>(sum.receiver_waited_ns);
    field[3] += static_cast<std::uint64_t>(sum.sender_waited_ns);
  }
  return fields;
}

}  // namespace

nlohmann::ordered_json PeersSection(const Recording& recording) {
  std::vector<reader::Failure> ignored;  // the calls' own section has said them
  const Peers peers = PeersOf(recording, &ignored);
  int ranks = 0;
  for (const auto& [pair, sum] : peers.pairs) ranks = std::max({ranks, pair.first + 1, pair.second + 1});
  int together = 1;
  while ((ranks + together - 1) / together > kMostOfSide) together *= 2;
  PeerFields fields = PeerFieldsOf(peers, together);
  while (fields.size() > kMostFields) fields = PeerFieldsOf(peers, together *= 2);
  auto list = nlohmann::ordered_json::array();
  for (const auto& [place, of] : fields)
    list.push_back(
        {place.first, place.second, of[0], of[1], static_cast<double>(of[2]) / 1e9, static_cast<double>(of[3]) / 1e9});
  return {{"ranks", ranks}, {"together", together}, {"fields", std::move(list)}, {"one_ended", peers.one_ended}};
}

}  // namespace ncclwatch::analyzer
