// A recorded job as the source of a program that makes the same calls with plain NCCL or MPI.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyzer/replay/fates.h"
#include "analyzer/replay/program.h"

namespace ncclwatch::analyzer {

struct ProgramRequest {
  std::string title;  // the first comment
  int ranks = 0;      // of the job, recorded or not
  // Job ranks that have made their calls and have to be there all the same, and what the verdict would be without that.
  std::map<int, std::string> stays;
  std::set<int> stopped;  // job ranks whose calls never end
};

// Unimplemented: a call that cannot be written so. Work that never ends holds up the streams that the GPUs of the
// recording never got through.
absl::StatusOr<std::string> NcclProgramText(const RecordedProgram& program, const Fates& fates,
                                            const ProgramRequest& request);
// All ranks of the job have to be recorded.
absl::StatusOr<std::string> MpiProgramText(const RecordedProgram& program, const Fates& fates,
                                           const ProgramRequest& request);

// What both share: the head of the program, in which a rank says what it does; the statements with which a rank that
// has made its calls goes on; a call.
extern const char* const kReportsText;
std::vector<std::string> EndingText(const Fates& fates, const reader::BoxImage& box, const ProgramRequest& request);
std::vector<std::string> StayingText(const std::string& otherwise);
std::string CallText(const std::string& call);
absl::Status CannotBeWritten(const RecordedProgram& program, int rank, const reader::Call& call);

}  // namespace ncclwatch::analyzer
