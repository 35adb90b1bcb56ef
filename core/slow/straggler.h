// Who holds the steps of a job up. Pure, on numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/steps/step_table.h"

namespace ncclwatch::diagnosis {

struct Straggler {
  std::vector<std::size_t> rows;  // of the table: who is late
  bool now_and_then = false;      // else in nearly every step
  bool by_messages = false;       // neighbours' messages tell it: nobody else spends so much time outside of MPI
  bool by_kernels = false;        // NCCL's kernels tell it, not the calls: the host may be in time, and the GPU late
  double share = 0;               // of the time that is lost: the others were all there
  double certainty = 0;           // standard errors between it and no lateness; of now and then: -log10 of chance
  std::size_t onset = 0;          // first step in which it was late, index into the table
  bool since_before = false;      // ... which may have been earlier
  std::size_t from = 0;           // steps that were looked at begin here
  std::size_t late_steps = 0;     // of those, the steps in which one of them was late; 0: not known of single steps
  std::int64_t step_ns = 0;       // of the steps looked at, the median
  std::int64_t lost_ns = 0;       // ... and of what was lost in one
  std::int64_t late_ns = 0;       // what was lost in one of late_steps, in the middle
};

// At most four, those that began first in front. Each is told as if those before it were not there. A rank whose
// lateness is below `least` of the step is nobody's matter. Silent too about fewer than 20 steps, about what may be
// chance, where 200 us of a step are not lost, and where half of the ranks or more are late.
std::vector<Straggler> FindStragglers(const StepTable& table, double least);

// The same where ranks wait for their neighbours' messages alone, as in halo exchanges. Not for pipelines: a stage may
// have more to do than another.
std::vector<Straggler> FindStragglersByOwnTime(const StepTable& table, double least);

}  // namespace ncclwatch::diagnosis
