// Command-line options shared by all examples, so that one program shows its fault on any rank, at any step.
#pragma once

#include <map>
#include <string>

namespace examples {

// Every option is `--name value`. Common to all: --rank (who goes wrong), --step (when), --steps (length of the run),
// --step-ms (what a step's computation takes), --seed (jitter of that), --count (elements of a gradient).
class Options {
 public:
  // Defaults given by the program; an unknown name or a value that is no whole number ends the process with status 2.
  Options(int argc, char** argv, std::map<std::string, long> defaults);

  long operator[](const std::string& name) const { return values_.at(name); }
  // The planted rank and step.
  bool Here(int rank, long step) const { return rank == values_.at("rank") && step == values_.at("step"); }

 private:
  std::map<std::string, long> values_;
};

}  // namespace examples
