#include "analyzer/triage/print.h"

#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/console/units.h"
#include "analyzer/restart/restart.h"
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
          {"at_inherited", reported.first.at && !reported.first.own_time},
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
  if (reported.first.at) where += (reported.first.own_time ? ", " : ", at or after ") + TimeText(*reported.first.at);
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

Json EndedJson(const std::vector<RankEnd>& ends) {
  Json array = Json::array();
  for (const RankEnd& ended : ends)
    array.push_back({{"rank", ended.rank < 0 ? Json() : Json(ended.rank)},
                     {"how", Name(ended.how)},
                     {"status", ended.status ? Json(*ended.status) : Json()},
                     {"at", ended.at ? Json(TimeText(*ended.at)) : Json()},
                     {"file", ended.file},
                     {"line", ended.line}});
  return array;
}

Json UnexplainedJson(const std::optional<Unexplained>& unexplained) {
  if (!unexplained) return {};
  return {{"end", EndedJson({unexplained->end}).front()}, {"lines", unexplained->lines}};
}

std::string EndText(const RankEnd& ended) {
  std::string text = ended.rank < 0 ? "the job" : fmt::format("rank {}", ended.rank);
  text += fmt::format(": {}", Name(ended.how));
  if (ended.status) text += fmt::format(" {}", *ended.status);
  if (ended.at) text += ", " + TimeText(*ended.at);
  return text + fmt::format(" ({}:{})", ended.file, ended.line);
}

std::string EndedText(const std::vector<RankEnd>& ends) {
  std::string text;
  std::size_t count = 0;
  for (const RankEnd& ended : ends)
    if (ended.how != EndKind::kNormal && ++count <= kMostSilent) text += fmt::format("  {}\n", EndText(ended));
  if (count > kMostSilent) text += fmt::format("  and {} more (--json)\n", count - kMostSilent);
  return text.empty() ? text : "\nhow the ranks ended, the first of them first\n" + text;
}

std::string UnexplainedText(const std::optional<Unexplained>& unexplained) {
  if (!unexplained) return "";
  std::string text = fmt::format("\nended first\n  {}\n", EndText(unexplained->end));
  if (unexplained->end.how == EndKind::kKilled)
    text +=
        "  Nothing here says who killed it. Mostly it is the kernel, for want of memory: see `dmesg` of that host.\n";
  if (!unexplained->lines.empty()) text += "\nits last lines\n";
  for (const std::string& line : unexplained->lines) text += fmt::format("    {}\n", line);
  return text;
}

std::string KnownBadText(const std::vector<KnownBad>& entries) {
  std::string text;
  for (const KnownBad& entry : entries) text += fmt::format("  {}\n    {}\n", entry.summary, entry.report);
  return text.empty() ? text : "\nreported for this version, with such a symptom\n" + text;
}

std::string SilentText(std::vector<Silent> ranks) {
  if (ranks.empty()) return "";
  std::stable_sort(ranks.begin(), ranks.end(), [](const Silent& a, const Silent& b) { return a.at < b.at; });
  std::string text = "\nstopped writing before the others\n";
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostSilent); ++i)
    text +=
        fmt::format("  rank {} at {} ({}:{})\n", ranks[i].rank, TimeText(ranks[i].at), ranks[i].file, ranks[i].line);
  if (ranks.size() > kMostSilent) text += fmt::format("  and {} more ranks (--json)\n", ranks.size() - kMostSilent);
  return text;
}

}  // namespace

nlohmann::ordered_json TriageJson(const Triage& triage) {
  Json silent = Json::array();
  for (const Silent& rank : triage.silent)
    silent.push_back({{"rank", rank.rank}, {"last_at", TimeText(rank.at)}, {"file", rank.file}, {"line", rank.line}});
  return {{"schema", "ncclwatch.triage/1"},
          {"files", triage.files},
          {"bytes", triage.bytes},
          {"causes", ListJson(triage.causes)},
          {"echoes", ListJson(triage.echoes)},
          {"confirmations", ListJson(triage.confirmations)},
          {"silent", std::move(silent)},
          {"ended", EndedJson(triage.ended)},
          {"restart", RestartJson(triage.restart)},
          {"known_bad", KnownBadJson(triage.known_bad)},
          {"unexplained", UnexplainedJson(triage.unexplained)},
          {"unknown", triage.unknown}};
}

std::string FailureLine(const Triage& triage) {
  if (triage.fell_silent) return "the job stopped writing in the midst of its work";
  if (triage.causes.empty())
    return "no rule knows why" + (triage.unexplained ? "; " + EndText(triage.unexplained->end) : "");
  const TriageFinding& cause = triage.causes.front();
  return fmt::format("{}, {}: {} ({}:{})", cause.rule->category, RanksText(cause.ranks), cause.summary,
                     cause.first.file, cause.first.line);
}

std::string TriageText(const Triage& triage) {
  std::string text;
  if (triage.causes.empty())
    text = triage.fell_silent ? "The job stopped writing in the midst of its work, and no line says why.\n"
           : triage.unknown   ? "Something failed, and no rule knows why.\n"
                              : "Nothing failed, as far as the rules know.\n";
  else
    text = InFull(triage.causes.front());
  text += UnexplainedText(triage.unexplained);
  if (triage.restart) text += fmt::format("\n{}\n", RestartText(*triage.restart));
  text += KnownBadText(triage.known_bad);
  text += Lines("other causes", triage.causes, 1);
  text += Lines("what follows from it", triage.echoes, 0);
  text += Lines("confirmed by", triage.confirmations, 0);
  text += SilentText(triage.silent);
  if (triage.restart) text += EndedText(triage.ended);
  return text + fmt::format("\n{} file{}, {}\n", triage.files, triage.files == 1 ? "" : "s", BytesText(triage.bytes));
}

}  // namespace ncclwatch::analyzer
