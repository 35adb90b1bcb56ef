#include "analyzer/bisect/question.h"

#include <absl/strings/str_join.h>

#include <utility>

#include "analyzer/files/input_file.h"

namespace ncclwatch::bisect {
namespace {

absl::StatusOr<std::vector<std::string>> LinesOf(const std::string& path) {
  analyzer::InputFile file(path);
  if (!file.status().ok()) return file.status();
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

}  // namespace

absl::StatusOr<Question> QuestionOfItems(const std::string& path, const std::string& placeholder) {
  const auto lines = LinesOf(path);
  if (!lines.ok()) return lines.status();
  Question question;
  question.placeholder = placeholder;
  question.items = *lines;
  return question;
}

absl::StatusOr<Question> QuestionOfVariables(const std::string& good_path, const std::string& bad_path) {
  const auto good = VariablesOf(good_path), bad = VariablesOf(bad_path);
  for (const auto* const one : {&good, &bad})
    if (!one->ok()) return one->status();
  Question question;
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

std::vector<std::string> NamesOf(const Question& question, const Items& items) {
  std::vector<std::string> names;
  for (const std::size_t item : items) names.push_back(question.items[item]);
  return names;
}

std::string Replaced(std::string word, const std::string& what, const std::string& by) {
  for (std::size_t at = word.find(what); at != std::string::npos; at = word.find(what, at + by.size()))
    word.replace(at, what.size(), by);
  return word;
}

Trial TrialWith(const Question& question, const Items& items, const std::vector<std::string>& command,
                const std::string& items_file) {
  const std::vector<std::string> names = NamesOf(question, items);
  Trial trial{.command = {}, .set = question.base, .unset = {}, .limit_s = std::nullopt};
  trial.set["NCCLWATCH_ITEMS"] = items_file;
  for (const std::size_t item : items) {
    if (question.changes.empty()) break;
    const Change& change = question.changes[item];
    if (change.value)
      trial.set[change.name] = *change.value;
    else
      trial.set.erase(change.name), trial.unset.push_back(change.name);
  }
  for (const std::string& word : command) {
    // `sh -c 'train {items}'` takes words, `-w{hosts}` a list.
    const char* const between = word.find(' ') != std::string::npos ? " " : ",";
    if (word == question.placeholder)
      trial.command.insert(trial.command.end(), names.begin(), names.end());
    else
      trial.command.push_back(
          question.placeholder.empty() ? word : Replaced(word, question.placeholder, absl::StrJoin(names, between)));
  }
  return trial;
}

}  // namespace ncclwatch::bisect
