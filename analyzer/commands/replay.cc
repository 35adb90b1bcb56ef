// `ncclwatch replay`: the recorded calls, run again.
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/replay/model.h"
#include "analyzer/commands/replay/request.h"
#include "analyzer/commands/replay/shrink.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/units.h"
#include "analyzer/edit/merge.h"
#include "analyzer/edit/scale.h"
#include "analyzer/ideal/build.h"
#include "analyzer/ideal/ideal.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/player/real.h"
#include "analyzer/replay/program.h"
#include "analyzer/run/start_ranks.h"
#include "analyzer/steps/steps.h"

namespace ncclwatch::analyzer {
namespace {

// replay --start-ranks N -- CMD...: how `--on nccl` starts its ranks below `ncclwatch run`.
int StartRanksOf(const Arguments& arguments) {
  int ranks = 0;
  if (arguments.size() < 4 || !ParseNumber(arguments[1], &ranks)) return kUsage;
  return StartRanks({arguments.begin() + 3, arguments.end()}, ranks, absl::Hours(24 * 7));
}

// The job as --merge-below and --scale would have it.
absl::StatusOr<Recording> Edited(const Recording& recording, const ReplayRequest& request) {
  auto job = LoadJob(recording, kMostCalls);
  if (!job.ok()) return job.status();
  if (request.merge_below != 0) {
    const std::uint64_t gone = MergeBelow(request.merge_below, &*job);
    if (!request.json) Print("merged: {} calls are now part of others\n", gone);
  }
  if (request.scale != 0)
    if (absl::Status scaled = ScaleTo(request.scale, &*job); !scaled.ok()) return scaled;
  return Recording::Of(std::move(job->boxes));
}

int ReplayIdeal(const Command& self, const Recording& recording, const ReplayRequest& request) {
  const auto model = ideal::MakeModel(recording);
  if (!model.ok()) return Unreadable(self, model.status());
  ideal::Result result;
  {
    constexpr std::size_t kSteps = 100;
    Progress progress("replaying", kSteps);
    result = ideal::Analyze(*model, [&](double share) { progress.Done(static_cast<std::size_t>(share * kSteps)); });
  }
  if (!request.out.empty())
    if (const absl::Status written = ideal::WriteTimeline(*model, request.out); !written.ok())
      return Unreadable(self, written);
  if (request.json)
    PrintJson({{"schema", "ncclwatch.replay/1"},
               {"on", "model"},
               {"attempts", request.attempts},
               {"ideal", ideal::ToJson(result)}});
  else
    WriteOut(ideal::ToText(result));
  return kDone;
}

}  // namespace

int Replay(const Command& self, const Arguments& arguments) {
  KeepFreedMemory();
  if (!arguments.empty() && arguments[0] == "--start-ranks") return StartRanksOf(arguments);
  ReplayRequest request;
  if (const auto status = ReadRequest(self, arguments, &request)) return *status;
  const auto located = Locate(request.words, request.attempt);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  request.attempts = ToJson(located->attempts);
  if (located->attempts.several()) request.words = located->paths;  // what the ranks of a replay read
  const Recording recording = Recording::Open(located->paths);
  SayFailures(recording.run().failures);
  if (!recording.run().failures.empty()) return kUnreadable;
  if (request.ideal) return ReplayIdeal(self, recording, request);
  if (request.range) {
    auto calls = CallsOfSteps(recording, *request.range);
    if (!calls.ok()) return Unreadable(self, calls.status());
    request.what_if.calls = *std::move(calls);
  }
  std::optional<Fitted> fitted;
  if (!request.fit.empty()) {
    auto as_asked = FitAsAsked(request.fit, recording);
    if (!as_asked.ok()) return Unreadable(self, as_asked.status());
    fitted = *std::move(as_asked);
  }
  std::optional<Recording> edited;
  if (!request.shrink && request.on == "model" && (request.merge_below != 0 || request.scale != 0)) {
    auto recording_as_requested = Edited(recording, request);
    if (!recording_as_requested.ok()) return Unreadable(self, recording_as_requested.status());
    edited = *std::move(recording_as_requested);
  }
  if (const absl::Status there = AllThere(request.what_if, edited ? *edited : recording); !there.ok())
    return UsageError(self, std::string(there.message()));
  const auto program = RecordedProgram::Make(recording, request.what_if, {});
  if (!program.ok()) return Unreadable(self, program.status());

  if (request.shrink) return ShrinkInto(self, recording, located->paths, request);
  if (request.on != "model") {
    const auto right = ReplayForReal(recording, **program, ForReal(request));
    if (!right.ok()) return Unreadable(self, right.status());
    return *right ? kDone : kProblem;
  }
  return ReplayOnModel(self, edited ? *edited : recording, fitted ? &*fitted : nullptr, request);
}

}  // namespace ncclwatch::analyzer
