// How far the model with fitted costs is from the recording: half of the calls give the costs, the others are compared.
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "analyzer/replay/fit.h"
#include "analyzer/replay/program.h"
#include "simulation/world.h"

namespace ncclwatch::analyzer {
namespace {

using functions::Family;
using TimesOfOps = std::map<functions::Function, std::pair<std::int64_t, std::int64_t>>;  // recorded, simulated

bool Communicates(const reader::Call& call) {
  const functions::FunctionInfo* const info = functions::Find(call.function);
  if (!info || !functions::IsMpi(call.function) || call.returned_ns == 0) return false;
  switch (info->family) {
    case Family::kCollective:
    case Family::kRooted:
    case Family::kPointToPoint:
    case Family::kCompletion: return (call.flags & format::kPolls) == 0;
    default: return false;
  }
}

absl::Status ComparePart(const Recording& recording, int part, TimesOfOps* times) {
  const auto fit = FitCosts(recording, 1 - part);
  if (!fit.ok()) return fit.status();
  const auto program = RecordedProgram::Make(recording, {}, fit->costs);
  if (!program.ok()) return program.status();
  simulation::World world(**program);
  world.Run();
  for (int rank = 0; rank < world.ranks(); ++rank) {
    if (!(*program)->process(rank)) continue;
    const std::vector<simulation::Record>& records = world.rank(rank).records;
    PieceReader pieces(*(*program)->process(rank));
    std::vector<reader::Failure> ignored;  // the program has said them
    std::size_t record = 0;
    while (record < records.size() && pieces.Begin(&ignored))
      while (const reader::Call* const call = record < records.size() ? pieces.NextCall(&ignored) : nullptr) {
        const simulation::Record& simulated = records[record++];
        if (!Communicates(*call) || PartOf(call->slot) != part || simulated.returned == simulation::kNever) continue;
        auto& [recorded_ns, simulated_ns] = (*times)[call->function];
        recorded_ns += call->returned_ns - call->entered_ns;
        simulated_ns += simulated.returned - simulated.entered;
      }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FitError> CrossValidate(const Recording& recording) {
  TimesOfOps times;
  for (const int part : {0, 1}) {
    const absl::Status compared = ComparePart(recording, part, &times);
    if (!compared.ok() && !absl::IsNotFound(compared)) return compared;  // too few calls for two parts
  }
  FitError error;
  for (const auto& [function, of] : times) {
    const auto& [recorded_ns, simulated_ns] = of;
    error.recorded_ns += recorded_ns;
    error.simulated_ns += simulated_ns;
    if (std::llabs(simulated_ns - recorded_ns) <= std::llabs(error.worst_simulated_ns - error.worst_recorded_ns))
      continue;
    error.worst_op = functions::OpName(function);
    error.worst_recorded_ns = recorded_ns;
    error.worst_simulated_ns = simulated_ns;
  }
  return error;
}

std::string WhyBad(const Fit& fit, const FitError& error) {
  constexpr double kManyLate = 0.05;
  if (!error.known()) return "there are too few calls to try the costs of some on others";
  if (std::abs(error.error()) <= kGoodFit) return {};
  std::string why = fmt::format("the largest part of the difference is in {}", error.worst_op);
  if (fit.late_share > kManyLate)
    why += fmt::format(
        "; {:.0f} % of the waits ended late, by {:.3g} us on average over all: their processes had no "
        "processor, and the model only knows how often",
        fit.late_share * 100, fit.late_ns / 1e3);
  if (!fit.guessed.empty()) why += fmt::format("; the recording does not show the {}", fit.guessed);
  return why;
}

}  // namespace ncclwatch::analyzer
