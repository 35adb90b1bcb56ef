#include "analyzer/doctor/ranks/across.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analyzer/doctor/checks/words.h"
#include "core/model/text.h"
#include "core/slow/robust.h"

namespace ncclwatch::doctor {
namespace {

using diagnosis::Ranks;

std::vector<int> AllRanks(const Gathered& gathered) {
  std::vector<int> ranks;
  for (const RankReport& one : gathered.ranks) ranks.push_back(one.rank);
  return ranks;
}

Finding RanksCame(const Gathered& gathered, int world_size) {
  if (!gathered.why_not.empty())
    return {"ranks-came",
            Fail("rank 0 alone", gathered.why_not,
                 "name a place that all ranks reach and where rank 0 may listen: --meet HOST:PORT"),
            gathered.missing};
  const std::string seen = fmt::format("{} of {} ranks at {}", gathered.ranks.size(), world_size, gathered.where);
  std::vector<std::string> reasons;
  if (!gathered.missing.empty()) reasons.push_back(fmt::format("{} did not come in time", Ranks(gathered.missing)));
  if (!gathered.lost.empty())
    reasons.push_back(fmt::format("{} came and then stopped answering", Ranks(gathered.lost)));
  if (reasons.empty()) return {"ranks-came", Pass(seen), AllRanks(gathered)};
  if (gathered.strangers > 0)
    reasons.push_back(
        fmt::format("{} connections to rank 0 did not prove that they belong to this job", gathered.strangers));
  std::vector<int> ranks = gathered.missing;
  ranks.insert(ranks.end(), gathered.lost.begin(), gathered.lost.end());
  std::sort(ranks.begin(), ranks.end());
  return {"ranks-came",
          Fail(seen, Joined(reasons, "; "),
               "look at their hosts and their own lines on stderr; allow the port between hosts, or name another "
               "place: --meet HOST:PORT; give them longer: --wait; let all ranks read the same NCCLWATCH_TOKEN_FILE"),
          ranks};
}

// Whether a stranger may stand behind a report.
Finding RanksProven(const Gathered& gathered) {
  std::vector<int> guessable;
  for (const RankReport& one : gathered.ranks)
    if (one.guessable) guessable.push_back(one.rank);
  if (gathered.ranks.size() < 2) return {"ranks-proven", Skip("no other rank came"), AllRanks(gathered)};
  if (guessable.empty()) return {"ranks-proven", Pass("all ranks have proved the same secret"), AllRanks(gathered)};
  return {"ranks-proven",
          Warn(fmt::format("{} showed only a token that others can guess", Ranks(guessable)),
               "what other ranks report is not authenticated",
               "set NCCLWATCH_TOKEN_FILE to a file with a secret, the same on all hosts"),
          guessable};
}

Finding HostMap(const Gathered& gathered) {
  std::map<std::string, std::vector<int>> hosts;
  for (const RankReport& one : gathered.ranks) hosts[one.host].push_back(one.rank);
  std::vector<std::string> texts;
  std::set<std::size_t> sizes;
  for (const auto& [host, ranks] : hosts)
    texts.push_back(fmt::format("{}: {}", host, diagnosis::RankSet(ranks))), sizes.insert(ranks.size());
  constexpr std::size_t kMost = 8;
  const std::string seen = texts.size() <= kMost ? Joined(texts, "; ") : fmt::format("{} hosts", texts.size());
  if (sizes.size() > 1 && gathered.missing.empty())
    return {"host-map",
            Warn(seen, "hosts have different numbers of ranks", "start as many on each host, unless that is wanted"),
            AllRanks(gathered)};
  return {"host-map", Pass(seen), AllRanks(gathered)};
}

std::string HostOf(const Gathered& gathered, int rank) {
  for (const RankReport& one : gathered.ranks)
    if (one.rank == rank) return one.host;
  return "?";
}

std::string PairText(const Gathered& gathered, const Attempt& attempt) {
  return fmt::format("{} to {}", HostOf(gathered, attempt.from), HostOf(gathered, attempt.to));
}

// At most a few of them, in words.
std::string Some(std::vector<std::string> texts, std::string_view separator = "; ") {
  constexpr std::size_t kMost = 6;
  const std::size_t count = texts.size();
  if (count > kMost) texts.resize(kMost);
  return Joined(texts, separator) + (count > kMost ? fmt::format("{}and {} more", separator, count - kMost) : "");
}

Finding Reachability(const Gathered& gathered) {
  if (gathered.attempts.empty()) return {"reachability", Skip("all ranks are on one host"), AllRanks(gathered)};
  std::vector<std::string> failed;
  std::set<int> ranks;
  for (const Attempt& one : gathered.attempts)
    if (!one.error.empty())
      failed.push_back(fmt::format("{}: {}", PairText(gathered, one), one.error)), ranks.insert({one.from, one.to});
  const std::string seen =
      fmt::format("{} of {} pairs of hosts", gathered.attempts.size() - failed.size(), gathered.attempts.size());
  if (failed.empty()) return {"reachability", Pass(seen), AllRanks(gathered)};
  return {"reachability",
          Fail(seen, Some(failed),
               "open all TCP ports between the hosts of a job; choose the network with NCCL_SOCKET_IFNAME"),
          {ranks.begin(), ranks.end()}};
}

Finding ClockSkew(const Gathered& gathered) {
  constexpr double kMuch_s = 0.1;
  std::vector<std::string> far;
  std::vector<int> ranks;
  double worst = 0, error = 0;
  std::set<std::string> hosts;
  for (const RankReport& one : gathered.ranks) {
    if (one.clock_error_s < 0) continue;
    hosts.insert(one.host);
    worst = std::max(worst, std::abs(one.clock_ahead_s)), error = std::max(error, one.clock_error_s);
    if (std::abs(one.clock_ahead_s) - one.clock_error_s < kMuch_s) continue;
    far.push_back(fmt::format("{} is {:.3f} s {} (give or take {:.3f})", one.host, std::abs(one.clock_ahead_s),
                              one.clock_ahead_s > 0 ? "ahead" : "behind", one.clock_error_s));
    ranks.push_back(one.rank);
  }
  if (hosts.size() < 2) return {"clock-skew", Skip("all ranks are on one host"), AllRanks(gathered)};
  const std::string seen =
      fmt::format("at most {:.1f} ms from that of rank 0, give or take {:.1f}", worst * 1e3, error * 1e3);
  if (far.empty()) return {"clock-skew", Pass(seen), AllRanks(gathered)};
  return {"clock-skew",
          Warn(seen, Some(far),
               "let chrony or ntpd keep all hosts at one time: logs of several hosts cannot be compared otherwise"),
          ranks};
}

// Those who differ from most.
std::vector<int> Minority(const std::vector<Difference>& differences, bool versions) {
  std::set<int> ranks;
  for (const Difference& one : differences)
    for (std::size_t i = 1; one.is_version == versions && i < one.values.size(); ++i)
      ranks.insert(one.values[i].second.begin(), one.values[i].second.end());
  return {ranks.begin(), ranks.end()};
}

std::string DifferenceText(const Difference& one) {
  std::vector<std::string> texts;
  for (const auto& [value, ranks] : one.values)
    texts.push_back(fmt::format("{} on {}", value.empty() ? "nothing" : value, Ranks(ranks)));
  return fmt::format("{}: {}", one.what, Some(texts, ", "));
}

Finding Skew(const Gathered& gathered, const std::vector<Difference>& differences, bool versions) {
  const std::string id = versions ? "version-skew" : "variable-skew";
  std::vector<std::string> texts;
  bool nccl = false;
  for (const Difference& one : differences)
    if (one.is_version == versions) texts.push_back(DifferenceText(one)), nccl = nccl || one.what == "NCCL";
  if (texts.empty())
    return {id, Pass(versions ? "all ranks have the same versions" : "all ranks have the same variables"),
            AllRanks(gathered)};
  const std::string advice = versions ? "use one image, or one environment on a shared file system"
                                      : "let the launcher pass one environment to all ranks (mpirun -x, srun --export)";
  const std::string reason = nccl && versions ? "NCCL refuses, or hangs with, another version of itself"
                                              : "ranks that differ there may behave differently";
  return {id, nccl && versions ? Fail(Some(texts), reason, advice) : Warn(Some(texts), reason, advice),
          Minority(differences, versions)};
}

Finding Latency(const Gathered& gathered) {
  std::vector<double> times;
  std::map<std::size_t, std::vector<double>> ladder;
  for (const Attempt& one : gathered.attempts) {
    if (!one.error.empty()) continue;
    times.push_back(one.round_trip_s);
    for (const auto& [size, seconds] : one.ladder) ladder[size].push_back(seconds);
  }
  if (times.empty()) return {"latency", Skip("no two hosts that reach one another"), AllRanks(gathered)};
  std::string seen;
  for (auto& [size, seconds] : ladder)
    seen +=
        fmt::format("{}{} B {:.0f} us", seen.empty() ? "round trips: " : ", ", size, diagnosis::Median(seconds) * 1e6);
  const double usual = diagnosis::Median(times);
  std::vector<std::string> slow;
  std::set<int> ranks;
  constexpr double kTimes = 5, kLeast_s = 200e-6;
  for (const Attempt& one : gathered.attempts)
    if (one.error.empty() && one.round_trip_s > kTimes * usual && one.round_trip_s > usual + kLeast_s)
      slow.push_back(fmt::format("{} {:.0f} us", PairText(gathered, one), one.round_trip_s * 1e6)),
          ranks.insert({one.from, one.to});
  if (seen.empty()) seen = fmt::format("a round trip takes {:.0f} us", usual * 1e6);
  if (slow.empty()) return {"latency", Pass(seen), AllRanks(gathered)};
  return {"latency",
          Warn(seen, "much longer than the others: " + Some(slow), "look at switch, cable and routing of these hosts"),
          {ranks.begin(), ranks.end()}};
}

Finding PairBandwidth(const Gathered& gathered) {
  std::vector<double> rates;
  for (const Attempt& one : gathered.attempts)
    if (one.error.empty() && one.bytes_per_s > 0) rates.push_back(one.bytes_per_s);
  if (rates.empty()) return {"pair-bandwidth", Skip("no two hosts that reach one another"), AllRanks(gathered)};
  // The faster quarter tells what the network can: one slow host of three slows most pairs.
  std::sort(rates.begin(), rates.end());
  const double good = rates[rates.size() * 3 / 4];
  constexpr double kSlow = 0.5;
  std::vector<std::string> slow;
  std::set<int> ranks;
  std::map<int, std::size_t> times;  // in a slow pair
  for (const Attempt& one : gathered.attempts)
    if (one.error.empty() && one.bytes_per_s < kSlow * good) {
      slow.push_back(fmt::format("{} {:.0f} MB/s", PairText(gathered, one), one.bytes_per_s / 1e6));
      for (const int rank : {one.from, one.to}) ranks.insert(rank), ++times[rank];
    }
  const std::string seen = fmt::format("{} pairs of hosts, {:.0f} MB/s on the better ones, by TCP on one connection",
                                       rates.size(), good / 1e6);
  if (slow.empty()) return {"pair-bandwidth", Pass(seen), AllRanks(gathered)};
  std::string common;
  for (const auto& [rank, count] : times)
    if (count == slow.size() && slow.size() > 1) common = fmt::format("; {} is in all of them", HostOf(gathered, rank));
  return {
      "pair-bandwidth",
      Warn(seen, "less than half of that: " + Some(slow) + common, "look at switch, cable and routing of these hosts"),
      {ranks.begin(), ranks.end()}};
}

}  // namespace

std::vector<Difference> DifferencesOf(const Gathered& gathered) {
  std::map<std::pair<bool, std::string>, std::map<std::string, std::vector<int>>>
      all;  // (is variable, name), value, ranks
  for (const bool variables : {false, true})
    for (const RankReport& one : gathered.ranks)
      for (const auto& [name, value] : variables ? one.report.variables : one.report.versions)
        all[{variables, name}][value].push_back(one.rank);
  std::vector<Difference> differences;
  for (auto& [key, values] : all) {
    std::set<int> without;
    for (const RankReport& one : gathered.ranks) without.insert(one.rank);
    for (const auto& [value, ranks] : values)
      for (const int rank : ranks) without.erase(rank);
    // What a host does not have at all, as an interface of that name, is no version.
    if (!without.empty() && key.first) values[""] = {without.begin(), without.end()};
    if (values.size() < 2) continue;
    Difference& one = differences.emplace_back(Difference{key.second, !key.first, {values.begin(), values.end()}});
    std::stable_sort(one.values.begin(), one.values.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  }
  return differences;
}

std::vector<Finding> CompareRanks(const Gathered& gathered, const std::vector<Difference>& differences, int world_size,
                                  bool active) {
  std::vector<Finding> findings = {RanksCame(gathered, world_size),
                                   RanksProven(gathered),
                                   HostMap(gathered),
                                   Reachability(gathered),
                                   ClockSkew(gathered),
                                   Skew(gathered, differences, true),
                                   Skew(gathered, differences, false),
                                   Latency(gathered),
                                   PairBandwidth(gathered)};
  for (Finding& one : findings) {
    const bool measured = one.id == "latency" || one.id == "pair-bandwidth";
    if (world_size <= 1)
      one.result = Skip("one rank alone: start it under srun, mpirun or torchrun");
    else if (measured && !active)
      one.result = Skip("measured with --active");
  }
  return findings;
}

}  // namespace ncclwatch::doctor
