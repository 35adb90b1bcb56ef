#include "analyzer/shrink/shrink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "analyzer/jobs/diagnose.h"
#include "analyzer/replay/fates.h"
#include "analyzer/replay/outcome.h"
#include "analyzer/replay/program.h"
#include "analyzer/shrink/settle.h"
#include "analyzer/shrink/units.h"
#include "core/model/text.h"
#include "core/report/render.h"

namespace ncclwatch::analyzer {
namespace {

// Delta debugging (Zeller and Hildebrandt, 2002), as far as it takes away.

std::vector<std::size_t> WithoutRun(const std::vector<std::size_t>& all, std::size_t begin, std::size_t length) {
  std::vector<std::size_t> left(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin));
  const std::size_t end = std::min(all.size(), begin + length);
  left.insert(left.end(), all.begin() + static_cast<std::ptrdiff_t>(end), all.end());
  return left;
}

// Of 0 to n - 1 what is left when nothing single can go and no run of them as tried, ascending. `holds` says whether
// these are enough; all of them are. What is left when `goes_on` says no is enough, too.
std::vector<std::size_t> Minimize(std::size_t n, const std::function<bool(const std::vector<std::size_t>&)>& holds,
                                  const std::function<bool()>& goes_on) {
  std::vector<std::size_t> left(n);
  std::iota(left.begin(), left.end(), std::size_t{0});
  for (std::size_t length = std::max<std::size_t>(1, n); !left.empty();) {
    bool took = false;
    for (std::size_t begin = 0; begin < left.size();) {
      if (!goes_on()) return left;
      std::vector<std::size_t> fewer = WithoutRun(left, begin, length);
      if (holds(fewer)) {
        left = std::move(fewer);
        took = true;
      } else {
        begin += length;
      }
    }
    if (length == 1 && !took) break;
    length = std::max<std::size_t>(1, length / 2);
  }
  return left;
}

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

constexpr std::uint64_t kMostShrunk = 2'000'000;  // calls: each try goes through all that is left

class Shrinker {
 public:
  Shrinker(Shrunk* shrunk, const std::function<bool()>& goes_on) : shrunk_(*shrunk), goes_on_(goes_on) {}

  void Run() {
    TakeWindow();
    std::size_t before = SIZE_MAX;
    while (GoesOn() && std::exchange(before, Size()) != Size()) {
      TakeUnits(CallUnits(shrunk_.job));
      TakeRanks();
      TakeUnits(CommunicatorUnits(shrunk_.job));
    }
    LetFinishedLeave();
  }

 private:
  std::size_t Size() const { return shrunk_.calls() + shrunk_.job.was.size(); }

  bool GoesOn() {
    shrunk_.ended_early = shrunk_.ended_early || !goes_on_();
    return !shrunk_.ended_early;
  }

  // Most of a long recording is healthy: the last calls before its end usually show the fault, and all tries after that
  // are quick.
  void TakeWindow() {
    constexpr std::size_t kFewest = 16, kMore = 4;
    const std::vector<Unit> units = CallUnits(shrunk_.job);
    for (std::size_t newest = kFewest; newest < units.size() && GoesOn(); newest *= kMore) {
      CallSet gone;
      for (std::size_t unit = 0; unit + newest < units.size(); ++unit)
        gone.insert(units[unit].begin(), units[unit].end());
      Job window = WithoutIdleWaits(WithoutCalls(shrunk_.job, gone));
      if (!ShowsIt(window)) continue;
      shrunk_.job = std::move(window);
      return;
    }
  }

  bool ShowsIt(const Job& job) {
    ++shrunk_.tried;
    return Shows(FaultOf(job), shrunk_.fault);
  }

  void TakeUnits(const std::vector<Unit>& units) {
    const auto without = [&](const std::vector<std::size_t>& kept) {
      CallSet gone;
      std::size_t next = 0;
      for (std::size_t unit = 0; unit < units.size(); ++unit)
        if (next < kept.size() && kept[next] == unit)
          ++next;
        else
          gone.insert(units[unit].begin(), units[unit].end());
      return WithoutIdleWaits(WithoutCalls(shrunk_.job, gone));
    };
    const auto kept = Minimize(
        units.size(), [&](const auto& some) { return ShowsIt(without(some)); }, [this] { return GoesOn(); });
    shrunk_.job = without(kept);
  }

  void TakeRanks() {
    const std::size_t ranks = shrunk_.job.was.size();
    const auto without = [&](const std::vector<std::size_t>& kept) {
      std::set<int> gone;
      for (std::size_t rank = 0; rank < ranks; ++rank) gone.insert(static_cast<int>(rank));
      for (const std::size_t rank : kept) gone.erase(static_cast<int>(rank));
      return WithoutIdleWaits(WithoutRanks(shrunk_.job, gone));
    };
    const auto kept = Minimize(
        ranks, [&](const auto& some) { return ShowsIt(without(some)); }, [this] { return GoesOn(); });
    shrunk_.job = without(kept);
  }

  // Whoever has made its calls ends, unless that makes another fault of it.
  void LetFinishedLeave() {
    const auto fault = FaultOf(shrunk_.job);
    for (const int rank : fault->finished) {
      Job left = WithLeaving(shrunk_.job, rank);
      const auto without = FaultOf(left);
      ++shrunk_.tried;
      if (Shows(without, shrunk_.fault) && without->culprits == fault->culprits)
        shrunk_.job = std::move(left);
      else
        shrunk_.stays[rank] = without ? std::string(diagnosis::Name(without->kind)) : "no fault at all";
    }
  }

  Shrunk& shrunk_;
  const std::function<bool()>& goes_on_;
};

// Without the calls that never returned and of which the model does not know why, unless the fault needs them.
absl::Status TakeUnjudged(diagnosis::Kind kind, Job* job) {
  const CallSet unjudged = Unjudged(*job);
  if (unjudged.empty()) return absl::OkStatus();
  Job judged = WithoutIdleWaits(WithoutCalls(*job, unjudged));
  const auto fault = FaultOf(judged);
  if (!fault || fault->kind != kind)
    return absl::FailedPreconditionError(fmt::format(
        "the fault needs {}, which never returned: the model does not know when it would", TextOf(*job, unjudged)));
  *job = std::move(judged);
  return absl::OkStatus();
}

// Empty: it can be shrunk.
std::string WhyNot(const diagnosis::Diagnosis& verdict) {
  if (verdict.harmless()) return "the recorded job was healthy: there is nothing to show";
  const diagnosis::Kind kind = verdict.findings.front().kind;
  if (CanBeShown(kind)) return {};
  return fmt::format("a finding of kind {} does not follow from the order of calls: it cannot be shrunk",
                     diagnosis::Name(kind));
}

std::string WhyNotOnModel(const std::optional<Fault>& fault, diagnosis::Kind kind) {
  if (!fault)
    return fmt::format("the recorded calls complete on the model: it does not know {}", diagnosis::Name(kind));
  if (fault->kind == kind) return {};
  return fmt::format("the verdict on the model is {}, that of the recording {}: it cannot be shrunk",
                     diagnosis::Name(fault->kind), diagnosis::Name(kind));
}

// A process that ended does so after its calls, which it has to get through.
bool AllEndsAreReached(const Recording& recording, const RecordedProgram& program, const simulation::World& world) {
  const Fates fates(recording);
  for (int rank = 0; rank < world.ranks(); ++rank) {
    const ProcessRecording* const process = program.process(rank);
    if (process && fates.Leaves(process->process()) && !world.rank(rank).done) return false;
  }
  return true;
}

// Neither their hosts nor their GPUs have anything left to do.
std::vector<int> FinishedRanks(const Recording& recording, const RecordedProgram& program,
                               const simulation::World& world, const Outcome& outcome) {
  const Fates fates(recording);
  std::vector<int> finished;
  for (int rank = 0; rank < world.ranks(); ++rank) {
    const ProcessRecording* const process = program.process(rank);
    if (!process || !world.rank(rank).done || fates.Leaves(process->process())) continue;
    const int job_rank = process->rank();
    const bool stopped = std::any_of(outcome.stopped.begin(), outcome.stopped.end(),
                                     [&](const StoppedCall& call) { return call.rank == job_rank; });
    const std::vector<simulation::Record>& records = world.rank(rank).records;
    const bool finalized = !records.empty() && records.back().function == functions::Function::MPI_Finalize;
    if (!stopped && !finalized) finished.push_back(job_rank);
  }
  return finished;
}

}  // namespace

std::optional<Fault> FaultOf(const Job& job) {
  if (job.boxes.empty()) return std::nullopt;
  const Recording recording = Recording::Of(job.boxes);
  WhatIf what_if;
  what_if.no_gaps = true;  // as the program has none
  const auto program = RecordedProgram::Make(recording, what_if, {});
  if (!program.ok()) return std::nullopt;
  simulation::World world(**program);
  world.Run();
  Outcome outcome = OutcomeOf(recording, **program, world, kNewestCalls);
  if (outcome.completed || !AllEndsAreReached(recording, **program, world)) return std::nullopt;
  std::vector<int> finished = FinishedRanks(recording, **program, world, outcome);
  const diagnosis::Diagnosis verdict = DiagnoseWith(std::move(outcome.run), outcome.observations);
  if (verdict.clean()) return std::nullopt;
  const diagnosis::Finding& finding = verdict.findings.front();
  Fault fault{
      finding.kind,       finding.certainty, OpOf(finding), {}, diagnosis::ToText(verdict), std::move(outcome.stopped),
      std::move(finished)};
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
    case Kind::kDeviceStall: return true;
    default: return false;
  }
}

std::size_t Shrunk::calls() const {
  std::size_t calls = 0;
  for (const reader::BoxImage& box : job.boxes) calls += box.calls.size();
  return calls;
}

std::size_t Shrunk::communicators() const {
  std::set<std::uint64_t> used;
  for (const reader::BoxImage& box : job.boxes) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> on;
    for (const reader::Call& call : box.calls) on.insert({call.communicator, call.generation});
    for (const reader::Communicator& one : box.communicators)
      if (on.contains({one.index, one.generation})) used.insert(one.id);
  }
  return used.size();
}

absl::StatusOr<Shrunk> Shrink(const Recording& recording, const diagnosis::Diagnosis& verdict,
                              const std::function<bool()>& goes_on) {
  Shrunk shrunk;
  auto job = LoadJob(recording, kMostShrunk);
  if (!job.ok()) return job.status();
  shrunk.job = *std::move(job);
  if (const std::string why = WhyNot(verdict); !why.empty()) return absl::FailedPreconditionError(why);
  const diagnosis::Kind kind = verdict.findings.front().kind;
  Settle(verdict.findings.front(), &shrunk.job);
  shrunk.job = WithoutIdleWaits(WithoutCalls(shrunk.job, UnfinishedOfEnded(shrunk.job)));
  if (absl::Status judged = TakeUnjudged(kind, &shrunk.job); !judged.ok()) return judged;
  const auto fault = FaultOf(shrunk.job);
  if (const std::string why = WhyNotOnModel(fault, kind); !why.empty()) return absl::FailedPreconditionError(why);
  shrunk.fault = *fault;
  shrunk.ranks_before = shrunk.job.was.size();
  shrunk.calls_before = shrunk.calls();
  shrunk.communicators_before = shrunk.communicators();
  Shrinker(&shrunk, goes_on).Run();
  shrunk.fault = *FaultOf(shrunk.job);
  return shrunk;
}

}  // namespace ncclwatch::analyzer
