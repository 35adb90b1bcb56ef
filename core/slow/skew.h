// Ranks that run in different environments: another NCCL, MPI or driver, another value of a variable that their network
// reads. Pure.
#pragma once

#include <optional>

#include "core/model/finding.h"
#include "core/view/view.h"

namespace ncclwatch::diagnosis {

// Every rank that is there has said what it has: of a job that begins, more may come.
bool AllHaveSaid(const View& view);

// Only ranks whose boxes say what they have count. What hosts may differ in (settings/alike.h) is nobody's fault, and a
// rank that has no version of a name does not differ. Culprits are those who differ from more than half of the ranks;
// where no value has so many, nobody. Likely where NCCL or MPI differs, else suspected: it may be meant so.
std::optional<Finding> FindSkew(const View& view);

}  // namespace ncclwatch::diagnosis
