// `ncclwatch replay`: the recorded calls, run again.
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/terminal.h"
#include "analyzer/console/units.h"
#include "analyzer/edit/merge.h"
#include "analyzer/edit/scale.h"
#include "analyzer/files/output_file.h"
#include "analyzer/ideal/build.h"
#include "analyzer/ideal/ideal.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/player/real.h"
#include "analyzer/replay/fit.h"
#include "analyzer/replay/outcome.h"
#include "analyzer/replay/program.h"
#include "analyzer/replay/run_directory.h"
#include "analyzer/run/start_ranks.h"
#include "analyzer/shrink/run_program.h"
#include "analyzer/shrink/shrink.h"
#include "analyzer/steps/steps.h"
#include "analyzer/trace/filter.h"
#include "core/model/text.h"
#include "core/report/render.h"
#include "core/text/printable.h"
#include "ncclwatch/nanoseconds.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kReplayHelp[] =
    "Run the recorded calls again.\n\n"
    "On a model: a simulation of how NCCL and MPI block, with a model of communication costs. It reports whether\n"
    "the job completes, where it stops, how long it takes, and the diagnosis. --delay, --slow and --drop change the\n"
    "recording first. Between two calls, each rank waits for as long as it did in the recording. A recording with\n"
    "missing calls is refused.\n\n"
    "On NCCL or MPI: the same calls with the same sizes, types and communicators, under watch. The replay generates\n"
    "the data and checks them. It starts the ranks itself, those of MPI with mpirun. Under torchrun, mpirun or srun\n"
    "each process plays one rank.\n\n"
    "--ideal asks what if nobody were slow: each operation takes as long as those alike (computation the mean,\n"
    "communication the median over ranks and steps). SLOWDOWN is the step that is left if one type of operation, "
    "stage\n"
    "or rank alone stays as recorded, over the ideal one. -o FILE writes the ideal job for Perfetto.\n\n"
    "--shrink leaves out ranks, communicators and calls as long as the model comes to the same verdict. It writes\n"
    "the rest as a program that shows the fault under plain NCCL or MPI. If softgpu or the recorded MPI is here, it\n"
    "builds the program, runs it, and compares where it stops and the verdict.\n\n"
    "Exit status: 0 it completed, 1 it stopped, data were wrong, or the program of --shrink behaves differently,\n"
    "2 usage, 3 the recording cannot be used.";

using Clock = std::chrono::steady_clock;
// Of a rank, that its image keeps: as many as a ring, but not of thousands of ranks.
constexpr std::size_t kNewestCalls = 16384, kFewestCalls = 64, kCallsInAll = 4'000'000;

struct ReplayRequest {
  std::vector<std::string> words, delays, slower, dropped, links, communicators;
  AttemptChoice attempt;
  Json attempts;
  std::string ranks, steps;
  std::string on = "model", out, fit, launcher, meet;
  int start = 0, loops = 1, scale = 0;
  std::string merge_text, time_limit_text = "2m";
  absl::Duration time_limit;
  std::uint64_t merge_below = 0;
  bool no_gaps = false, one_rank = false, json = false, shrink = false, ideal = false;
};

// "rank=3:2s": the rank, and what follows the colon.
absl::StatusOr<std::pair<int, std::string>> OfRank(const std::string& option, const std::string& text) {
  const std::size_t colon = text.find(':');
  int rank = 0;
  if (!text.starts_with("rank=") || colon == std::string::npos || !ParseNumber(text.substr(5, colon - 5), &rank))
    return absl::InvalidArgumentError(fmt::format("{} takes rank=R:..., not '{}'", option, text));
  return std::pair(rank, text.substr(colon + 1));
}

// "20%": 0.2. None if it is not more than `least`.
std::optional<double> ShareIn(const std::string& text, double least) {
  double percent = 0;
  if (!text.ends_with('%') || !absl::SimpleAtod(text.substr(0, text.size() - 1), &percent) || percent <= 100 * least)
    return std::nullopt;
  return percent / 100;
}

// "host1-host2:50%". Names of hosts have dashes too: the one in the middle divides them.
absl::StatusOr<WhatIf::Link> LinkOf(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::vector<std::string> words = absl::StrSplit(text.substr(0, colon), '-');
  const auto share = colon == std::string::npos ? std::nullopt : ShareIn(text.substr(colon + 1), 0);
  if (!share || words.size() % 2 != 0)
    return absl::InvalidArgumentError(fmt::format("--link takes host1-host2:50%, not '{}'", text));
  const auto middle = words.begin() + static_cast<std::ptrdiff_t>(words.size() / 2);
  return WhatIf::Link{absl::StrJoin(words.begin(), middle, "-"), absl::StrJoin(middle, words.end(), "-"), *share};
}

absl::StatusOr<WhatIf> WhatIfOf(const ReplayRequest& request) {
  WhatIf what_if;
  what_if.no_gaps = request.no_gaps;
  for (const std::string& text : request.delays) {
    const auto of = OfRank("--delay", text);
    if (!of.ok()) return of.status();
    const auto delay = ParseDuration(of->second);
    if (!delay) return absl::InvalidArgumentError(fmt::format("--delay takes a time like 2s, not '{}'", of->second));
    what_if.delays[of->first] += absl::ToInt64Nanoseconds(*delay);
  }
  for (const std::string& text : request.slower) {
    const auto of = OfRank("--slow", text);
    if (!of.ok()) return of.status();
    const auto share = ShareIn(of->second, -1);
    if (!share) return absl::InvalidArgumentError(fmt::format("--slow takes a share like 20%, not '{}'", of->second));
    what_if.slower[of->first] = *share;
  }
  for (const std::string& text : request.dropped) {
    const auto of = OfRank("--drop", text);
    if (!of.ok()) return of.status();
    std::uint64_t call = 0;
    if (!ParseNumber(of->second, &call))
      return absl::InvalidArgumentError(fmt::format("--drop takes the number (seq) of a call, not '{}'", of->second));
    what_if.dropped.insert({of->first, call});
  }
  for (const std::string& text : request.links) {
    const auto link = LinkOf(text);
    if (!link.ok()) return link.status();
    what_if.links.push_back(*link);
  }
  what_if.communicators = request.communicators;
  if (request.ranks.empty()) return what_if;
  const auto ranks = ParseRanks(request.ranks);
  if (!ranks)
    return absl::InvalidArgumentError(fmt::format("--ranks takes a list like 0,2,4-7, not '{}'", request.ranks));
  what_if.ranks.insert(ranks->begin(), ranks->end());
  return what_if;
}

struct Fitted {
  Fit fit;
  FitError error;
  std::string why_bad;  // empty: it is good
};

absl::StatusOr<Fitted> FitTo(const Recording& recording) {
  const auto fit = FitCosts(recording);
  if (!fit.ok()) return fit.status();
  const auto error = CrossValidate(recording);
  if (!error.ok()) return error.status();
  return Fitted{*fit, *error, WhyBad(*fit, *error)};
}

absl::StatusOr<Fitted> FitAsAsked(const std::string& word, const Recording& recording) {
  if (word == "self") return FitTo(recording);
  const auto located = Locate({word});
  if (!located.ok()) return located.status();
  return FitTo(Recording::Open(located->paths));
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

RealRequest ForReal(const ReplayRequest& request) {
  RealRequest real{.on = request.on,
                   .paths = request.words,
                   .words = {"--loop", fmt::format("{}", request.loops)},
                   .launcher = request.launcher,
                   .out = request.out,
                   .meet = request.meet,
                   .ranks = request.start,
                   .loops = request.loops,
                   .one_rank = request.one_rank,
                   .json = request.json};
  const auto add = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& value : values) real.words.insert(real.words.end(), {option, value});
  };
  add("--delay", request.delays);
  add("--slow", request.slower);
  add("--drop", request.dropped);
  add("--comm", request.communicators);
  if (!request.ranks.empty()) add("--ranks", {request.ranks});
  if (!request.steps.empty()) add("--steps", {request.steps});
  if (request.no_gaps) real.words.emplace_back("--no-gaps");
  return real;
}

// An option that the other kinds of replay have; null: none.
const char* Misplaced(const ReplayRequest& request, const WhatIf& what_if) {
  const bool as_recorded = what_if.delays.empty() && what_if.slower.empty() && what_if.dropped.empty() &&
                           what_if.links.empty() && what_if.communicators.empty() && what_if.ranks.empty() &&
                           request.steps.empty() && request.merge_text.empty() && request.scale == 0;
  if (request.shrink && (!as_recorded || request.no_gaps || !request.fit.empty() || request.on != "model"))
    return "--shrink";
  if (request.on != "model" && !request.links.empty()) return "--link";
  if (request.on != "model" && !request.fit.empty()) return "--fit";
  if (request.on != "model" && !request.merge_text.empty()) return "--merge-below";
  if (request.on != "model" && request.scale != 0) return "--scale";
  if (request.on != "model") return nullptr;
  if (request.start != 0) return "-n";
  if (request.loops != 1) return "--loop";
  if (!request.launcher.empty()) return "--launcher";
  return request.meet.empty() ? nullptr : "--meet";
}

// How long each step took then, and on the model; empty: no steps are found, or there are too many calls.
nlohmann::ordered_json SimulatedSteps(const Recording& recording, const Outcome& outcome) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
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

nlohmann::ordered_json RunJson(const ProgramRun& run) {
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

// replay --start-ranks N -- CMD...: how `--on nccl` starts its ranks below `ncclwatch run`.
int StartRanksOf(const Arguments& arguments) {
  int ranks = 0;
  if (arguments.size() < 4 || !ParseNumber(arguments[1], &ranks)) return kUsage;
  return StartRanks({arguments.begin() + 3, arguments.end()}, ranks, absl::Hours(24 * 7));
}

// Which ranks make no calls on which communicators.
Json WithoutJson(const RecordedProgram& program) {
  Json without = Json::array();
  for (const auto& [of, call] : program.lost())
    without.push_back({{"rank", of.first}, {"communicator", diagnosis::Hex16(of.second)}, {"from_seq", call}});
  return without;
}

int ReplayOnModel(const Command& self, const Recording& recording, const WhatIf& what_if, const Fitted* fitted,
                  const ReplayRequest& request) {
  const simulation::Costs costs = fitted ? fitted->fit.costs : simulation::Costs();
  const auto made = RecordedProgram::Make(recording, what_if, costs);
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

// A rank or a call that the recording does not have would change nothing, and nobody would notice.
absl::Status AllThere(const WhatIf& what_if, const Recording& recording) {
  std::map<int, std::uint64_t> calls;  // by rank
  for (const ProcessRecording& process : recording.processes())
    calls[process.rank()] = std::max(calls[process.rank()], process.end_slot());
  const auto no_rank = [&](const char* option, int rank) {
    return absl::InvalidArgumentError(fmt::format("{}: the recording has no rank {}, but {} ranks up to {}", option,
                                                  rank, calls.size(), calls.empty() ? 0 : calls.rbegin()->first));
  };
  for (const auto& [rank, delay] : what_if.delays)
    if (!calls.contains(rank)) return no_rank("--delay", rank);
  for (const auto& [rank, share] : what_if.slower)
    if (!calls.contains(rank)) return no_rank("--slow", rank);
  for (const int rank : what_if.ranks)
    if (!calls.contains(rank)) return no_rank("--ranks", rank);
  for (const auto& [rank, call] : what_if.dropped) {
    if (!calls.contains(rank)) return no_rank("--drop", rank);
    if (call >= calls[rank])
      return absl::InvalidArgumentError(
          fmt::format("--drop: rank {} has no call {}, but calls up to {}", rank, call, calls[rank] - 1));
  }
  return absl::OkStatus();
}

// Anything that changes what is replayed, or on what.
bool AsksForMore(const ReplayRequest& request) {
  return request.on != "model" || !request.delays.empty() || !request.slower.empty() || !request.dropped.empty() ||
         !request.links.empty() || !request.communicators.empty() || !request.ranks.empty() || !request.steps.empty() ||
         !request.fit.empty() || !request.merge_text.empty() || request.scale != 0 || request.no_gaps;
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
  Options options(self, kReplayHelp);
  ReplayRequest request;
  options.add_option("DIR|FILE", request.words, "recordings, and black boxes whose rings have not wrapped")
      ->type_name("");
  options.add_option("--on", request.on, "model: a simulation (the default); nccl, mpi: the library itself")
      ->type_name("WHAT");
  options.add_option("--delay", request.delays, "the rank begins so much later: rank=3:2s")
      ->type_name("rank=R:T")
      ->allow_extra_args(false);
  options
      .add_option("--slow", request.slower, "what lies between the calls of the rank takes so much longer: rank=3:20%")
      ->type_name("rank=R:P%")
      ->allow_extra_args(false);
  options.add_option("--drop", request.dropped, "the rank leaves that call (seq) out: rank=5:1042")
      ->type_name("rank=R:SEQ")
      ->allow_extra_args(false);
  options.add_option("--fit", request.fit, "take MPI's costs from this recording (self: from the replayed one)")
      ->type_name("DIR");
  options.add_option("--link", request.links, "so much of the bandwidth between these hosts is left: node1-node2:50%")
      ->type_name("A-B:P%")
      ->allow_extra_args(false);
  options.add_option("--ranks", request.ranks, "only these job ranks, on their own communicators")->type_name("LIST");
  options.add_option("--steps", request.steps, "only these steps of the training loop: 100..110")->type_name("A..B");
  options.add_option("--comm", request.communicators, "only on this communicator: label or beginning of its id")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options
      .add_option("--merge-below", request.merge_text,
                  "collectives smaller than this that follow one another are one: 4MiB")
      ->type_name("SIZE");
  options.add_option("--scale", request.scale, "so many ranks, where the pattern of the recording can be continued")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  DeclareAttempt(&options, &request.attempt);
  options.add_flag("--no-gaps", request.no_gaps, "nothing lies between calls");
  options.add_flag("--ideal", request.ideal, "what if nobody were slow: who and what costs how much of a step");
  options.add_flag("--shrink", request.shrink, "write the smallest program that shows the same fault, into --out");
  options.add_option("--time-limit", request.time_limit_text, "of --shrink: then take what is left (default: 2m)")
      ->type_name("T");
  options
      .add_option("-o,--out", request.out,
                  "write the outcome here: it reads like a recorded job's (with --ideal: a file)")
      ->type_name("DIR");
  options.add_option("-n", request.start, "on NCCL or MPI: start so many ranks, as many as were recorded")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  options.add_option("--loop", request.loops, "on NCCL or MPI: so many times")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  options
      .add_option("--launcher", request.launcher,
                  "start the ranks by this, {n} of them (default for MPI: mpirun -n {n})")
      ->type_name("WORDS");
  options.add_option("--meet", request.meet, "a directory in which ranks that a launcher has started find one another")
      ->type_name("DIR");
  options.add_flag("--one-rank", request.one_rank)->group("");  // of what `--on` starts: it prints nothing
  options.add_flag("--json", request.json, "print JSON");
  if (const auto status = options.Read(arguments)) return *status;
  if (request.on != "model" && request.on != "nccl" && request.on != "mpi")
    return UsageError(self, "--on is model, nccl or mpi, not '" + request.on + "'");
  auto what_if = WhatIfOf(request);
  if (!what_if.ok()) return UsageError(self, std::string(what_if.status().message()));
  if (request.ideal && (request.shrink || AsksForMore(request)))
    return UsageError(self, "--ideal takes the recording as it is");
  if (const char* const option = Misplaced(request, *what_if))
    return UsageError(self, request.shrink ? "--shrink takes the recording as it is, on the model"
                                           : fmt::format("{} means nothing with --on {}", option, request.on));
  const auto time_limit = ParseDuration(request.time_limit_text);
  if (!time_limit || *time_limit <= absl::ZeroDuration())
    return UsageError(self, "--time-limit takes a time like 2m, not '" + request.time_limit_text + "'");
  request.time_limit = *time_limit;
  const auto range = ParseSteps(request.steps);
  if (!request.steps.empty() && !range)
    return UsageError(self, "--steps takes a range like 100..110, not '" + request.steps + "'");
  if (!request.merge_text.empty()) {
    const auto bytes = ParseBytes(request.merge_text);
    if (!bytes || *bytes == 0)
      return UsageError(self, "--merge-below takes a size like 4MiB, not '" + request.merge_text + "'");
    request.merge_below = *bytes;
  }
  if ((request.merge_below != 0 || request.scale != 0) && range)
    return UsageError(self, "--steps goes with neither --merge-below nor --scale");
  if (request.shrink && request.out.empty())
    return UsageError(self, "--shrink needs -o REPRO/, where the program goes");

  const auto located = Locate(request.words, request.attempt);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  request.attempts = ToJson(located->attempts);
  if (located->attempts.several()) request.words = located->paths;  // what the ranks of a replay read
  const Recording recording = Recording::Open(located->paths);
  SayFailures(recording.run().failures);
  if (!recording.run().failures.empty()) return kUnreadable;
  if (request.ideal) return ReplayIdeal(self, recording, request);
  if (range) {
    auto calls = CallsOfSteps(recording, *range);
    if (!calls.ok()) return Unreadable(self, calls.status());
    what_if->calls = *std::move(calls);
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
  if (const absl::Status there = AllThere(*what_if, edited ? *edited : recording); !there.ok())
    return UsageError(self, std::string(there.message()));
  const auto program = RecordedProgram::Make(recording, *what_if, {});
  if (!program.ok()) return Unreadable(self, program.status());

  if (request.shrink) return ShrinkInto(self, recording, located->paths, request);
  if (request.on != "model") {
    const auto right = ReplayForReal(recording, **program, ForReal(request));
    if (!right.ok()) return Unreadable(self, right.status());
    return *right ? kDone : kProblem;
  }
  return ReplayOnModel(self, edited ? *edited : recording, *what_if, fitted ? &*fitted : nullptr, request);
}

}  // namespace ncclwatch::analyzer
