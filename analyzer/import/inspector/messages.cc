#include "analyzer/import/inspector/messages.h"

#include <algorithm>

namespace ncclwatch::analyzer::import::inspector {
namespace {

constexpr std::size_t kFewestPeers = 3;

}  // namespace

Messages::Messages(const Joined& joined) : joined_(joined) {
  for (const auto& [row, operations] : joined.members) {
    bool first = true;
    for (std::size_t i = 0; i < operations->size(); ++i) {
      const Operation& one = (*operations)[i];
      if (!one.is_message) continue;
      // A rank counts its messages from 1.
      oldest_lost_ = oldest_lost_ || (first && one.number > 1);
      first = false;
      const auto peer = joined.row_of.find(one.peer);
      if (peer == joined.row_of.end() || peer->second == row) continue;
      if (one.function == functions::Function::ncclSend)
        pairs_[{row, peer->second}].sends.push_back(i);
      else
        pairs_[{peer->second, row}].receives.push_back(i);
    }
  }
  is_exchange_ = IsExchange();
}

// The last exchange of a rank may be recorded in part.
bool Messages::IsExchange() const {
  const std::size_t members = joined_.members.size();
  if (members <= kFewestPeers || pairs_.size() != members * (members - 1)) return false;
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> counts;  // of each row: the fewest and the most of a peer
  const auto add = [&](std::size_t row, std::size_t count) {
    auto& [least, most] = counts.try_emplace(row, count, count).first->second;
    least = std::min(least, count);
    most = std::max(most, count);
  };
  for (const auto& [rows, sides] : pairs_) {
    add(rows.first, sides.sends.size());
    add(rows.second, sides.receives.size());
  }
  return std::all_of(counts.begin(), counts.end(),
                     [](const auto& one) { return one.second.first > 0 && one.second.second - one.second.first <= 1; });
}

std::set<std::pair<std::size_t, std::size_t>> Messages::Pairs() const {
  std::set<std::pair<std::size_t, std::size_t>> pairs;
  for (const auto& [rows, sides] : pairs_) pairs.insert(std::minmax(rows.first, rows.second));
  return pairs;
}

std::vector<Message> Messages::Matched(Timing timing, std::size_t* incomplete) const {
  std::map<std::size_t, std::vector<std::int64_t>> at_ns;
  for (const auto& [row, operations] : joined_.members) at_ns[row] = InstantsOf(*operations, timing);
  std::vector<Message> matched;
  for (const auto& [rows, sides] : pairs_) {
    const std::size_t least = std::min(sides.sends.size(), sides.receives.size());
    *incomplete += std::max(sides.sends.size(), sides.receives.size()) - least;
    for (std::size_t i = 0; i < least; ++i) {
      const std::size_t send = At(sides.sends, least, i), receive = At(sides.receives, least, i);
      matched.push_back({rows.first, rows.second, &(*joined_.members.at(rows.first))[send],
                         &(*joined_.members.at(rows.second))[receive], at_ns[rows.first][send]});
    }
  }
  return matched;
}

std::vector<Exchange> Messages::Exchanges(Timing timing) const {
  std::map<std::size_t, std::vector<const Indices*>> of_row;
  std::size_t count = SIZE_MAX;
  for (const auto& [rows, sides] : pairs_) {
    of_row[rows.first].push_back(&sides.sends);
    of_row[rows.second].push_back(&sides.receives);
    count = std::min({count, sides.sends.size(), sides.receives.size()});
  }
  std::vector<Exchange> exchanges(is_exchange_ ? count : 0);
  const std::vector<std::int64_t> at_ns = InstantsOf(joined_.first(), timing);
  for (std::size_t i = 0; i < exchanges.size(); ++i)
    for (const auto& [row, all] : of_row) {
      std::int64_t kernel_ns = 0;
      for (const Indices* const one : all)
        kernel_ns = std::max(kernel_ns, (*joined_.members.at(row))[At(*one, count, i)].kernel_ns);
      if (exchanges[i].arrivals.empty()) exchanges[i].at_ns = at_ns[At(*all.front(), count, i)];
      exchanges[i].arrivals.emplace_back(row, kernel_ns);
    }
  return exchanges;
}

}  // namespace ncclwatch::analyzer::import::inspector
