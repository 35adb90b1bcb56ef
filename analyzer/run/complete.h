// A leader's verdict after the job: what its launcher did not leave it the time to write is added, by the same function
// over the same black boxes, and from stacks that were still being taken when it was ended.
#pragma once

#include <string>
#include <vector>

#include "analyzer/jobs/verdict.h"
#include "watchdog/reader/box.h"

namespace ncclwatch::analyzer {

struct Completed {
  std::string json, text;          // of the diagnosis as it is now; empty if there was nothing to add
  std::vector<std::string> added;  // what its evidence did not say before, a line each
};

// Writes which stacks belong to the verdict (reader::VerdictStacks) if the leader did not; the diagnosis itself is the
// caller's to write. A verdict that cannot be derived from these boxes alone, since its leader saw more, stays as it
// is.
Completed Complete(const std::string& directory, const Verdict& verdict, reader::RunImage run);

}  // namespace ncclwatch::analyzer
