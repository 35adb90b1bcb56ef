#include "analyzer/commands/replay/shrink.h"

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "analyzer/commands/options/options.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/replay/outcome.h"
#include "analyzer/shrink/run_program.h"
#include "analyzer/shrink/shrink.h"
#include "core/model/text.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

Json RunJson(const ProgramRun& run) {
  if (!run.not_done.empty()) return {{"done", false}, {"why", run.not_done}};
  Json stopped = Json::array();
  for (const auto& [rank, in] : run.stopped) stopped.push_back({{"rank", rank}, {"in", in}});
  Json json = {{"done", true}, {"on", run.on}, {"status", run.status}};
  json["stopped"] = stopped;
  json["differs"] = run.elsewhere;
  json["kind"] = run.kind.empty() ? Json(nullptr) : Json(run.kind);
  json["certainty"] = run.certainty.empty() ? Json(nullptr) : Json(run.certainty);
  json["culprits"] = run.culprits;
  json["same"] = run.holds();
  return json;
}

void PrintRun(const ProgramRun& run) {
  if (!run.not_done.empty()) return Print("not run here: {}\n", Printable(run.not_done));
  for (const auto& [rank, in] : run.stopped) Print("on {} rank {} stopped in {}\n", run.on, rank, Printable(in));
  for (const std::string& text : run.elsewhere) Print("on {} {}\n", run.on, Printable(text));
  Print("under ncclwatch on {}: {} of {}: {}\n", run.on, run.kind.empty() ? "no finding" : run.kind,
        diagnosis::Ranks({run.culprits.begin(), run.culprits.end()}),
        run.same_verdict ? "the verdict of the recording" : "another verdict than the recording's");
}

absl::StatusOr<Shrunk> ShrinkWithin(absl::Duration limit, const Recording& recording,
                                    const std::vector<std::string>& paths) {
  constexpr double kSteps = 100;
  Progress progress("shrinking, the whole is the time limit", static_cast<std::size_t>(kSteps));
  const Clock::time_point began = Clock::now();
  return Shrink(recording, Diagnose(ReadJob(paths, reader::Calls::kForVerdict)), [&] {
    const double share = std::chrono::duration<double>(Clock::now() - began).count() / absl::ToDoubleSeconds(limit);
    progress.Done(static_cast<std::size_t>(kSteps * std::min(share, 1.0)));
    return share < 1;
  });
}

}  // namespace

int ShrinkInto(const Command& self, const Recording& recording, const std::vector<std::string>& paths,
               const ReplayRequest& request) {
  const auto shrunk = ShrinkWithin(request.time_limit, recording, paths);
  if (!shrunk.ok()) return Unreadable(self, shrunk.status());
  const auto source = WriteProgram(*shrunk, request.out);
  if (!source.ok()) return Unreadable(self, source.status());
  if (!request.json) {
    Print("{} of {}: {} ranks, {} calls on {} communicators (recorded: {}, {}, {}), {} smaller jobs tried\n",
          diagnosis::Name(shrunk->fault.kind), shrunk->fault.op, shrunk->job.was.size(), shrunk->calls(),
          shrunk->communicators(), shrunk->ranks_before, shrunk->calls_before, shrunk->communicators_before,
          shrunk->tried);
    if (shrunk->ended_early)
      Print("the time limit ({}) ended the search: more can perhaps go\n", DurationText(request.time_limit));
    Print("{}/{}: make && make run\n", Printable(request.out), *source);
  }
  const ProgramRun run = RunProgram(*shrunk, request.out);
  if (request.json)
    PrintJson({{"schema", "ncclwatch.replay/1"},
               {"attempts", request.attempts},
               {"kind", diagnosis::Name(shrunk->fault.kind)},
               {"certainty", diagnosis::Name(shrunk->fault.certainty)},
               {"op", shrunk->fault.op},
               {"culprits", shrunk->fault.culprits},
               {"stopped", StoppedJson(shrunk->fault.stopped)},
               {"was_rank", shrunk->job.was},
               {"calls", shrunk->calls()},
               {"calls_before", shrunk->calls_before},
               {"ranks_before", shrunk->ranks_before},
               {"tried", shrunk->tried},
               {"ended_early", shrunk->ended_early},
               {"program", request.out + "/" + *source},
               {"run", RunJson(run)}});
  else
    PrintRun(run);
  return run.not_done.empty() && !run.holds() ? kProblem : kDone;
}

}  // namespace ncclwatch::analyzer
