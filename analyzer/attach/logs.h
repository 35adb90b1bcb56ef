// What the output of a job's ranks says, found through their open files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/attach/find_jobs.h"

namespace ncclwatch::analyzer::attach {

struct Logs {
  int files = 0;
  double silent_s = 0;    // since anything was written into one of them; only if there are files
  std::string cause;      // "out_of_memory: ... (train.log:812)": as triage finds it; empty: none
  double cause_at_s = 0;  // since 1970; 0: its line has no time
};

// The files that standard output and error of the ranks, and of what has started them, go to.
Logs ReadLogs(const RunningJob& job);

// Of several nodes: the first cause in time.
Logs Joined(const Logs& a, const Logs& b);

}  // namespace ncclwatch::analyzer::attach
