// Command-line options shared by all examples, so that one program shows its fault on any rank, at any step.
#pragma once

#include <map>
#include <string>

namespace examples {

// Every option is `--name value`. Common to all: --rank (who goes wrong; -1: the rank whose number stands in the file
// $EXAMPLES_CULPRIT_FILE once there is one), --step (when), --steps (length of the run), --step-ms (what a step's
// computation takes), --seed (jitter of that), --count (elements of a gradient), --children (forked helpers of each
// rank, as data loaders have them).
class Options {
 public:
  // Defaults given by the program; an unknown name or a value that is no whole number ends the process with status 2.
  Options(int argc, char** argv, std::map<std::string, long> defaults);

  long operator[](const std::string& name) const { return values_.at(name); }
  // Whether this is the planted rank and step (with --rank -1: that step or a later one). If so the instant is appended
  // to the file $EXAMPLES_FAULT_FILE, for tests that measure how long it takes until somebody notices.
  bool Here(int rank, long step) const;
  bool Here(int rank) const { return Here(rank, values_.at("step")); }

 private:
  std::map<std::string, long> values_;
};

}  // namespace examples
