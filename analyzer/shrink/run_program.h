// A written program, built and run on this machine: does it stop where the model says, and is the verdict the same?
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analyzer/shrink/shrink.h"

namespace ncclwatch::analyzer {

struct ProgramRun {
  std::string not_done;  // why; empty: it was built and run
  std::string on;        // "softgpu", "Open MPI", "MPICH"
  // Alone. By rank: the call in which it was stopped.
  int status = 0;
  std::map<int, std::string> stopped;
  std::vector<std::string> elsewhere;  // what differs from the model, a sentence each
  // Under ncclwatch: its verdict; culprits are ranks of the program. `kind` is empty if there was none.
  std::string kind, certainty;
  std::vector<int> culprits;
  bool same_verdict = false;  // kind and culprits are those of the model

  bool holds() const { return not_done.empty() && elsewhere.empty() && same_verdict; }
};

// Of NCCL on softgpu, of MPI on the library that was recorded. Takes ten seconds and more.
ProgramRun RunProgram(const Shrunk& shrunk, const std::string& directory);

}  // namespace ncclwatch::analyzer
