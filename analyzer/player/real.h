// `ncclwatch replay --on nccl` and `--on mpi`.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "analyzer/replay/program.h"

namespace ncclwatch::analyzer {

struct RealRequest {
  std::string on;                  // nccl, mpi
  std::vector<std::string> paths;  // of the recording
  std::vector<std::string> words;  // options that a rank needs too
  std::string launcher, out, meet;
  int ranks = 0;  // to start; 0: as many as were recorded, unless this process is one of them
  int loops = 1;
  bool one_rank = false;  // the command that started this one prints the outcome
  bool json = false;
};

// As one of the ranks if a launcher has started this process, else all of them. Prints what came of it. False: it
// stopped, or data were wrong.
absl::StatusOr<bool> ReplayForReal(const Recording& recording, const RecordedProgram& program,
                                   const RealRequest& request);

}  // namespace ncclwatch::analyzer
