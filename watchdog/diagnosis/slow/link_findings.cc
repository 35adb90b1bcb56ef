#include "watchdog/diagnosis/slow/link_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ncclwatch/functions/bandwidth.h"
#include "watchdog/diagnosis/model/text.h"
#include "watchdog/diagnosis/report/advice.h"
#include "watchdog/diagnosis/rules/describe.h"
#include "watchdog/diagnosis/slow/links.h"

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

// "the hosts behind switch leaf2 (node08, node09)"
std::string WhereText(const SlowLinks& found, const std::vector<int>& ranks) {
  if (!found.pair.empty()) return fmt::format("between rank {} and rank {}", ranks.front(), ranks.back());
  if (!found.switch_name.empty())
    return fmt::format("of the hosts behind switch {} ({})", found.switch_name, Join(found.hosts, ", "));
  if (found.rail) return fmt::format("of rail {}, the GPUs of that number on all hosts", *found.rail);
  if (!found.hosts.empty()) return "of " + Join(found.hosts, ", ");
  return ranks.empty() ? "of all ranks" : "of " + Ranks(ranks);
}

std::string SummaryOf(const StepTable& table, const SlowLinks& found, const std::vector<int>& ranks) {
  const StepTransfers& example = table.transfers[found.example];
  const std::string since = found.since_before ? fmt::format("where the same elsewhere takes {}", Time(found.before_ns))
                                               : fmt::format("instead of {} since step {}", Time(found.before_ns),
                                                             table.NumberOf(found.onset));
  return fmt::format("Communication {} has become slower: {} of {} takes {} {}; {:.1f} % of the time is lost.",
                     WhereText(found, ranks), functions::OpName(example.function), Bytes(example.bytes),
                     Time(found.after_ns), since, 100 * found.share);
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
  finding.next_steps.push_back(
      "look at the counters of what is named: port and link errors, speed and width of the links, congestion "
      "(`ibqueryerrors`, `ethtool -S`, `nvidia-smi nvlink -e`), and at who else uses it since then");
  AddAdvice(&finding);
  return finding;
}

}  // namespace ncclwatch::diagnosis
