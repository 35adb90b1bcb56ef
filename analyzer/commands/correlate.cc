// `ncclwatch correlate`: over weeks of events, what comes before failures, and where do they cluster?
#include <cmath>
#include <nlohmann/json.hpp>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/correlate/precursors.h"
#include "analyzer/correlate/rhythm.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using correlate::Cluster;
using correlate::History;
using correlate::Precursor;
using correlate::Rhythm;

constexpr char kCorrelateHelp[] =
    "Say which events come before failures more often than chance has it, and where failures cluster.\n\n"
    "Files are events.jsonl (NCCLWATCH_OUT collects them), CSV with a header (timestamp, event_type,\n"
    "category, host, job) and Slurm's `sacct -P -o JobID,State,Start,End,NodeList`; folders are searched for\n"
    "them.\n\n"
    "SHARE of the failures come within --window after the event. RISK compares the rate of failures inside\n"
    "these windows with the rate outside, with its interval of 95 %. P is that of chance, by shifting the\n"
    "events in time, adjusted for all comparisons (Benjamini & Hochberg). It is a correlation: it shows where\n"
    "to look, and is no cause.\n\n"
    "Exit status: 0 done, 2 usage, 3 a file could not be read.";

struct Found {
  std::vector<Precursor> precursors;
  Rhythm rhythm;
  std::vector<Cluster> clusters;
};

nlohmann::ordered_json NumberOrNull(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json ToJson(const History& history, const Found& found) {
  auto precursors = nlohmann::ordered_json::array(), clusters = nlohmann::ordered_json::array();
  for (const Precursor& one : found.precursors)
    precursors.push_back({{"event", Printable(one.event)},
                          {"failure", Printable(one.failure)},
                          {"cases", one.cases},
                          {"share", one.of == 0 ? 0 : static_cast<double>(one.cases) / static_cast<double>(one.of)},
                          {"risk_ratio", NumberOrNull(one.risk_ratio)},
                          {"interval", {NumberOrNull(one.low), NumberOrNull(one.high)}},
                          {"p_adjusted", one.p_adjusted ? nlohmann::ordered_json(*one.p_adjusted) : nullptr},
                          {"significant", one.significant},
                          {"too_few", !one.p.has_value()}});
  for (const Cluster& one : found.clusters)
    clusters.push_back({{"by", one.by},
                        {"value", Printable(one.value)},
                        {"failures", one.failures},
                        {"expected", one.expected},
                        {"p_adjusted", one.p_adjusted}});
  return {{"schema", "ncclwatch.correlate/1"},
          {"failures", history.failures.size()},
          {"events", history.events.size()},
          {"precursors", std::move(precursors)},
          {"periodicity",
           {{"pattern", found.rhythm.pattern},
            {"interval_s", found.rhythm.pattern == "too_few" ? nlohmann::ordered_json(nullptr)
                                                             : nlohmann::ordered_json(found.rhythm.interval_s)}}},
          {"clusters", std::move(clusters)},
          {"notes", history.notes}};
}

std::string RatioText(double value) { return std::isfinite(value) ? fmt::format("{:.1f}", value) : "inf"; }

std::string PrecursorTable(const std::vector<Precursor>& precursors, bool significant) {
  Table table(
      {{"EVENT"}, {"FAILURE"}, {"CASES", true}, {"SHARE", true}, {"RISK", true}, {"INTERVAL", true}, {"P", true}});
  constexpr int kMost = 10;
  int rows = 0;
  for (const Precursor& one : precursors)
    if (one.significant == significant && rows < kMost && (significant || one.cases > 0)) {
      ++rows;
      table.Add({Printable(one.event), Printable(one.failure), fmt::format("{} of {}", one.cases, one.of),
                 fmt::format("{:.0f} %", 100.0 * static_cast<double>(one.cases) /
                                             static_cast<double>(std::max<std::size_t>(1, one.of))),
                 RatioText(one.risk_ratio), fmt::format("{} to {}", RatioText(one.low), RatioText(one.high)),
                 one.p_adjusted ? fmt::format("{:.3f}", *one.p_adjusted) : "too few"});
    }
  return table.empty() ? "none\n" : table.Text();
}

std::string ToText(const History& history, const Found& found) {
  std::string text = fmt::format("{} failures, {} other events\n", history.failures.size(), history.events.size());
  if (history.failures.empty()) return text;
  text += "\nbefore failures, more often than by chance:\n" + PrecursorTable(found.precursors, true);
  text += "\nothers that came before failures:\n" + PrecursorTable(found.precursors, false);
  const std::string interval = DurationText(absl::Seconds(found.rhythm.interval_s));
  if (found.rhythm.pattern == "too_few")
    text += "\nrhythm: too few failures to tell\n";
  else
    text += found.rhythm.pattern == "periodic"
                ? fmt::format("\nrhythm: every {}\n", interval)
                : fmt::format("\nrhythm: {}, {} between two in the middle\n", found.rhythm.pattern, interval);
  for (const Cluster& one : found.clusters)
    text += fmt::format("cluster: {} {}: {} failures, {:.1f} expected (p {:.3g})\n", one.by, Printable(one.value),
                        one.failures, one.expected, one.p_adjusted);
  if (found.clusters.empty()) text += "clusters: none by host, job, day or hour\n";
  for (const std::string& note : history.notes) text += "note: " + Printable(note) + "\n";
  return text;
}

}  // namespace

int Correlate(const Command& self, const Arguments& arguments) {
  Options options(self, kCorrelateHelp);
  std::vector<std::string> words;
  std::string window = "600s";
  bool json = false;
  options.add_option("FILE|DIR", words, "histories, and folders of them")->type_name("");
  options.add_option("--window", window, "how long after an event a failure counts as after it (600s)")
      ->type_name("TIME");
  options.add_flag("--json", json, "print JSON");
  if (const auto status = options.Read(arguments)) return *status;
  if (words.empty()) return UsageError(self, "which files?");
  const auto length = ParseDuration(window);
  if (!length || *length <= absl::ZeroDuration())
    return UsageError(self, "--window takes a time like 600s, not '" + window + "'");
  History history;
  for (const std::string& word : words)
    if (const absl::Status status = correlate::AddFile(word, &history); !status.ok()) return Unreadable(self, status);
  Settle(&history);
  const Found found{FindPrecursors(history, absl::ToDoubleSeconds(*length)), RhythmOf(history.failures),
                    FindClusters(history)};
  if (json)
    PrintJson(ToJson(history, found));
  else
    WriteOut(ToText(history, found));
  return kDone;
}

}  // namespace ncclwatch::analyzer
