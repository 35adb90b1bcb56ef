#include "analyzer/investigate/markdown.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "analyzer/investigate/words.h"
#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::investigate {
namespace {

using Json = nlohmann::ordered_json;

// In a cell of a table, and as text: what comes from logs is no markup.
std::string Cell(const std::string& text) {
  constexpr std::string_view kMarkup = "\\[]|!";
  std::string cell;
  for (const char letter : Printable(text)) {
    if (letter == '<') {
      cell += "&lt;";
      continue;
    }
    if (kMarkup.find(letter) != std::string_view::npos) cell += '\\';
    cell += letter;
  }
  return cell;
}

std::string List(const std::vector<std::string>& lines, const char* none) {
  std::string text;
  for (const std::string& line : lines) text += "- " + Cell(line) + "\n";
  return text.empty() ? std::string(none) + "\n" : text;
}

std::string Paragraph(const std::vector<std::string>& sentences, const char* none) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : " ") + Cell(sentence);
  return (text.empty() ? none : text) + "\n";
}

std::string Timeline(const Incident& incident) {
  if (incident.timeline.empty()) return "Not known: nothing that was read has times.\n";
  std::string text = "| time | what |\n|---|---|\n";
  for (const Moment& moment : incident.timeline) text += fmt::format("| {} | {} |\n", At(moment.at), Cell(moment.text));
  return text;
}

std::string Hypotheses(const Incident& incident) {
  if (incident.hypotheses.empty()) return "Nothing failed: no hypothesis was looked at.\n";
  std::string text = "| hypothesis | | decided by |\n|---|---|---|\n";
  for (const Standing standing : {Standing::kSupported, Standing::kRuledOut, Standing::kUntested})
    for (const Hypothesis& one : incident.hypotheses)
      if (one.standing == standing)
        text += fmt::format("| {} | {} | {} |\n", Cell(one.text), Name(standing), Cell(one.by));
  return text;
}

std::string Chain(const Incident& incident) {
  std::string text;
  for (std::size_t i = 0; i < incident.chain.size(); ++i) {
    text += fmt::format("{}. {}\n", i + 1, Cell(incident.chain[i].text));
    for (const std::string& line : incident.chain[i].evidence) text += fmt::format("   - {}\n", Cell(line));
  }
  if (text.empty()) text = "Not known.\n";
  if (!incident.look_further.empty()) {
    text += "\nMeasured up to here. What would look further:\n\n";
    text += List(incident.look_further, "");
  }
  return text;
}

}  // namespace

std::string ToMarkdown(const Incident& incident) {
  std::string text = fmt::format("# Incident: {}\n", Cell(incident.title));
  const auto section = [&](const char* heading, const std::string& body) {
    text += fmt::format("\n## {}\n\n{}", heading, body);
  };
  section("Summary", Cell(incident.summary) +
                         (incident.certainty.empty() ? "" : fmt::format(" Certainty: {}.", incident.certainty)) + "\n");
  section("Timeline", Timeline(incident));
  section("Triage", Paragraph(incident.triage, "Not done."));
  section("Localization", List(incident.localization, "Not known: nothing that was read names a rank."));
  section("Isolation", Hypotheses(incident));
  section("Root cause", Chain(incident));
  section("Resolution", List(incident.now, "Nothing to do."));
  section("Cost", Paragraph(incident.cost, "Not measured."));
  section("Prevention", List(incident.for_good, "Nothing to do."));
  if (!incident.not_looked_at.empty()) section("Not looked at", List(incident.not_looked_at, ""));
  return text;
}

Json ToJson(const Incident& incident) {
  Json timeline = Json::array(), hypotheses = Json::array(), chain = Json::array();
  for (const Moment& moment : incident.timeline)
    timeline.push_back({{"at", At(moment.at)}, {"what", Printable(moment.text)}});
  for (const Hypothesis& one : incident.hypotheses)
    hypotheses.push_back({{"hypothesis", one.text}, {"standing", Name(one.standing)}, {"by", Printable(one.by)}});
  for (const Link& link : incident.chain)
    chain.push_back({{"text", Printable(link.text)}, {"evidence", link.evidence}});
  return {{"schema", "ncclwatch.investigate/1"},
          {"class", Name(incident.kind)},
          {"title", Printable(incident.title)},
          {"summary", Printable(incident.summary)},
          {"certainty", incident.certainty},
          {"attempts", ToJson(incident.attempts)},
          {"timeline", std::move(timeline)},
          {"triage", incident.triage},
          {"localization", incident.localization},
          {"hypotheses", std::move(hypotheses)},
          {"chain", std::move(chain)},
          {"look_further", incident.look_further},
          {"now", incident.now},
          {"for_good", incident.for_good},
          {"cost", incident.cost},
          {"not_looked_at", incident.not_looked_at}};
}

}  // namespace ncclwatch::investigate
