// Starts the ranks of a replay under watch, and says what became of them.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyzer/player/measured.h"

namespace ncclwatch::analyzer {

struct Play {
  std::string on;                 // nccl, mpi
  std::vector<std::string> rank;  // the words of one rank's command
  std::string launcher;           // with {n} for the ranks; empty: of this command's choice
  std::string record;             // where the replay's own recording goes
  std::string directory;          // where the ranks meet
  int ranks = 0;
  std::int64_t recorded_ns = 0;
};

// NOLINTNEXTLINE(bugprone-exception-escape): JSON is moved without one
struct Played {
  int status = 0;         // of the job
  bool all_done = false;  // every rank has played its list
  double seconds = 0;
  Measured measured;
  nlohmann::ordered_json diagnosis;
};

absl::StatusOr<Played> StartPlay(const Play& play);

}  // namespace ncclwatch::analyzer
