#include "analyzer/metrics/exposition.h"

#include <fmt/core.h>

#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/report/json_writer.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

std::string Escaped(const std::string& value) {
  std::string text;
  for (const char c : Printable(value)) {
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{:.17g}", value);
}

class Writer {
 public:
  explicit Writer(std::string job) : job_(std::move(job)) {}

  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = fmt::format("ncclwatch_{}", name);
    head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name_, help, type);
  }
  void Sample(const Labels& labels, double value) {
    if (series_ >= kMostSeries - 1) {  // one is left_out itself
      ++left_out_;
      return;
    }
    ++series_;
    text_ += std::exchange(head_, "");
    text_ += fmt::format("{}{{run=\"{}\"", name_, Escaped(job_));
    for (const auto& [label, says] : labels) text_ += fmt::format(",{}=\"{}\"", label, Escaped(says));
    text_ += fmt::format("}} {}\n", Number(value));
  }
  std::string Take() {
    series_ = 0;
    Family("series_left_out", "gauge", "Series that did not fit into the 300 of a node.");
    Sample({}, static_cast<double>(left_out_));
    return std::move(text_);
  }

 private:
  const std::string job_;
  std::string text_, name_, head_;
  int series_ = 0;
  std::uint64_t left_out_ = 0;
};

std::string Rank(int rank) { return std::to_string(rank); }

void WriteFindings(const NodeState& state, Writer* to) {
  to->Family("finding", "gauge",
             "1 for each thing that is wrong now, with its first culprit (rank, empty: no single one).");
  std::set<std::string> said;
  for (const diagnosis::Finding& finding : state.findings) {
    const std::string rank = finding.culprits.empty() ? "" : Rank(finding.culprits.front());
    if (!said.insert(fmt::format("{} {}", diagnosis::Name(finding.kind), rank)).second) continue;
    to->Sample({{"kind", std::string(diagnosis::Name(finding.kind))},
                {"certainty", std::string(diagnosis::Name(finding.certainty))},
                {"rank", rank}},
               1);
  }
  to->Family("share_lost", "gauge", "Share of the step time that a finding costs.");
  for (const diagnosis::Finding& finding : state.findings)
    if (finding.share_lost) to->Sample({{"kind", std::string(diagnosis::Name(finding.kind))}}, *finding.share_lost);
}

void WriteSteps(const StepState& step, Writer* to) {
  to->Family("step_seconds", "gauge", "Time of a step of the training loop, median of the newest steps.");
  to->Sample({}, step.step_s);
  to->Family("step_part_seconds", "gauge", "What a step's time goes into, medians.");
  for (const auto& [part, seconds] : {std::pair("compute", step.compute_s), std::pair("exposed", step.exposed_s),
                                      std::pair("wait", step.wait_s), std::pair("idle", step.idle_s)})
    to->Sample({{"part", part}}, seconds);
}

template <class Value>
void WriteOfRanks(const NodeState& state, std::string_view name, std::string_view type, std::string_view help,
                  Value value, Writer* to) {
  to->Family(name, type, help);
  for (const RankState& rank : state.ranks)
    if (const std::optional<double> known = value(rank)) to->Sample({{"rank", Rank(rank.rank)}}, *known);
}

}  // namespace

std::string Exposition(const NodeState& state) {
  using Known = std::optional<double>;
  Writer writer(state.job);
  writer.Family("info", "gauge", "1; which node, and which NCCL.");
  writer.Sample({{"node", state.host}, {"nccl", state.nccl}}, 1);
  writer.Family("ranks_expected", "gauge", "Ranks of the whole job, 0: not known.");
  writer.Sample({}, state.expected);
  int alive = 0;
  double waiting_s = 0;
  for (const RankState& rank : state.ranks) {
    alive += rank.alive;
    waiting_s = std::max(waiting_s, rank.waiting_s);
  }
  writer.Family("ranks_alive", "gauge", "Ranks of this node that are alive and watched.");
  writer.Sample({}, alive);
  writer.Family("longest_wait_seconds", "gauge", "Age of the oldest call of this node that is not over.");
  writer.Sample({}, waiting_s);
  WriteFindings(state, &writer);
  if (state.step) WriteSteps(*state.step, &writer);
  writer.Family("busbw_bytes_per_second", "gauge",
                "Bus bandwidth by nccl-tests' rule, median of the newest calls, without waiting for late ranks.");
  for (const TransferState& one : state.transfers)
    writer.Sample({{"op", one.op}, {"bytes", std::to_string(one.bytes)}}, one.busbw_bytes_per_s);
  WriteOfRanks(
      state, "rank_alive", "gauge", "1 while the rank's process lives.",
      [](const RankState& rank) { return Known(rank.alive ? 1 : 0); }, &writer);
  WriteOfRanks(
      state, "calls_total", "counter", "Calls of NCCL and MPI.",
      [](const RankState& rank) { return Known(static_cast<double>(rank.calls)); }, &writer);
  WriteOfRanks(
      state, "rank_waiting_seconds", "gauge", "Age of the rank's oldest call that is not over.",
      [](const RankState& rank) { return Known(rank.waiting_s); }, &writer);
  WriteOfRanks(
      state, "step", "gauge", "Number of the newest whole step.",
      [](const RankState& rank) { return rank.step ? Known(static_cast<double>(*rank.step)) : Known(); }, &writer);
  writer.Family("program_metric", "gauge", "Numbers that the program reports (ncclwatch.metric).");
  for (const auto& [of, value] : state.numbers) writer.Sample({{"name", of.first}, {"rank", Rank(of.second)}}, value);
  return writer.Take();
}

}  // namespace ncclwatch::analyzer
