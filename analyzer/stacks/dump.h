// The stacks and states of many processes within a time limit, whatever state they are in.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::stacks {

struct Target {
  int pid = 0;
  int matters = 0;               // the thread that matters: tid; 0: the main one
  std::int32_t rank = -1;        // -1: what its launcher's environment tells
  std::uint64_t start_time = 0;  // which process that pid was (/proc/PID/stat); 0: whichever has it
};

struct DumpOptions {
  std::chrono::milliseconds limit{2500};       // for all
  std::chrono::milliseconds each_limit{1000};  // for one process: one that is stuck must not cost the others
  bool variables = false;                      // of Python frames
  bool stop = true;                            // running threads may be stopped for microseconds
};

struct Dump {
  std::vector<ProcessStacks> processes;  // one each, in order; those that could not be read say why in `trouble`
  // A thread of ours hangs in the kernel: leave by _exit().
  bool stuck = false;
};

Dump ReadAll(const std::vector<Target>& targets, const DumpOptions& options);

}  // namespace ncclwatch::stacks
