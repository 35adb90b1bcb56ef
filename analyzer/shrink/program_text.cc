#include "analyzer/shrink/program_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace ncclwatch::analyzer {

std::string LeavingText(const Fates& fates, const reader::BoxImage& box) {
  const auto end = fates.EndOf(box);
  if (!end) return {};
  if (end->stopped) return "raise(SIGSTOP);";
  return end->signal > 0 ? fmt::format("signal({0}, SIG_DFL), raise({0});", end->signal)
                         : fmt::format("_exit({});", end->status);
}

absl::Status CannotBeWritten(const RecordedProgram& program, int rank, const reader::Call& call) {
  return absl::UnimplementedError(fmt::format("the fault needs {} (rank {}, seq {}), which cannot be written yet",
                                              functions::FullName(call.function), program.process(rank)->rank(),
                                              call.slot));
}

}  // namespace ncclwatch::analyzer
