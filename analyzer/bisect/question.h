// What is asked where items are tried: a list of items, or of variables that differ.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/bisect/culprits.h"
#include "analyzer/bisect/trial.h"

namespace ncclwatch::bisect {

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

// One item a line; lines that begin with # are none. `placeholder`: "{items}".
absl::StatusOr<Question> QuestionOfItems(const std::string& path, const std::string& placeholder);
// Of two files of NAME=VALUE lines: the variables in which they differ, on top of those of `good`.
absl::StatusOr<Question> QuestionOfVariables(const std::string& good, const std::string& bad);

// The command with these items alone. NCCLWATCH_ITEMS names `items_file`, which the caller writes.
Trial TrialWith(const Question& question, const Items& items, const std::vector<std::string>& command,
                const std::string& items_file);
std::vector<std::string> NamesOf(const Question& question, const Items& items);
std::string Replaced(std::string word, const std::string& what, const std::string& by);

}  // namespace ncclwatch::bisect
