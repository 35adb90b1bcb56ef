#include "analyzer/shrink/fault.h"

#include <algorithm>

#include "analyzer/jobs/diagnose.h"
#include "analyzer/replay/outcome.h"
#include "analyzer/replay/program.h"
#include "watchdog/diagnosis/report/render.h"

namespace ncclwatch::analyzer {
namespace {

constexpr std::size_t kNewestCalls = 16384;  // of a rank, that its image keeps

std::string OpOf(const diagnosis::Finding& finding) {
  std::string others;
  for (const diagnosis::CallSummary& call : finding.calls) {
    if (!call.op) continue;
    const bool culprits = std::any_of(call.ranks.begin(), call.ranks.end(), [&](int rank) {
      return std::find(finding.culprits.begin(), finding.culprits.end(), rank) != finding.culprits.end();
    });
    if (culprits) return *call.op;
    if (others.empty()) others = *call.op;
  }
  return others;
}

}  // namespace

std::optional<Fault> FaultOf(const Job& job) {
  if (job.boxes.empty()) return std::nullopt;
  const Recording recording = Recording::Of(job.boxes);
  const auto program = RecordedProgram::Make(recording, {}, {});
  if (!program.ok()) return std::nullopt;
  simulation::World world(**program);
  world.Run();
  Outcome outcome = OutcomeOf(recording, **program, world, kNewestCalls);
  if (outcome.completed) return std::nullopt;
  const diagnosis::Diagnosis verdict = DiagnoseWith(std::move(outcome.run), outcome.observations);
  if (verdict.clean()) return std::nullopt;
  const diagnosis::Finding& finding = verdict.findings.front();
  Fault fault{finding.kind, finding.certainty, OpOf(finding), {}, diagnosis::ToText(verdict)};
  for (const int rank : finding.culprits) {
    if (rank < 0 || rank >= static_cast<int>(job.was.size())) return std::nullopt;
    fault.culprits.push_back(job.was[static_cast<std::size_t>(rank)]);
  }
  return fault;
}

bool Shows(const std::optional<Fault>& part, const Fault& whole) {
  return part && part->kind == whole.kind && part->certainty == whole.certainty && part->op == whole.op &&
         part->culprits.empty() == whole.culprits.empty() &&
         std::includes(whole.culprits.begin(), whole.culprits.end(), part->culprits.begin(), part->culprits.end());
}

bool CanBeShown(diagnosis::Kind kind) {
  using diagnosis::Kind;
  switch (kind) {
    case Kind::kDeadRank:
    case Kind::kEarlyExit:
    case Kind::kMissingParticipant:
    case Kind::kOrderMismatch:
    case Kind::kArgumentMismatch:
    case Kind::kPointToPointMismatch:
    case Kind::kDeadlock:
    case Kind::kInitializationHang:
    case Kind::kFrozenProcess:
    case Kind::kDeviceStall:
    case Kind::kTransportStall: return true;
    default: return false;
  }
}

}  // namespace ncclwatch::analyzer
