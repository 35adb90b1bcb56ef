// Where the ranks of a job stand, seen several times from outside: who moves, who waits, and in which call.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/attach/find_jobs.h"
#include "analyzer/attach/logs.h"
#include "analyzer/attach/place.h"
#include "analyzer/attach/step.h"
#include "analyzer/stacks/base/stack.h"

namespace ncclwatch::analyzer::attach {

// What one rank was seen in.
struct Standing {
  int rank = -1, pid = 0;
  std::uint64_t start_time = 0;
  std::string host;
  char state = '?';           // of the main thread, as /proc has it
  bool moving = false;        // it, or a variable of it, has changed in the last seconds
  double busy = 0;            // processor time of all its threads, of the time between the looks
  std::string in;             // the call that it waits in: "MPI_Allreduce", "all_reduce"; empty: none
  bool to_one = false;        // ... with one peer
  bool of_device = false;     // ... of its own GPU
  std::string site;           // the native frame that made it: "main (ring)"
  std::string python_site;    // "train (train.py:24)"; empty: no Python
  std::vector<Spot> path;     // to it
  std::string group;          // name of the process group or communicator of that call; empty: not known
  bool group_known = true;    // false: it is a call of MPI on an unknown communicator
  int peer = -1;              // the rank that it waits for; -1: not known
  std::string host_function;  // the program's, that its GPU's stream waits for: "Log (train.cc:17)"; empty: none
  std::string rendezvous;     // of a rank that is joining the others
  Step step;
  std::vector<std::string> where, holds;  // as in stacks: frames, and what holds it up
  std::string trouble;                    // why it could not be read; empty if it could
};

struct RollCall {
  std::vector<Standing> ranks;  // by rank
  double seconds = 0;           // from the first look to the last
  int looks = 0;
  Logs logs;
  std::vector<stacks::ProcessStacks> last;  // of the last look
};

// Looks for about `limit`, at least twice. Writes nothing into the processes, and stops no thread that sleeps.
RollCall CallRoll(const RunningJob& job, std::chrono::milliseconds limit);

}  // namespace ncclwatch::analyzer::attach
