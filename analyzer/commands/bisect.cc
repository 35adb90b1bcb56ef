// `ncclwatch bisect`: from which size on, or with which of several items, does a command fail?
#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "analyzer/bisect/border.h"
#include "analyzer/bisect/culprits.h"
#include "analyzer/bisect/state.h"
#include "analyzer/commands/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "watchdog/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using bisect::Items;
using bisect::Observation;
using bisect::Outcome;

constexpr char kDescription[] =
    "Find the smallest size at which a command fails, or which of several items makes it fail, with few runs.\n\n"
    "--size LO..HI tries sizes in place of {n}: ranks, bytes, layers. --items FILE and --hosts FILE try parts\n"
    "of a list, one item a line, in place of {items} or {hosts} (separate words; NCCLWATCH_ITEMS names a file\n"
    "of them): one culprit, several, or several that are needed together. --env GOOD BAD tries the variables\n"
    "in which two files of NAME=VALUE lines differ. Status 0 of the command is good, 125 cannot tell, all\n"
    "else is bad, and so is --timeout: a command that runs under ncclwatch is diagnosed before it is ended.\n"
    "Runs that contradict one another are repeated until the result is sure; --flaky says beforehand how\n"
    "often a run is wrong. CMD may be `ncclwatch replay ...`.\n\n"
    "Exit status: 0 found, 1 not found, and why; 2 usage, 3 a file could not be read.";

struct Wish {
  std::string size, items, hosts, timeout, state, flaky;
  std::vector<std::string> env, command;
  double confidence = 0.95;
  bool json = false;
};

struct Change {  // of a variable, from the good file to the bad one
  std::string name;
  std::optional<std::string> value;  // none: it is not there
};

// What is asked: a command, and the items that it is run with.
struct Question {
  std::string text;
  std::string placeholder;                  // "{items}", "{hosts}"; empty for variables
  std::vector<std::string> items;           // as they are told
  std::map<std::string, std::string> base;  // variables of the good file
  std::vector<Change> changes;
};

absl::StatusOr<std::vector<std::string>> LinesOf(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(path + ": cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  return lines;
}

absl::StatusOr<std::map<std::string, std::string>> VariablesOf(const std::string& path) {
  const auto lines = LinesOf(path);
  if (!lines.ok()) return lines.status();
  std::map<std::string, std::string> variables;
  for (std::string line : *lines) {
    if (line.starts_with("export ")) line.erase(0, 7);
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0)
      return absl::InvalidArgumentError(path + ": not NAME=VALUE: " + line);
    variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

absl::StatusOr<Question> QuestionOf(const Wish& wish) {
  Question question;
  if (!wish.env.empty()) {
    const auto good = VariablesOf(wish.env[0]), bad = VariablesOf(wish.env[1]);
    for (const auto* const one : {&good, &bad})
      if (!one->ok()) return one->status();
    question.base = *good;
    for (const auto& [name, value] : *bad)
      if (const auto before = good->find(name); before == good->end() || before->second != value)
        question.changes.push_back({name, value});
    for (const auto& [name, value] : *good)
      if (!bad->contains(name)) question.changes.push_back({name, std::nullopt});
    for (const Change& change : question.changes)
      question.items.push_back(change.value ? change.name + "=" + *change.value : "no " + change.name);
    return question;
  }
  question.placeholder = wish.items.empty() ? "{hosts}" : "{items}";
  const auto lines = LinesOf(wish.items.empty() ? wish.hosts : wish.items);
  if (!lines.ok()) return lines.status();
  question.items = *lines;
  return question;
}

// A file of items for one run.
class ItemsFile {
 public:
  explicit ItemsFile(const std::vector<std::string>& items) {
    const int fd = mkostemp(path_, O_CLOEXEC);
    const std::string text = absl::StrJoin(items, "\n") + (items.empty() ? "" : "\n");
    if (fd >= 0 && write(fd, text.data(), text.size()) >= 0) close(fd);
  }
  ~ItemsFile() { unlink(path_); }
  ItemsFile(const ItemsFile&) = delete;
  ItemsFile& operator=(const ItemsFile&) = delete;
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/ncclwatch-items-XXXXXX";
};

std::string Replaced(std::string word, const std::string& what, const std::string& by) {
  for (std::size_t at = word.find(what); at != std::string::npos; at = word.find(what, at + by.size()))
    word.replace(at, what.size(), by);
  return word;
}

class Bisection {
 public:
  Bisection(const Wish& wish, std::optional<double> limit_s, double flaky)
      : wish_(wish), limit_s_(limit_s), noises_(bisect::FirstNoiseBeliefs(flaky)) {}
  absl::Status Open(const std::string& question) { return state_.Open(wish_.state, question); }

  bisect::Border FindBorder(std::int64_t low, std::int64_t high) {
    return bisect::FindBorder(
        low, high, wish_.confidence,
        [&](std::int64_t n) {
          bisect::Trial trial{.command = {}, .set = {}, .unset = {}, .limit_s = limit_s_};
          for (const std::string& word : wish_.command)
            trial.command.push_back(Replaced(word, "{n}", fmt::format("{}", n)));
          return Ask(trial, fmt::format("n = {}", n));
        },
        noises_);
  }

  bisect::Culprits FindCulprits(const Question& question) {
    return bisect::FindCulprits(
        question.items.size(), wish_.confidence, [&](const Items& items) { return AskWith(question, items); }, noises_);
  }

  const std::vector<Observation>& observations() const { return state_.all(); }

 private:
  Outcome Ask(const bisect::Trial& trial, const std::string& text) {
    if (const Observation* const known = state_.Known(text)) return known->outcome;
    Observation seen = Run(trial, text);
    if (!wish_.json) Say(seen);
    state_.Add(seen);
    return seen.outcome;
  }

  Outcome AskWith(const Question& question, const Items& items) {
    std::vector<std::string> names;
    for (const std::size_t item : items) names.push_back(question.items[item]);
    const ItemsFile file(names);
    bisect::Trial trial{.command = {}, .set = question.base, .unset = {}, .limit_s = limit_s_};
    trial.set["NCCLWATCH_ITEMS"] = file.path();
    for (const std::size_t item : items) {
      if (question.changes.empty()) break;
      const Change& change = question.changes[item];
      if (change.value)
        trial.set[change.name] = *change.value;
      else
        trial.set.erase(change.name), trial.unset.push_back(change.name);
    }
    for (const std::string& word : wish_.command) {
      if (word == question.placeholder)
        trial.command.insert(trial.command.end(), names.begin(), names.end());
      else
        trial.command.push_back(
            question.placeholder.empty() ? word : Replaced(word, question.placeholder, absl::StrJoin(names, ",")));
    }
    return Ask(trial, fmt::format("{} of {}: {}", items.size(), question.items.size(), absl::StrJoin(names, " ")));
  }

  static void Say(const Observation& seen) {
    const char* const word = seen.outcome == Outcome::kGood  ? "good"
                             : seen.outcome == Outcome::kBad ? "bad"
                                                             : "cannot tell";
    constexpr std::size_t kMost = 100;
    const std::string question = seen.question.size() > kMost ? seen.question.substr(0, kMost) + "..." : seen.question;
    std::string how = seen.timed_out ? "the time limit" : fmt::format("status {}", seen.status);
    if (!seen.diagnosis.empty()) how += "; " + seen.diagnosis;
    Note("{:<5} {} ({}, {})", word, Printable(question), DurationText(absl::Seconds(seen.seconds)), Printable(how));
  }

  const Wish& wish_;
  const std::optional<double> limit_s_;
  const bisect::NoiseBeliefs noises_;
  bisect::State state_;
};

const Observation* LastOf(const std::vector<Observation>& all, std::int64_t n, Outcome outcome) {
  const std::string question = fmt::format("n = {}", n);
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Observation& one) {
    return one.question == question && one.outcome == outcome;
  });
  return found == all.rend() ? nullptr : &*found;
}

// What changes at the border, as far as the runs on both sides tell.
std::vector<std::string> AtBorder(const bisect::Border& border, const std::vector<Observation>& all) {
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

int TellBorder(const Wish& wish, const bisect::Border& border, const std::vector<Observation>& all) {
  const bool found = border.why_not.empty();
  const std::vector<std::string> lines = found ? AtBorder(border, all) : std::vector<std::string>();
  if (wish.json) {
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

int TellCulprits(const Wish& wish, const Question& question, const bisect::Culprits& culprits,
                 const std::vector<Observation>& all) {
  const bool found = !culprits.groups.empty();
  std::vector<std::vector<std::string>> groups;
  for (const Items& group : culprits.groups) {
    std::vector<std::string>& names = groups.emplace_back();
    for (const std::size_t item : group) names.push_back(question.items[item]);
  }
  if (wish.json) {
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

std::optional<std::pair<std::int64_t, std::int64_t>> SizesOf(const std::string& text) {
  const std::size_t dots = text.find("..");
  std::int64_t low = 0, high = 0;
  if (dots == std::string::npos || !absl::SimpleAtoi(text.substr(0, dots), &low) ||
      !absl::SimpleAtoi(text.substr(dots + 2), &high))
    return std::nullopt;
  constexpr std::int64_t kMost = 1 << 24;
  return low < high && high - low < kMost ? std::optional(std::pair(low, high)) : std::nullopt;
}

std::optional<double> ShareOf(std::string text) {
  const bool percent = text.ends_with('%');
  if (percent) text.pop_back();
  double value = 0;
  if (!absl::SimpleAtod(text, &value)) return std::nullopt;
  value /= percent ? 100 : 1;
  return value >= 0 && value < 0.5 ? std::optional(value) : std::nullopt;
}

void Declare(Options* options, Wish* wish) {
  auto* const size = options
                         ->add_option("--size", wish->size,
                                      "sizes from LO, which is good, to HI, which is bad, or the other way round")
                         ->type_name("LO..HI");
  auto* const items =
      options->add_option("--items", wish->items, "a file of items, one a line")->type_name("FILE")->excludes(size);
  auto* const hosts = options->add_option("--hosts", wish->hosts, "a file of hosts, one a line")
                          ->type_name("FILE")
                          ->excludes(size)
                          ->excludes(items);
  options->add_option("--env", wish->env, "two files of NAME=VALUE lines")
      ->type_name("GOOD BAD")
      ->expected(2)
      ->excludes(size)
      ->excludes(items)
      ->excludes(hosts);
  options->add_option("--confidence", wish->confidence, "how sure the result has to be (0.95)")
      ->type_name("SHARE")
      ->check(CLI::Range(0.5, 0.9999));
  options->add_option("--timeout", wish->timeout, "a run that takes longer is bad: 3s, 2m, seconds")->type_name("TIME");
  options->add_option("--flaky", wish->flaky, "so many runs are wrong: 20%")->type_name("SHARE");
  options->add_option("--state", wish->state, "keep what was seen in this file, and go on from there")
      ->type_name("FILE");
  options->add_flag("--json", wish->json, "print JSON");
}

}  // namespace

int Bisect(const Command& self, const Arguments& arguments) {
  Options options(self, kDescription);
  Wish wish;
  Declare(&options, &wish);
  Arguments words = arguments;
  wish.command = TakeCommand(&words);
  if (const auto status = options.Read(words)) return *status;
  if (wish.command.empty()) return UsageError(self, "which command? ncclwatch bisect --size 2..64 -- CMD {n}");
  if (wish.size.empty() && wish.items.empty() && wish.hosts.empty() && wish.env.empty())
    return UsageError(self, "what shall be tried? --size, --items, --hosts or --env");
  const auto limit = wish.timeout.empty() ? std::nullopt : ParseDuration(wish.timeout);
  if (!wish.timeout.empty() && !limit)
    return UsageError(self, "--timeout takes a time like 30s, not '" + wish.timeout + "'");
  const auto flaky = wish.flaky.empty() ? 0.0 : ShareOf(wish.flaky);
  if (!flaky) return UsageError(self, "--flaky takes a share below a half like 20%, not '" + wish.flaky + "'");
  Bisection bisection(wish, limit ? std::optional(absl::ToDoubleSeconds(*limit)) : std::nullopt, *flaky);
  const std::string command = absl::StrJoin(wish.command, " ");
  if (!wish.size.empty()) {
    const auto sizes = SizesOf(wish.size);
    if (!sizes) return UsageError(self, "--size takes LO..HI, not '" + wish.size + "'");
    if (command.find("{n}") == std::string::npos) return UsageError(self, "the command has no {n}");
    if (const absl::Status status = bisection.Open(wish.size + " " + command); !status.ok())
      return Unreadable(self, status);
    const bisect::Border border = bisection.FindBorder(sizes->first, sizes->second);
    return TellBorder(wish, border, bisection.observations());
  }
  const auto question = QuestionOf(wish);
  if (!question.ok()) return Unreadable(self, question.status());
  if (question->items.empty())
    return UsageError(self, wish.env.empty() ? "there is no item in the file" : "the two files do not differ");
  if (const absl::Status status = bisection.Open(absl::StrJoin(question->items, " ") + " " + command); !status.ok())
    return Unreadable(self, status);
  const bisect::Culprits culprits = bisection.FindCulprits(*question);
  return TellCulprits(wish, *question, culprits, bisection.observations());
}

}  // namespace ncclwatch::analyzer
