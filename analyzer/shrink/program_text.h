// A recorded job as the source of a program that makes the same calls with plain NCCL or MPI.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "analyzer/replay/fates.h"
#include "analyzer/replay/program.h"

namespace ncclwatch::analyzer {

// `title`: the first comment. `stalls`: work that never ends holds up the streams that the recorded GPUs never got
// through; else the calls alone do that. Unimplemented: a call that cannot be written so.
absl::StatusOr<std::string> NcclProgramText(const RecordedProgram& program, const Fates& fates,
                                            const std::string& title, bool stalls);
// `world`: ranks of the job, all of which have to be recorded.
absl::StatusOr<std::string> MpiProgramText(const RecordedProgram& program, const Fates& fates, const std::string& title,
                                           int world);

// What both share: how the rank leaves, a statement; empty: it does not.
std::string LeavingText(const Fates& fates, const reader::BoxImage& box);
absl::Status CannotBeWritten(const RecordedProgram& program, int rank, const reader::Call& call);

}  // namespace ncclwatch::analyzer
