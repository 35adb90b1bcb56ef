// What NCCL Inspector recorded, as the rules on slowness take it: who the ranks are, and how long the calls of each
// step took them.
//
// Nothing in it says how the calls of several communicators follow one another, and few lines say when a call was made:
// lines are written many at a time. A step is what repeats itself in the communicator that takes most of the time; the
// calls of the others are put to the steps by the time of their lines, spread over what was written at once.
#pragma once

#include <string>
#include <vector>

#include "analyzer/import/inspector/read.h"
#include "core/reader/box.h"
#include "core/steps/step_table.h"

namespace ncclwatch::analyzer::import::inspector {

struct Job {
  std::vector<reader::BoxImage> boxes;  // one for each rank, without calls
  diagnosis::StepTable table;           // empty: steps cannot be told
  bool timed = false;                   // else its steps last as long as their calls do
  std::vector<std::string> notes;       // how much was seen, and what cannot be told
};
Job MakeJob(const Recording& recording);

}  // namespace ncclwatch::analyzer::import::inspector
