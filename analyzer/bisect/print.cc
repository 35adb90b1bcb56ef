#include "analyzer/bisect/print.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/bisect/state.h"
#include "analyzer/console/command.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "core/text/printable.h"

namespace ncclwatch::bisect {
namespace {

using analyzer::BytesText;
using analyzer::DurationText;
using analyzer::kDone;
using analyzer::kProblem;
using analyzer::Print;
using analyzer::PrintJson;

const Observation* LastOf(const std::vector<Observation>& all, std::int64_t n, Outcome outcome) {
  const std::string question = fmt::format("n = {}", n);
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Observation& one) {
    return one.question == question && one.outcome == outcome;
  });
  return found == all.rend() ? nullptr : &*found;
}

// What changes at the border, as far as the runs on both sides tell.
std::vector<std::string> AtBorder(const Border& border, const std::vector<Observation>& all) {
  std::vector<std::string> lines;
  const Observation* const good = LastOf(all, *border.last_good, Outcome::kGood);
  const Observation* const bad = LastOf(all, *border.first_bad, Outcome::kBad);
  if (!bad) return lines;
  lines.push_back(bad->timed_out      ? "it does not end within the time limit"
                  : bad->status > 128 ? fmt::format("it ends by signal {}", bad->status - 128)
                                      : fmt::format("it ends with status {}", bad->status));
  if (!bad->cause.empty()) lines.push_back("its output says: " + bad->cause);
  if (!bad->diagnosis.empty()) lines.push_back("diagnosis: " + bad->diagnosis);
  if (good)
    lines.push_back(fmt::format("most memory of a process: {} at {}, {} at {}", BytesText(good->memory_peak),
                                *border.last_good, BytesText(bad->memory_peak), *border.first_bad));
  if (good)
    lines.push_back(fmt::format("time: {} at {}, {} at {}", DurationText(absl::Seconds(good->seconds)),
                                *border.last_good, DurationText(absl::Seconds(bad->seconds)), *border.first_bad));
  return lines;
}

nlohmann::ordered_json Result(const std::vector<Observation>& all) {
  auto observations = nlohmann::ordered_json::array();
  for (const Observation& one : all) observations.push_back(ToJson(one));
  return {{"schema", "ncclwatch.bisect/1"},
          {"last_good", nullptr},
          {"first_bad", nullptr},
          {"culprits", nlohmann::ordered_json::array()},
          {"groups", nlohmann::ordered_json::array()},
          {"runs", all.size()},
          {"confidence", nullptr},
          {"at_border", nlohmann::ordered_json::array()},
          {"why_not", nullptr},
          {"observations", std::move(observations)}};
}

}  // namespace

int TellBorder(bool as_json, const Border& border, const std::vector<Observation>& all) {
  const bool found = border.why_not.empty();
  const std::vector<std::string> lines = found ? AtBorder(border, all) : std::vector<std::string>();
  if (as_json) {
    nlohmann::ordered_json json = Result(all);
    if (found)
      json["last_good"] = *border.last_good, json["first_bad"] = *border.first_bad,
      json["confidence"] = border.confidence, json["at_border"] = lines;
    else
      json["why_not"] = border.why_not;
    PrintJson(json);
  } else if (found) {
    Print("{} is good, {} is bad ({:.1f} % sure, {} runs)\n", *border.last_good, *border.first_bad,
          100 * border.confidence, all.size());
    for (const std::string& line : lines) Print("  {}\n", Printable(line));
  } else {
    Print("not found: {} ({} runs)\n", border.why_not, all.size());
  }
  return found ? kDone : kProblem;
}

int TellCulprits(bool as_json, const Question& question, const Culprits& culprits,
                 const std::vector<Observation>& all) {
  const bool found = !culprits.groups.empty();
  std::vector<std::vector<std::string>> groups;
  for (const Items& group : culprits.groups) {
    std::vector<std::string>& names = groups.emplace_back();
    for (const std::size_t item : group) names.push_back(question.items[item]);
  }
  if (as_json) {
    nlohmann::ordered_json json = Result(all);
    for (const auto& group : groups)
      for (const std::string& one : group) json["culprits"].push_back(one);
    json["groups"] = groups;
    if (found) json["confidence"] = culprits.confidence;
    if (!found) json["why_not"] = culprits.why_not;
    PrintJson(json);
  } else if (found) {
    for (const auto& group : groups)
      Print("{}{}\n", Printable(absl::StrJoin(group, ", ")), group.size() > 1 ? " (together)" : "");
    Print("({:.1f} % sure, {} runs)\n", 100 * culprits.confidence, all.size());
  } else {
    Print("not found: {} ({} runs)\n", culprits.why_not, all.size());
  }
  return found ? kDone : kProblem;
}

}  // namespace ncclwatch::bisect
