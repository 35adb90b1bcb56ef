// `ncclwatch compare`: is B better than A, and how sure is that?
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/compare/print.h"
#include "analyzer/compare/trials.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"

namespace ncclwatch::analyzer {
namespace {

using compare::Better;
using compare::Side;

constexpr char kCompareHelp[] =
    "Say whether B is better or worse than A, by how much, and how sure that is.\n\n"
    "A and B are run directories, recordings, CSV files with a header, lines of JSON, or JSON of Google Benchmark.\n"
    "Separate several trials of a side by commas: A1,A2,A3. With --trials N the command after `--` runs N times for\n"
    "each side in turn, with A or B in place of {}.\n\n"
    "The command compares medians. The interval accounts for steps that resemble their neighbours and, if both\n"
    "sides have several runs, for differences between runs. Over all metrics, one comparison in a hundred is wrong.\n"
    "A metric is better or worse if its interval excludes zero and the change exceeds --tolerance. It is the same\n"
    "if its interval lies within --tolerance. If there is a step time, it decides, and other changes are listed\n"
    "beside it. fixed and not_fixed refer to a problem: that of --problem, or the first finding in A.\n\n"
    "Exit status: 0, 1 regression or not_fixed, 2 usage, 3 an input could not be read.";

struct CompareRequest {
  std::vector<std::string> words, metrics;
  std::string tolerance = "5%", problem;
  int trials = 0;
  bool json = false;
};

// "NAME", "NAME:lower", "NAME:higher". A name may have colons of its own.
std::pair<std::string, Better> MetricOf(const std::string& word) {
  for (const auto& [ending, better] : {std::pair(":lower", Better::kLower), std::pair(":higher", Better::kHigher)})
    if (word.ends_with(ending)) return {word.substr(0, word.rfind(':')), better};
  return {word, Better::kUnknown};
}

compare::Outcome OutcomeOf(const std::string& command, const std::string& before, const std::string& after) {
  return {compare::RunProblem(command, before, "before") != 0, compare::RunProblem(command, after, "after") != 0,
          command};
}

bool IsRun(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

int PrintOutcome(const CompareRequest& request, const compare::Request& how, const Side& before, const Side& after) {
  std::optional<compare::Outcome> problem =
      request.problem.empty() ? OutcomeOfFindings(before, after) : OutcomeOf(request.problem, before.name, after.name);
  compare::Comparison comparison = Compare(before, after, how, std::move(problem));
  std::optional<compare::FirstDifference> first;
  if (IsRun(before.paths.front()) && IsRun(after.paths.front())) {
    std::string why_not;
    first = compare::FindFirstDifference(before.paths.front(), after.paths.front(), &why_not);
    if (!why_not.empty()) comparison.notes.push_back(why_not);
  }
  if (request.json)
    PrintJson(ToJson(comparison, first));
  else
    WriteOut(ToText(comparison, first));
  const bool bad =
      comparison.verdict == compare::Verdict::kRegression || comparison.verdict == compare::Verdict::kNotFixed;
  return bad ? kProblem : kDone;
}

}  // namespace

int CompareRuns(const Command& self, const Arguments& arguments) {
  Options options(self, kCompareHelp);
  CompareRequest request;
  options.add_option("A B", request.words, "the two sides")->type_name("");
  options
      .add_option("--metric", request.metrics,
                  "decide by this metric; which way is better, where the name does not say it")
      ->type_name("NAME[:lower|:higher]")
      ->allow_extra_args(false);
  options.add_option("--tolerance", request.tolerance, "changes up to that are none (5%)")->type_name("SHARE");
  options
      .add_option("--problem", request.problem, "a shell command that fails where the problem shows; {} is the side")
      ->type_name("CMD");
  options.add_option("--trials", request.trials, "run the command after `--` so often for each side")->type_name("N");
  options.add_flag("--json", request.json, "print JSON");
  Arguments words = arguments;
  const Arguments command = TakeCommand(&words);
  if (const auto status = options.Read(words)) return *status;
  if (request.words.size() != 2 || command.empty() != (request.trials <= 0))
    return UsageError(
        self, request.trials > 0 ? "--trials takes two sides and a command: A B -- CMD {}" : "which two sides?");
  compare::Request how;
  const auto tolerance = ParseShare(request.tolerance);
  if (!tolerance) return UsageError(self, "--tolerance takes a share like 5%, not '" + request.tolerance + "'");
  how.tolerance = *tolerance;
  for (const std::string& word : request.metrics) how.only.push_back(MetricOf(word));
  if (request.trials > 0) {
    const auto sides = compare::RunTrials(request.words[0], request.words[1], request.trials, command);
    return sides.ok() ? PrintOutcome(request, how, sides->first, sides->second) : Unreadable(self, sides.status());
  }
  const auto before = compare::ReadSide(request.words[0]), after = compare::ReadSide(request.words[1]);
  for (const auto* const side : {&before, &after})
    if (!side->ok()) return Unreadable(self, side->status());
  for (const auto& [name, better] : how.only)
    if (!before->metrics.contains(name)) return UsageError(self, "A has no metric '" + name + "'");
  return PrintOutcome(request, how, *before, *after);
}

}  // namespace ncclwatch::analyzer
