// A sub-command of `ncclwatch`, and what all of them share.
#pragma once

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
  const char* examples;  // command lines, each with its line end
  int (*function)(const Command& self, const Arguments& arguments);
};

}  // namespace ncclwatch::analyzer
