#include "analyzer/triage/waits.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/triage/whose.h"

namespace ncclwatch::analyzer {
namespace {

struct Call {
  std::string op, elements;
  bool operator<(const Call& other) const { return std::tie(op, elements) < std::tie(other.op, other.elements); }
};

// Empty: ranks may do different things at one place of the group, as in sends and receives.
Call CallOf(const Match& match) {
  static const RE2 alone(R"(SEND|RECV|COALESCED)"), uneven(R"(ALLTOALL|SCATTER$|GATHER$)");
  Call call{std::string(FieldOf(match, "op")), std::string(FieldOf(match, "elements"))};
  if (RE2::FullMatch(call.op, alone)) call.op.clear();
  const bool equal = call.op.find("ALLGATHER") != std::string::npos || call.op.find("REDUCE") != std::string::npos;
  if (!equal && RE2::PartialMatch(call.op, uneven)) call.elements.clear();
  return call;
}

std::string Text(const Call& call) {
  return call.elements.empty() ? call.op : fmt::format("{} of {} elements", call.op, call.elements);
}

// Of one place: the process group and the number of the operation in it.
using Place = std::pair<std::string, std::string>;
using Calls = std::map<Call, std::map<int, const Match*>>;  // which ranks made it

// Time-outs of ranks that say in which operation they waited, in the order of files and lines.
std::vector<std::pair<Place, const Match*>> Waits(const std::vector<Rule>& rules,
                                                  const std::vector<ScannedFile>& files) {
  static const RE2 group(R"(\[PG (?:ID )?(\w+)(?: PG GUID ([^\s\]]+))?)");
  std::vector<std::pair<Place, const Match*>> waits;
  for (const ScannedFile& file : files) {
    for (const Match& match : file.matches) {
      std::string number(FieldOf(match, "sequence"));
      if (rules[match.rule].category != "timeout" || match.rank < 0 || number.empty()) continue;
      std::string id, guid;
      RE2::PartialMatch(match.text, group, &id, &guid);
      waits.emplace_back(Place(guid.empty() ? id : guid, std::move(number)), &match);
    }
  }
  return waits;
}

std::map<Place, Calls> CallsByPlace(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files) {
  std::map<Place, Calls> places;
  for (const auto& [place, match] : Waits(rules, files))
    if (const Call call = CallOf(*match); !call.op.empty()) places[place][call].emplace(match->rank, match);
  return places;
}

std::optional<OddCall> OddAmong(Calls calls) {
  // Some lines of a rank say no number of elements.
  const bool numbers =
      std::any_of(calls.begin(), calls.end(), [](const auto& row) { return !row.first.elements.empty(); });
  for (auto row = calls.begin(); row != calls.end();)
    row = numbers && row->first.elements.empty() ? calls.erase(row) : std::next(row);
  if (calls.size() < 2) return std::nullopt;
  const auto most = std::max_element(calls.begin(), calls.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  OddCall odd;
  odd.others = Text(most->first);
  for (const auto& [call, ranks] : calls) {
    if (call.op == most->first.op && call.elements == most->first.elements) continue;
    if (ranks.size() >= most->second.size()) return std::nullopt;
    for (const auto& [rank, match] : ranks) odd.ranks.push_back(rank);
    if (!odd.first) odd.first = ranks.begin()->second, odd.theirs = Text(call);
  }
  std::sort(odd.ranks.begin(), odd.ranks.end());
  return odd;
}

// Each rank compares itself with one other: the odd one is in most of the pairs.
std::optional<OddCall> OddAmongPairs(const std::vector<ScannedFile>& files) {
  std::map<int, std::vector<const Match*>> pairs;
  for (const ScannedFile& file : files) {
    for (const Match& match : file.matches) {
      const int one = NumberOf(match, "one"), other = NumberOf(match, "other");
      if (one < 0 || other < 0 || one == other) continue;
      pairs[one].push_back(&match);
      pairs[other].push_back(&match);
    }
  }
  OddCall odd;
  std::size_t most = 0;
  for (const auto& [rank, matches] : pairs) {
    if (matches.size() < most) continue;
    if (matches.size() > most) odd = {};
    most = matches.size();
    odd.ranks.push_back(rank);
    const auto own =
        std::find_if(matches.begin(), matches.end(), [r = rank](const Match* each) { return each->rank == r; });
    odd.first = own == matches.end() ? matches.front() : *own;
  }
  if (odd.ranks.size() != 1) return std::nullopt;
  odd.theirs = "one call", odd.others = "another";
  return odd;
}

}  // namespace

std::optional<OddCall> OddCallOf(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files) {
  if (auto odd = OddAmongPairs(files)) return odd;
  for (const auto& [place, calls] : CallsByPlace(rules, files))
    if (auto odd = OddAmong(calls)) return odd;
  return std::nullopt;
}

std::vector<int> RanksBelow(const std::vector<ScannedFile>& files, const Match& match) {
  constexpr int kBelow = 20;  // lines of the same process
  static const RE2 names(R"(^\[?(\d+)\]?: ?\[|/task:(\d+)$)");
  std::set<int> ranks;
  for (const ScannedFile& file : files) {
    if (file.file.path != match.file) continue;
    int below = 0;
    for (const TailLine& line : file.streams[match.stream].tail) {
      std::string rank, task;
      if (line.line > match.line && ++below <= kBelow && RE2::PartialMatch(line.text, names, &rank, &task))
        ranks.merge(RanksIn(rank.empty() ? task : rank));
    }
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<int> LaggingRanks(const std::vector<Rule>& rules, const std::vector<ScannedFile>& files) {
  // Older torch does not name the group, and the numbers of two groups lie far apart.
  constexpr std::int64_t kMostBehind = 100;                             // operations
  std::map<std::string, std::map<std::int64_t, std::set<int>>> groups;  // ranks by the first operation they waited in
  std::set<std::pair<std::string, int>> seen;
  for (const auto& [place, match] : Waits(rules, files)) {
    std::int64_t number = 0;
    if (!absl::SimpleAtoi(place.second, &number) || !seen.emplace(place.first, match->rank).second) continue;
    groups[place.first][number].insert(match->rank);
  }
  for (const auto& [group, numbers] : groups) {
    if (numbers.size() < 2) continue;
    const auto first = numbers.begin(), next = std::next(first);
    if (next->second.size() > first->second.size() && next->first - first->first <= kMostBehind)
      return {first->second.begin(), first->second.end()};
  }
  return {};
}

std::vector<int> MissingFrom(const std::vector<ScannedFile>& files, const std::vector<int>& waited) {
  std::set<int> all;
  for (const ScannedFile& file : files)
    for (const Stream& stream : file.streams)
      if (stream.rank >= 0) all.insert(stream.rank);
  for (int rank = 0; !waited.empty() && rank < waited.back(); ++rank) all.insert(rank);
  std::vector<int> missing;
  std::set_difference(all.begin(), all.end(), waited.begin(), waited.end(), std::back_inserter(missing));
  if (missing.size() >= waited.size()) missing.clear();
  return missing;
}

}  // namespace ncclwatch::analyzer
