// Saving evidence of a fault: into the run directory and, with NCCLWATCH_OUT, to a durable place.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ncclwatch/format/black_box.h"
#include "watchdog/descriptors/directory.h"

namespace ncclwatch::act {

struct Suspect {
  std::int32_t pid = 0;
  std::int32_t rank = -1;
  std::uint64_t start_time = 0;  // which process that pid was (/proc/PID/stat)
};

struct Dump {
  descriptors::Directory directory;
  bool verdict = true;                  // there is a diagnosis to be copied
  std::string out;                      // the directory in NCCLWATCH_OUT for this job and attempt, empty: none
  std::vector<Suspect> suspects;        // live processes of this node to look at
  std::string redact;                   // further names of secrets in command lines
  std::vector<std::string> boxes;       // of other processes: names in the directory
  const format::Header* own = nullptr;  // copied from memory: its file must not be opened here
  std::string own_name;                 // file name of that copy
  std::function<void(const std::string&)> complain;  // one line, at most once
};

// Runs at once, in this thread: evidence/ for the suspects, then copies, small things first: the diagnosis, evidence/,
// stacks/, the boxes. Goes on after an error.
void Save(const Dump& dump);

}  // namespace ncclwatch::act
