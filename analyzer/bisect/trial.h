// Runs the user's command once, within a time limit, and keeps what it left to be told from: memory, output, diagnosis.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "analyzer/bisect/noise.h"

namespace ncclwatch::bisect {

struct Trial {
  std::vector<std::string> command;
  std::map<std::string, std::string> set;  // variables
  std::vector<std::string> unset;
  std::optional<double> limit_s;
};

struct Observation {
  std::string question;  // "n = 24", "3 of 16 items: a b c"
  Outcome outcome = Outcome::kUnknown;
  int status = 0;  // 128 + n for a signal
  bool timed_out = false;
  double seconds = 0;
  std::uint64_t memory_peak = 0;  // bytes, of the process that had the most
  std::string cause;              // the first cause in its output, with its line; empty: none
  std::string diagnosis;          // of a job that was watched, before it was ended; empty: none
};

// SIGINT or SIGTERM has come; the command that ran has been ended.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("ended by a signal, and so is what it ran") {}
};

// Throws Interrupted. As `git bisect run` reads a status: 0 good, 125 cannot tell, all else bad. At the limit the
// command is diagnosed where it runs under ncclwatch, and ended with all its descendants.
Observation Run(const Trial& trial, std::string question);

}  // namespace ncclwatch::bisect
