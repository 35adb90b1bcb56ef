// Who is gone, in which order, and how sure it is that this is the fault. What dies after the first is a consequence.
#pragma once

#include <optional>
#include <vector>

#include "core/model/finding.h"
#include "core/rules/last_words.h"
#include "core/view/process_end.h"
#include "core/waits/waits.h"

namespace ncclwatch::diagnosis {

struct Death {
  int process = -1;
  const CommView* affected_comm =
      nullptr;                     // the largest communicator with others in it that it had not said goodbye to
  std::vector<const Wait*> waits;  // of the living for it
  DeathCause said;
  bool blamed = false;        // NCCL has told somebody since that a peer is not there any more
  std::int64_t ended_ns = 0;  // when it began to end: by its own words, else when it was seen gone
};

// It has left MPI_Finalize, and ends with a status: what it says of its own work, which nobody depends on any more. Its
// launcher kills what is left of the job for it.
bool IsVerdictOfItsOwn(const View& view, const Death& death);

// Deaths closer than this are not ordered by when they were seen.
inline constexpr std::int64_t kOrderableNs = 100'000'000;

// In order of time, the cause first.
std::vector<Death> Deaths(const View& view, const WaitGraph& graph);
// NCCL told it that a peer is gone: perhaps one whose end nobody here has seen.
bool BlamesSomebodyElse(const View& view, const Process& process, const DeathCause& said);
// None: no fault, or not yet to be judged.
std::optional<Certainty> CertaintyOfDeath(const View& view, const Death& death);

}  // namespace ncclwatch::diagnosis
