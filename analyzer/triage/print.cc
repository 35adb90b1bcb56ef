#include "analyzer/triage/print.h"

#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/console/units.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostReported = 5;  // causes in full; the others in a line each
constexpr std::size_t kMostSilent = 8;    // ranks, the first of them; as JSON all

std::string TimeText(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone()); }

std::string RanksText(const std::vector<int>& ranks) {
  return ranks.empty() ? "no rank is named" : diagnosis::Ranks(ranks);
}

Json ReportedJson(const TriageFinding& reported) {
  Json fields = Json::object();
  for (const auto& [name, value] : reported.first.fields) fields[name] = value;
  return {{"category", reported.rule->category},
          {"rule", reported.rule->id},
          {"confidence", Name(reported.confidence)},
          {"ranks", reported.ranks},
          {"host", reported.first.host.empty() ? Json() : Json(reported.first.host)},
          {"at", reported.first.at ? Json(TimeText(*reported.first.at)) : Json()},
          {"file", reported.first.file},
          {"line", reported.first.line},
          {"text", reported.first.text},
          {"fields", std::move(fields)},
          {"lines", reported.lines},
          {"summary", reported.summary},
          {"next_steps", {{"now", reported.rule->now}, {"for_good", reported.rule->for_good}}}};
}

Json ListJson(const std::vector<TriageFinding>& list) {
  Json array = Json::array();
  for (const TriageFinding& reported : list) array.push_back(ReportedJson(reported));
  return array;
}

std::string Where(const TriageFinding& reported) {
  std::string where = fmt::format("{}:{}", reported.first.file, reported.first.line);
  if (reported.first.at) where += ", " + TimeText(*reported.first.at);
  if (!reported.first.host.empty()) where += ", host " + reported.first.host;
  return where;
}

std::string InFull(const TriageFinding& reported) {
  std::string text =
      fmt::format("{} ({}): {}\n\n  {}\n\n  {}\n    {}\n", reported.rule->category, Name(reported.confidence),
                  RanksText(reported.ranks), reported.summary, Where(reported), reported.first.text);
  for (const auto& [name, value] : reported.first.fields)
    if (name == "where") text += fmt::format("    {}\n", value);
  if (reported.lines > 1) text += fmt::format("    and {} more such lines\n", reported.lines - 1);
  if (!reported.rule->now.empty()) text += "\n  next\n";
  for (const std::string& step : reported.rule->now) text += fmt::format("    - {}\n", step);
  if (!reported.rule->for_good.empty()) text += "\n  for good\n";
  for (const std::string& step : reported.rule->for_good) text += fmt::format("    - {}\n", step);
  return text;
}

std::string InALine(const TriageFinding& reported) {
  return fmt::format("  {} ({}, {}): {}\n    {}\n", reported.rule->id, Name(reported.confidence),
                     RanksText(reported.ranks), reported.summary, Where(reported));
}

std::string Lines(std::string_view title, const std::vector<TriageFinding>& list, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < list.size() && i < from + kMostReported; ++i) text += InALine(list[i]);
  if (list.size() > from + kMostReported) text += fmt::format("  and {} more\n", list.size() - from - kMostReported);
  return text.empty() ? text : fmt::format("\n{}\n{}", title, text);
}

std::string SilentText(std::vector<Silent> ranks) {
  if (ranks.empty()) return "";
  std::stable_sort(ranks.begin(), ranks.end(), [](const Silent& a, const Silent& b) { return a.last.at < b.last.at; });
  std::string text = "\nstopped writing before the others\n";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostSilent); ++i)
    text += fmt::format("  rank {} at {} ({}:{})\n", ranks[i].rank, TimeText(ranks[i].last.at), ranks[i].last.file,
                        ranks[i].last.line);
  if (ranks.size() > kMostSilent) text += fmt::format("  and {} more ranks (--json)\n", ranks.size() - kMostSilent);
  return text;
}

}  // namespace

nlohmann::ordered_json TriageJson(const Triage& triage) {
  Json silent = Json::array();
  for (const Silent& rank : triage.silent)
    silent.push_back(
        {{"rank", rank.rank}, {"last_at", TimeText(rank.last.at)}, {"file", rank.last.file}, {"line", rank.last.line}});
  return {{"schema", "ncclwatch.triage/1"},
          {"files", triage.files},
          {"bytes", triage.bytes},
          {"causes", ListJson(triage.causes)},
          {"echoes", ListJson(triage.echoes)},
          {"confirmations", ListJson(triage.confirmations)},
          {"silent", std::move(silent)},
          {"unknown", triage.unknown}};
}

std::string TriageText(const Triage& triage) {
  std::string text;
  if (triage.causes.empty())
    text =
        triage.unknown ? "Something failed, and no rule knows why.\n" : "Nothing failed, as far as the rules know.\n";
  else
    text = InFull(triage.causes.front());
  text += Lines("other causes, later", triage.causes, 1);
  text += Lines("what follows from it", triage.echoes, 0);
  text += Lines("confirmed by", triage.confirmations, 0);
  text += SilentText(triage.silent);
  return text + fmt::format("\n{} file{}, {}\n", triage.files, triage.files == 1 ? "" : "s", BytesText(triage.bytes));
}

}  // namespace ncclwatch::analyzer
