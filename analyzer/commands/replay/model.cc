#include "analyzer/commands/replay/model.h"

#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/commands/options/options.h"
#include "analyzer/console/print.h"
#include "analyzer/console/terminal.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/replay/outcome.h"
#include "analyzer/replay/program.h"
#include "analyzer/replay/run_directory.h"
#include "analyzer/steps/steps.h"
#include "core/model/text.h"
#include "core/report/render.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// Of a rank, that its image keeps: as many as a ring, but not of thousands of ranks.
constexpr std::size_t kNewestCalls = 16384, kFewestCalls = 64, kCallsInAll = 4'000'000;

absl::StatusOr<Fitted> FitTo(const Recording& recording) {
  const auto fit = FitCosts(recording);
  if (!fit.ok()) return fit.status();
  const auto error = CrossValidate(recording);
  if (!error.ok()) return error.status();
  return Fitted{*fit, *error, WhyBad(*fit, *error)};
}

void PrintFit(const Fitted& fitted) {
  const Fit& fit = fitted.fit;
  Print("fit: latency {:.3g} us, overhead {:.3g} us, {:.3g} GB/s, {:.3g} us for a step of a collective\n",
        fit.costs.latency_ns / 1e3, fit.costs.overhead_ns / 1e3, 1 / fit.costs.byte_ns, fit.costs.step_ns / 1e3);
  if (!fit.guessed.empty()) Print("fit: the recording does not show the {}: guessed\n", fit.guessed);
  Print("fit: {:.1f} % of {} waits ended late, by {:.3g} us on average over all (no processor, not the network)\n",
        fit.late_share * 100, fit.waits, fit.late_ns / 1e3);
  if (fitted.error.known())
    Print("fit: {:+.1f} % of the recorded time in communication, on calls that the fit has not seen\n",
          fitted.error.error() * 100);
  if (!fitted.why_bad.empty()) Print("the fit is bad: {}\n", fitted.why_bad);
}

Json FitJson(const Fitted& fitted) {
  const FitError& error = fitted.error;
  return {{"waits", fitted.fit.waits},
          {"late_share", fitted.fit.late_share},
          {"late_us", fitted.fit.late_ns / 1e3},
          {"guessed", fitted.fit.guessed},
          {"recorded_s", InSeconds(error.recorded_ns)},
          {"simulated_s", InSeconds(error.simulated_ns)},
          {"error", error.known() ? Json(error.error()) : Json(nullptr)},
          {"why_bad", fitted.why_bad.empty() ? Json(nullptr) : Json(fitted.why_bad)}};
}

void PrintOutcome(const Outcome& outcome, const RecordedProgram& program, const diagnosis::Diagnosis& verdict,
                  SiteLines* lines, double wall_s) {
  Print("{}: {} calls of {} ranks in {} (recorded: {}), simulated at {:.3g} million calls a second\n",
        outcome.completed ? "completed" : "stopped", outcome.calls, outcome.run.boxes.size(),
        DurationText(absl::Nanoseconds(outcome.simulated_ns)), DurationText(absl::Nanoseconds(outcome.recorded_ns)),
        static_cast<double>(outcome.calls) / wall_s / 1e6);
  if (!program.not_modelled().empty()) {
    std::string text;
    for (const auto& [op, calls] : program.not_modelled())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", calls, op);
    Print("not modelled, they take as long as they took: {}\n", text);
  }
  for (const auto& [of, call] : program.lost())
    Print("rank {} does not have communicator {}: its calls on it are left out from seq {} on\n", of.first,
          diagnosis::Hex16(of.second), call);
  if (!program.threaded().empty())
    Print("several threads of {} made calls: replayed as if one had made them all\n",
          diagnosis::Ranks({program.threaded().begin(), program.threaded().end()}));
  if (!verdict.clean()) std::fputs(("\n" + DiagnosisFor(STDOUT_FILENO, lines->ForPeople(verdict))).c_str(), stdout);
}

// How long each step took then, and on the model; empty: no steps are found, or there are too many calls.
Json SimulatedSteps(const Recording& recording, const Outcome& outcome) {
  Json steps = Json::array();
  constexpr std::uint64_t kMostLookedAt = 1'000'000;  // all of them come into memory
  if (outcome.calls > kMostLookedAt) return steps;
  const auto recorded = StepsOf(recording), simulated = StepsOf(outcome.run.boxes);
  if (!recorded.ok() || !simulated.ok()) return steps;
  const std::map<std::uint64_t, double> then = DurationsOf(*recorded);
  for (const auto& [step, seconds] : DurationsOf(*simulated))
    if (const auto found = then.find(step); found != then.end())
      steps.push_back({{"step", step}, {"simulated_s", seconds}, {"recorded_s", found->second}});
  return steps;
}

// Which ranks make no calls on which communicators.
Json WithoutJson(const RecordedProgram& program) {
  Json without = Json::array();
  for (const auto& [of, call] : program.lost())
    without.push_back({{"rank", of.first}, {"communicator", diagnosis::Hex16(of.second)}, {"from_seq", call}});
  return without;
}

}  // namespace

absl::StatusOr<Fitted> FitAsAsked(const std::string& word, const Recording& recording) {
  if (word == "self") return FitTo(recording);
  const auto located = Locate({word});
  if (!located.ok()) return located.status();
  return FitTo(Recording::Open(located->paths));
}

int ReplayOnModel(const Command& self, const Recording& recording, const Fitted* fitted, const ReplayRequest& request) {
  const simulation::Costs costs = fitted ? fitted->fit.costs : simulation::Costs();
  const auto made = RecordedProgram::Make(recording, request.what_if, costs);
  if (!made.ok()) return Unreadable(self, made.status());
  const RecordedProgram* const program = made->get();
  const Clock::time_point began = Clock::now();
  simulation::World world(*program);
  world.Run();
  const double wall_s = std::chrono::duration<double>(Clock::now() - began).count();
  program->ReadRest();
  SayFailures(program->failures());
  if (!program->failures().empty()) return kUnreadable;
  RunDirectoryWriter directory(request.out);
  OlderCalls older;
  if (!request.out.empty()) {
    if (const absl::Status opened = directory.Open(); !opened.ok()) return Unreadable(self, opened);
    older = [&](const reader::BoxImage& image, std::uint64_t end) { directory.AddOlder(image, end); };
  }
  Outcome outcome =
      OutcomeOf(recording, *program, world,
                std::clamp(kCallsInAll / recording.processes().size(), kFewestCalls, kNewestCalls), older);
  if (!request.out.empty())
    if (const absl::Status written = directory.Finish(outcome); !written.ok()) return Unreadable(self, written);
  SiteLines lines(outcome.run.boxes);
  reader::RunImage run = outcome.run;
  diagnosis::Diagnosis verdict = DiagnoseWith(std::move(run), outcome.observations);
  NameAndIgnore("replay", &lines, &verdict);
  if (request.json) {
    auto not_modelled = nlohmann::ordered_json::object();
    for (const auto& [op, calls] : program->not_modelled()) not_modelled[op] = calls;
    PrintJson(
        {{"schema", "ncclwatch.replay/1"},
         {"on", request.on},
         {"attempts", request.attempts},
         {"ranks", outcome.run.boxes.size()},
         {"calls", outcome.calls},
         {"completed", outcome.completed},
         {"stopped", StoppedJson(outcome.stopped)},
         {"simulated_s", InSeconds(outcome.simulated_ns)},
         {"recorded_s", InSeconds(outcome.recorded_ns)},
         {"steps", SimulatedSteps(recording, outcome)},
         {"calls_per_s", static_cast<double>(outcome.calls) / wall_s},
         {"wrong", 0},
         {"costs",
          {{"latency_ns", costs.latency_ns},
           {"overhead_ns", costs.overhead_ns},
           {"byte_ns", costs.byte_ns},
           {"step_ns", costs.step_ns}}},
         {"fit", fitted ? FitJson(*fitted) : Json(nullptr)},
         {"not_modelled", not_modelled},
         {"threaded", program->threaded()},
         {"without", WithoutJson(*program)},
         {"run_directory", request.out.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(request.out)},
         {"findings", nlohmann::ordered_json::parse(diagnosis::ToJson(verdict))["findings"]}});
  } else {
    if (fitted) PrintFit(*fitted);
    PrintOutcome(outcome, *program, verdict, &lines, wall_s);
  }
  return outcome.completed ? kDone : kProblem;
}

}  // namespace ncclwatch::analyzer
