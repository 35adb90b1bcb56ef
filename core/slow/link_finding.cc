#include "core/slow/link_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/model/text.h"
#include "core/report/advice.h"
#include "core/rules/describe.h"
#include "core/slow/links.h"
#include "ncclwatch/functions/bandwidth.h"

namespace ncclwatch::diagnosis {
namespace {

constexpr double kLeastLoss = 0.2;  // of the bandwidth
constexpr double kLikelyLink = 10;  // standard errors

functions::Pattern PatternOf(const StepTransfers& one) {
  using functions::Pattern;
  if (one.is_message) return Pattern::kSend;
  return functions::IsMpi(one.function) ? functions::PatternOfMpi(one.function)
                                        : functions::PatternOfNccl(one.function);
}

std::optional<double> BusbwOf(const StepTransfers& one, double ns) {
  const auto bandwidth =
      functions::BandwidthOf(PatternOf(one), one.bytes, static_cast<std::uint32_t>(one.rows.size()), ns);
  return bandwidth ? std::optional(bandwidth->busbw_GBps) : std::nullopt;
}

std::string Time(double ns) {
  if (ns < 1e6) return fmt::format("{:.3g} us", ns / 1e3);
  return ns < 1e9 ? fmt::format("{:.3g} ms", ns / 1e6) : fmt::format("{:.3g} s", ns / 1e9);
}

std::string BehindText(const StepTable& table, const Component& part) {
  constexpr std::size_t kMostNamed = 16;
  std::vector<std::string> names;
  for (const int host : part.hosts) names.push_back(table.host_names[static_cast<std::size_t>(host)]);
  std::sort(names.begin(), names.end());
  const std::size_t all = names.size();
  names.resize(std::min(all, kMostNamed));
  const std::string hosts = Join(names, ", ") + (all > kMostNamed ? ", ..." : "");
  return part.name.empty() ? hosts : fmt::format("the hosts behind switch {} ({})", part.name, hosts);
}

// "between node08 and node09", "of the network adapter of GPU 3 on node08"
std::string PartText(const StepTable& table, const Component& part) {
  const auto host = [&](std::size_t i) { return table.host_names[static_cast<std::size_t>(part.hosts[i])]; };
  switch (part.kind) {
    case Component::Kind::kRanks:
      return fmt::format("between rank {} and rank {}", table.ranks[part.rows[0]], table.ranks[part.rows[1]]);
    case Component::Kind::kNic: return fmt::format("of the network adapter of GPU {} on {}", part.rail, host(0));
    case Component::Kind::kHostPair: return fmt::format("between {} and {}", host(0), host(1));
    case Component::Kind::kInside: return fmt::format("within {}", host(0));
    case Component::Kind::kUplink: return fmt::format("from {} to other hosts", host(0));
    case Component::Kind::kHost: return "of " + host(0);
    case Component::Kind::kRail: return fmt::format("of rail {}, the GPUs of that number on all hosts", part.rail);
    case Component::Kind::kWithin: return "among " + BehindText(table, part);
    case Component::Kind::kBeyond: return fmt::format("between {} and all others", BehindText(table, part));
    case Component::Kind::kSwitch: return "of " + BehindText(table, part);
    case Component::Kind::kSpine: return fmt::format("between the switches below {}", part.name);
    case Component::Kind::kNetwork: break;
  }
  return "between all hosts";
}

std::string WhereText(const StepTable& table, const SlowLinks& found, const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (const Component& part : found.parts) parts.push_back(PartText(table, part));
  if (!parts.empty()) return Join(parts, ", and ");
  if (!found.hosts.empty()) return "of " + Join(found.hosts, ", ");
  return ranks.empty() ? "of all ranks" : "of " + Ranks(ranks);
}

std::string SomeOf(std::vector<std::string> names, std::size_t most, const char* others) {
  const std::size_t all = names.size();
  names.resize(std::min(all, most));
  return Join(names, ", ") + (all > most ? fmt::format(", and {} other {}", all - most, others) : "");
}

// What fits as well.
void AddInstead(const StepTable& table, const SlowLinks& found, Finding* finding) {
  constexpr std::size_t kMostTold = 3;
  std::vector<std::string> parts;
  for (const Component& one : found.instead) parts.push_back(PartText(table, one));
  if (parts.empty()) return;
  const char* const which = parts.size() == 1 ? "something else" : "each of these, by itself,";
  finding->evidence.push_back(fmt::format("{} would make the same calls slow: communication {}", which,
                                          SomeOf(std::move(parts), kMostTold, "parts")));
}

// Of all parts that it may be. Empty: all.
std::vector<std::string> HostsInQuestion(const StepTable& table, const SlowLinks& found) {
  std::set<std::string> hosts(found.hosts.begin(), found.hosts.end());
  for (const Component& part : found.instead)
    for (const int host : part.hosts) hosts.insert(table.host_names[static_cast<std::size_t>(host)]);
  return {hosts.begin(), hosts.end()};
}

bool IsWithinAHost(const Component& part) {
  return part.kind == Component::Kind::kInside || (part.kind == Component::Kind::kRanks && part.hosts.size() == 1);
}

// Which measurement decides.
std::string MeasureText(const StepTable& table, const SlowLinks& found) {
  constexpr std::size_t kMostNamed = 16;
  const std::vector<std::string> hosts = HostsInQuestion(table, found);
  const std::string names = hosts.empty() ? "all hosts of the job" : SomeOf(hosts, kMostNamed, "hosts");
  if (!found.parts.empty() && std::all_of(found.parts.begin(), found.parts.end(), IsWithinAHost))
    return fmt::format("measure within {} and within another host: `all_reduce_perf` of nccl-tests on their GPUs",
                       names);
  std::string text = fmt::format(
      "measure between {}{}: `ncclwatch doctor --active --only pair-bandwidth` under the launcher, one process on each",
      names, hosts.size() == 1 ? " and two other hosts" : "");
  if (hosts.size() != 2)
    text +=
        ". If one pair is slow, it is the link between these two. If all pairs of one host are slow, it is that host";
  if (found.rail)
    text += ". doctor measures by TCP. For an adapter that only NCCL uses run `sendrecv_perf` of nccl-tests on its GPU";
  return text;
}

// The calls do not tell which of several smaller parts it is.
bool IsPartOfIt(const SlowLinks& found) {
  return !found.instead.empty() && found.instead.front().kind < found.parts.front().kind;
}

std::string SummaryOf(const StepTable& table, const SlowLinks& found, const std::vector<int>& ranks) {
  const StepTransfers& example = table.transfers[found.example];
  const std::string since = found.since_before ? fmt::format("where the same elsewhere takes {}", Time(found.before_ns))
                                               : fmt::format("instead of {} since step {}", Time(found.before_ns),
                                                             table.NumberOf(found.onset));
  return fmt::format("Communication {}{} has become slower: {} of {} takes {} {}; {:.1f} % of the time is lost.",
                     WhereText(table, found, ranks), IsPartOfIt(found) ? ", or a part of it," : "",
                     functions::OpName(example.function), Bytes(example.bytes), Time(found.after_ns), since,
                     100 * found.share);
}

}  // namespace

std::optional<Finding> LinkFinding(const View& view, const StepTable& table, const Topology& topology,
                                   double least_share) {
  const std::optional<SlowLinks> found = FindSlowLinks(table, topology, kLeastLoss, least_share);
  if (!found) return std::nullopt;
  std::vector<int> ranks;
  for (const std::size_t row : found->rows) ranks.push_back(table.ranks[row]);
  std::sort(ranks.begin(), ranks.end());
  Finding finding;
  finding.kind = Kind::kSlowCommunication;
  finding.certainty = found->certainty >= kLikelyLink ? Certainty::kLikely : Certainty::kSuspected;
  AddCulprits(view, ranks, &finding);
  for (const int rank : table.ranks)
    if (!std::binary_search(ranks.begin(), ranks.end(), rank)) finding.victims.push_back(rank);
  finding.began_at_ns = ToRealtime(view, table.parts.front()[found->onset].began_ns);
  finding.onset = Onset{table.NumberOf(found->onset), finding.began_at_ns, found->since_before};
  const StepTransfers& example = table.transfers[found->example];
  finding.effect = Effect{"busbw", "GB/s", BusbwOf(example, found->before_ns), BusbwOf(example, found->after_ns)};
  finding.shared_by = SharedBy{found->hosts, found->rail, found->switch_name, {}};
  if (!found->pair.empty()) finding.shared_by.pair = ranks;
  finding.share_lost = found->share;
  finding.summary = SummaryOf(table, *found, ranks);
  finding.evidence.push_back(fmt::format(
      "{} of {} kinds of calls take longer, by communicator, operation and size; waiting for late ranks is not in it",
      found->slower, found->slower + found->as_before));
  if (finding.effect->before && finding.effect->after)
    finding.evidence.push_back(fmt::format("bus bandwidth {:.3g} GB/s, {} {:.3g} GB/s", *finding.effect->after,
                                           found->since_before ? "elsewhere" : "before", *finding.effect->before));
  AddInstead(table, *found, &finding);
  if (table.host_names.size() > 1) finding.next_steps.push_back(MeasureText(table, *found));
  finding.next_steps.push_back(
      "look at the counters of what is named: port and link errors, speed and width of the links, congestion "
      "(`ibqueryerrors`, `ethtool -S`, `nvidia-smi nvlink -e`), and at who else uses it since then");
  AddAdvice(&finding);
  return finding;
}

}  // namespace ncclwatch::diagnosis
