#include "analyzer/trace/filter.h"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "analyzer/console/units.h"

namespace ncclwatch::analyzer {
namespace {

constexpr int kHighestRank = 1 << 20;

bool SameOp(const std::string& op, const std::string& wanted) {
  const bool prefixed = wanted.size() > 4 && strncasecmp(wanted.c_str(), "nccl", 4) == 0;
  return strcasecmp(op.c_str(), wanted.c_str() + (prefixed ? 4 : 0)) == 0;
}

bool SameCommunicator(const Row& row, const std::string& wanted) {
  if (row.communicator == 0 || wanted.empty()) return false;
  return row.label == wanted || Id(row.communicator).starts_with(wanted);
}

template <typename Element, typename Same>
bool AnyOrEmpty(const std::vector<Element>& wanted, Same same) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), same);
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < 0 || value > kHighestRank)
    return std::nullopt;
  return value;
}

std::int64_t Nanoseconds(double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e9)); }

}  // namespace

bool Filter::Wants(const Row& row) const {
  return (!pending || row.pending) && (!since_ns || row.time_ns >= *since_ns) &&
         (!until_ns || row.time_ns <= *until_ns) && AnyOrEmpty(ranks, [&](int rank) { return rank == row.rank; }) &&
         AnyOrEmpty(ops, [&](const std::string& op) { return SameOp(row.op, op); }) &&
         AnyOrEmpty(communicators, [&](const std::string& wanted) { return SameCommunicator(row, wanted); });
}

std::optional<std::vector<int>> ParseRanks(const std::string& text) {
  std::vector<int> ranks;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item(text.data() + begin, end - begin);
    const std::size_t dash = item.find('-');
    const auto first = Number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : Number(item.substr(dash + 1));
    if (!first || !last || *first > *last) return std::nullopt;
    for (int rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
    begin = end + 1;
  }
  return ranks;
}

std::optional<std::int64_t> ParseMoment(const std::string& text, std::int64_t end_ns) {
  if (const auto before = ParseDuration(text)) return end_ns - *before;
  std::tm time{};
  double seconds = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%lfZ%n", &time.tm_year, &time.tm_mon, &time.tm_mday, &time.tm_hour,
                  &time.tm_min, &seconds, &used) == 6 &&
      used == static_cast<int>(text.size())) {
    time.tm_year -= 1900;
    time.tm_mon -= 1;
    return timegm(&time) * kSecond + Nanoseconds(seconds);
  }
  int hour = 0, minute = 0;
  seconds = 0;
  const bool whole = std::sscanf(text.c_str(), "%2d:%2d:%lf%n", &hour, &minute, &seconds, &used) == 3;
  if (!whole && std::sscanf(text.c_str(), "%2d:%2d%n", &hour, &minute, &used) != 2) return std::nullopt;
  if (used != static_cast<int>(text.size()) || hour > 23 || minute > 59 || !(seconds < 61)) return std::nullopt;
  const std::time_t day = end_ns / kSecond;
  localtime_r(&day, &time);
  time.tm_hour = hour;
  time.tm_min = minute;
  time.tm_sec = 0;
  time.tm_isdst = -1;
  return std::mktime(&time) * kSecond + Nanoseconds(seconds);
}

}  // namespace ncclwatch::analyzer
