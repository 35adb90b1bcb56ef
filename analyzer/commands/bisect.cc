// `ncclwatch bisect`: from which size on, or with which of several items, does a command fail?
#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "analyzer/bisect/border.h"
#include "analyzer/bisect/culprits.h"
#include "analyzer/bisect/print.h"
#include "analyzer/bisect/question.h"
#include "analyzer/bisect/state.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/files/output_file.h"
#include "analyzer/files/scratch_folder.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using bisect::Items;
using bisect::Observation;

constexpr char kBisectHelp[] =
    "Find the smallest size at which a command fails, or which of several items makes it fail, with few runs.\n\n"
    "--size LO..HI tries sizes in place of {n}: ranks, bytes, layers. --items FILE and --hosts FILE try parts\n"
    "of a list, one item a line, in place of {items} or {hosts}: separate words; joined by spaces inside\n"
    "`sh -c '...'`, by commas inside another word (NCCLWATCH_ITEMS names a file\n"
    "of them): one culprit, several, or several that are needed together. --env GOOD BAD tries the variables\n"
    "in which two files of NAME=VALUE lines differ. Status 0 of the command is good, 125 cannot tell, all\n"
    "else is bad, and so is --timeout: a command that runs under ncclwatch is diagnosed before it is ended.\n"
    "Runs that contradict one another are repeated until the result is sure; --flaky says beforehand how\n"
    "often a run is wrong. CMD may be `ncclwatch replay ...`.\n\n"
    "Exit status: 0 found, 1 not found, and why; 2 usage, 3 a file could not be read.";

struct BisectRequest {
  std::string size, items, hosts, timeout, state, flaky;
  std::vector<std::string> env, command;
  double confidence = 0.95;
  bool json = false;
};

// A file of items for one run; no path: it could not be written.
class ItemsFile {
 public:
  explicit ItemsFile(const std::vector<std::string>& items) {
    if (folder_.path().empty()) return;
    path_ = folder_.path() + "/items";
    OutputFile file;
    if (!file.Open(path_).ok() || !file.Write(absl::StrJoin(items, "\n") + "\n").ok() || !file.Close().ok())
      path_.clear();
  }
  const std::string& path() const { return path_; }

 private:
  const ScratchFolder folder_{"items"};
  std::string path_;
};

class Bisection {
 public:
  Bisection(const BisectRequest& request, std::optional<double> limit_s, double flaky)
      : request_(request), limit_s_(limit_s), noises_(bisect::FirstNoiseBeliefs(flaky)) {}
  absl::Status Open(const std::string& question) { return state_.Open(request_.state, question); }

  bisect::Border FindBorder(std::int64_t low, std::int64_t high) {
    return bisect::FindBorder(
        low, high, request_.confidence,
        [&](std::int64_t n) {
          bisect::Trial trial{.command = {}, .set = {}, .unset = {}, .limit_s = limit_s_};
          for (const std::string& word : request_.command)
            trial.command.push_back(bisect::Replaced(word, "{n}", fmt::format("{}", n)));
          return Ask(trial, fmt::format("n = {}", n));
        },
        noises_);
  }

  bisect::Culprits FindCulprits(const bisect::Question& question) {
    return bisect::FindCulprits(
        question.items.size(), request_.confidence, [&](const Items& items) { return AskWith(question, items); },
        noises_);
  }

  const std::vector<Observation>& observations() const { return state_.all(); }

 private:
  bisect::Outcome Ask(const bisect::Trial& trial, const std::string& text) {
    if (const Observation* const known = state_.Known(text)) return known->outcome;
    Observation seen = Run(trial, text);
    if (!request_.json) Say(seen);
    state_.Add(seen);
    return seen.outcome;
  }

  bisect::Outcome AskWith(const bisect::Question& question, const Items& items) {
    const std::vector<std::string> names = NamesOf(question, items);
    const ItemsFile file(names);
    if (file.path().empty()) {
      Note("a list of items cannot be written to TMPDIR: this run is left out");
      return bisect::Outcome::kUnknown;
    }
    bisect::Trial trial = TrialWith(question, items, request_.command, file.path());
    trial.limit_s = limit_s_;
    return Ask(trial, fmt::format("{} of {}: {}", items.size(), question.items.size(), absl::StrJoin(names, " ")));
  }

  static void Say(const Observation& seen) {
    const char* const word = seen.outcome == bisect::Outcome::kGood  ? "good"
                             : seen.outcome == bisect::Outcome::kBad ? "bad"
                                                                     : "cannot tell";
    constexpr std::size_t kMost = 100;
    const std::string question = seen.question.size() > kMost ? seen.question.substr(0, kMost) + "..." : seen.question;
    std::string how = seen.timed_out ? "the time limit" : fmt::format("status {}", seen.status);
    if (!seen.diagnosis.empty()) how += "; " + seen.diagnosis;
    Note("{:<5} {} ({}, {})", word, Printable(question), DurationText(absl::Seconds(seen.seconds)), Printable(how));
  }

  const BisectRequest& request_;
  const std::optional<double> limit_s_;
  const bisect::NoiseBeliefs noises_;
  bisect::State state_;
};

std::optional<std::pair<std::int64_t, std::int64_t>> SizesOf(const std::string& text) {
  const std::size_t dots = text.find("..");
  std::int64_t low = 0, high = 0;
  if (dots == std::string::npos || !absl::SimpleAtoi(text.substr(0, dots), &low) ||
      !absl::SimpleAtoi(text.substr(dots + 2), &high))
    return std::nullopt;
  constexpr std::int64_t kMost = 1 << 24;
  return low < high && high - low < kMost ? std::optional(std::pair(low, high)) : std::nullopt;
}

bool IsInPath(const std::string& program) {
  if (program.find('/') != std::string::npos || program.find('{') != std::string::npos)
    return program.find('{') != std::string::npos || access(program.c_str(), X_OK) == 0;
  const char* const path = std::getenv("PATH");
  const std::vector<std::string> folders = absl::StrSplit(path ? path : "/usr/bin:/bin", ':');
  return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
    return access(((folder.empty() ? "." : folder) + "/" + program).c_str(), X_OK) == 0;
  });
}

void Declare(Options* options, BisectRequest* request) {
  auto* const size = options
                         ->add_option("--size", request->size,
                                      "sizes from LO, which is good, to HI, which is bad, or the other way round")
                         ->type_name("LO..HI");
  auto* const items =
      options->add_option("--items", request->items, "a file of items, one a line")->type_name("FILE")->excludes(size);
  auto* const hosts = options->add_option("--hosts", request->hosts, "a file of hosts, one a line")
                          ->type_name("FILE")
                          ->excludes(size)
                          ->excludes(items);
  options->add_option("--env", request->env, "two files of NAME=VALUE lines")
      ->type_name("GOOD BAD")
      ->expected(2)
      ->excludes(size)
      ->excludes(items)
      ->excludes(hosts);
  options->add_option("--confidence", request->confidence, "how sure the result has to be (0.95)")
      ->type_name("SHARE")
      ->check(CLI::Range(0.5, 0.9999));
  options->add_option("--timeout", request->timeout, "a run that takes longer is bad: 3s, 2m, seconds")
      ->type_name("TIME");
  options->add_option("--flaky", request->flaky, "so many runs are wrong: 20%")->type_name("SHARE");
  options->add_option("--state", request->state, "keep what was seen in this file, and go on from there")
      ->type_name("FILE");
  options->add_flag("--json", request->json, "print JSON");
}

}  // namespace

int Bisect(const Command& self, const Arguments& arguments) {
  Options options(self, kBisectHelp);
  BisectRequest request;
  Declare(&options, &request);
  Arguments words = arguments;
  request.command = TakeCommand(&words);
  if (const auto status = options.Read(words)) return *status;
  if (request.command.empty()) return UsageError(self, "which command? ncclwatch bisect --size 2..64 -- CMD {n}");
  if (request.size.empty() && request.items.empty() && request.hosts.empty() && request.env.empty())
    return UsageError(self, "what shall be tried? --size, --items, --hosts or --env");
  const auto limit = request.timeout.empty() ? std::nullopt : ParseDuration(request.timeout);
  if (!request.timeout.empty() && !limit)
    return UsageError(self, "--timeout takes a time like 30s, not '" + request.timeout + "'");
  const std::optional<double> flaky = request.flaky.empty() ? 0.0 : ParseShare(request.flaky);
  if (!flaky || *flaky >= 0.5)
    return UsageError(self, "--flaky takes a share below a half like 20%, not '" + request.flaky + "'");
  Bisection bisection(request, limit ? std::optional(absl::ToDoubleSeconds(*limit)) : std::nullopt, *flaky);
  if (!IsInPath(request.command.front()))
    return UsageError(self, "there is no program '" + request.command.front() + "': a run of it would count as bad");
  const std::string command = absl::StrJoin(request.command, " ");
  if (!request.size.empty()) {
    const auto sizes = SizesOf(request.size);
    if (!sizes) return UsageError(self, "--size takes LO..HI, not '" + request.size + "'");
    if (command.find("{n}") == std::string::npos) return UsageError(self, "the command has no {n}");
    if (const absl::Status status = bisection.Open(request.size + " " + command); !status.ok())
      return Unreadable(self, status);
    const bisect::Border border = bisection.FindBorder(sizes->first, sizes->second);
    return TellBorder(request.json, border, bisection.observations());
  }
  const auto question = !request.env.empty()     ? bisect::QuestionOfVariables(request.env[0], request.env[1])
                        : !request.items.empty() ? bisect::QuestionOfItems(request.items, "{items}")
                                                 : bisect::QuestionOfItems(request.hosts, "{hosts}");
  if (!question.ok()) return Unreadable(self, question.status());
  if (question->items.empty())
    return UsageError(self, request.env.empty() ? "there is no item in the file" : "the two files do not differ");
  if (const absl::Status status = bisection.Open(absl::StrJoin(question->items, " ") + " " + command); !status.ok())
    return Unreadable(self, status);
  const bisect::Culprits culprits = bisection.FindCulprits(*question);
  return TellCulprits(request.json, *question, culprits, bisection.observations());
}

}  // namespace ncclwatch::analyzer
