// A sub-command of `ncclwatch`, and what all of them share: exit statuses and the way arguments are read.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ncclwatch::analyzer {

enum ExitStatus : int {
  kDone = 0,     // healthy, or done
  kProblem = 1,  // a problem was found
  kUsage = 2,
  kUnreadable = 3,  // an input could not be read
};

using Arguments = std::vector<std::string>;  // what follows the sub-command's name

struct Command {
  const char* name;
  const char* synopsis;  // what follows the name, as in "[FILTERS] [DIR|FILE...]"
  const char* summary;   // one line
  int (*function)(const Arguments& arguments);
};

std::span<const Command> Commands();
const Command* FindCommand(const std::string& name);

int Run(const Arguments& arguments);
int Diagnose(const Arguments& arguments);
int Trace(const Arguments& arguments);
int Ls(const Arguments& arguments);
int Clean(const Arguments& arguments);
int Stacks(const Arguments& arguments);
int Dump(const Arguments& arguments);
int Export(const Arguments& arguments);
int Off(const Arguments& arguments);
int On(const Arguments& arguments);

}  // namespace ncclwatch::analyzer
