#include "analyzer/shrink/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kFewestRepeats = 3;

std::size_t RepeatsAt(const Statements& all, std::size_t at) {
  std::size_t end = at + 1;
  while (end < all.size() && all[end] == all[at]) ++end;
  return end - at;
}

void AddLines(const Statements& statements, const std::string& indent, std::string* text) {
  for (std::size_t at = 0; at < statements.size();) {
    std::size_t repeats = RepeatsAt(statements, at);
    if (repeats < kFewestRepeats) repeats = 1;
    const std::string loop = repeats == 1 ? "" : fmt::format("for (int i = 0; i < {}; ++i) ", repeats);
    *text += indent + loop + statements[at] + "\n";
    at += repeats;
  }
}

// How many statements all ranks have alike, from one end on.
template <class Iterator>
std::ptrdiff_t Alike(const std::vector<std::pair<Iterator, Iterator>>& ranks) {
  const Iterator first = ranks.front().first, end = ranks.front().second;
  for (auto at = first; at != end; ++at) {
    const auto has = [&](const auto& one) {
      return one.second - one.first > at - first && *(one.first + (at - first)) == *at;
    };
    if (!std::all_of(ranks.begin(), ranks.end(), has)) return at - first;
  }
  return end - first;
}

// "rank == 0 || rank == 2", "rank >= 4 && rank <= 7".
std::string Condition(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t at = 0; at < ranks.size();) {
    std::size_t last = at;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += " || ";
    if (last - at >= 2)
      text += fmt::format("(rank >= {} && rank <= {})", ranks[at], ranks[last]);
    else
      last = at, text += fmt::format("rank == {}", ranks[at]);
    at = last + 1;
  }
  return text;
}

}  // namespace

std::string BodyOf(const std::vector<Statements>& ranks) {
  if (ranks.empty()) return {};
  std::vector<std::pair<Statements::const_iterator, Statements::const_iterator>> forwards;
  for (const Statements& one : ranks) forwards.emplace_back(one.begin(), one.end());
  const std::ptrdiff_t first = Alike(forwards);
  std::vector<std::pair<Statements::const_reverse_iterator, Statements::const_reverse_iterator>> backwards;
  for (const Statements& one : ranks) backwards.emplace_back(one.rbegin(), one.rend() - first);
  const std::ptrdiff_t last = Alike(backwards);
  std::string text;
  AddLines({ranks.front().begin(), ranks.front().begin() + first}, "  ", &text);
  std::vector<std::pair<Statements, std::vector<int>>> branches;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Statements rest(ranks[rank].begin() + first, ranks[rank].end() - last);
    if (rest.empty()) continue;
    const auto same =
        std::find_if(branches.begin(), branches.end(), [&](const auto& one) { return one.first == rest; });
    if (same == branches.end())
      branches.push_back({std::move(rest), {static_cast<int>(rank)}});
    else
      same->second.push_back(static_cast<int>(rank));
  }
  for (std::size_t i = 0; i < branches.size(); ++i) {
    text += fmt::format("{}if ({}) {{\n", i == 0 ? "  " : "  } else ", Condition(branches[i].second));
    AddLines(branches[i].first, "    ", &text);
  }
  if (!branches.empty()) text += "  }\n";
  AddLines({ranks.front().end() - last, ranks.front().end()}, "  ", &text);
  return text;
}

}  // namespace ncclwatch::analyzer
