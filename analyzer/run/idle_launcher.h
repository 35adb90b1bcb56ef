// A launcher of MPI that does not end although all ranks of the job have, which was ended by ncclwatch: Open MPI's
// hangs in PMIx_server_finalize at times. Others may be about to start ranks again (torchrun), and are left alone.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "analyzer/run/deaths.h"

namespace ncclwatch::analyzer {

class IdleLauncher {
 public:
  // command: the job's first word. ends: ncclwatch was asked to end the job over a fault.
  IdleLauncher(const std::string& command, bool ends);
  // Ends the launcher once it has outlived all ranks by so long; to be called again and again.
  void Look(pid_t launcher, const Deaths& deaths);

 private:
  bool applies_;
  std::optional<std::chrono::steady_clock::time_point> alone_since_;
  bool asked_ = false;
};

}  // namespace ncclwatch::analyzer
