#include "analyzer/commands/replay/request.h"

#include <absl/status/statusor.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/console/units.h"
#include "analyzer/trace/filter.h"

namespace ncclwatch::analyzer {
namespace {

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

// An option that the other kinds of replay have; null: none.
const char* Misplaced(const ReplayRequest& request) {
  const WhatIf& what_if = request.what_if;
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

// Anything that changes what is replayed, or on what.
bool AsksForMore(const ReplayRequest& request) {
  return request.on != "model" || !request.delays.empty() || !request.slower.empty() || !request.dropped.empty() ||
         !request.links.empty() || !request.communicators.empty() || !request.ranks.empty() || !request.steps.empty() ||
         !request.fit.empty() || !request.merge_text.empty() || request.scale != 0 || request.no_gaps;
}

// Whether they go together, and what their texts mean.
std::optional<int> Check(const Command& self, ReplayRequest* request) {
  if (request->on != "model" && request->on != "nccl" && request->on != "mpi")
    return UsageError(self, "--on is model, nccl or mpi, not '" + request->on + "'");
  auto what_if = WhatIfOf(*request);
  if (!what_if.ok()) return UsageError(self, std::string(what_if.status().message()));
  request->what_if = *std::move(what_if);
  if (request->ideal && (request->shrink || AsksForMore(*request)))
    return UsageError(self, "--ideal takes the recording as it is");
  if (const char* const option = Misplaced(*request))
    return UsageError(self, request->shrink ? "--shrink takes the recording as it is, on the model"
                                            : fmt::format("{} means nothing with --on {}", option, request->on));
  const auto time_limit = ParseDuration(request->time_limit_text);
  if (!time_limit || *time_limit <= absl::ZeroDuration())
    return UsageError(self, "--time-limit takes a time like 2m, not '" + request->time_limit_text + "'");
  request->time_limit = *time_limit;
  request->range = ParseSteps(request->steps);
  if (!request->steps.empty() && !request->range)
    return UsageError(self, "--steps takes a range like 100..110, not '" + request->steps + "'");
  if (!request->merge_text.empty()) {
    const auto bytes = ParseBytes(request->merge_text);
    if (!bytes || *bytes == 0)
      return UsageError(self, "--merge-below takes a size like 4MiB, not '" + request->merge_text + "'");
    request->merge_below = *bytes;
  }
  if ((request->merge_below != 0 || request->scale != 0) && request->range)
    return UsageError(self, "--steps goes with neither --merge-below nor --scale");
  if (request->shrink && request->out.empty())
    return UsageError(self, "--shrink needs -o REPRO/, where the program goes");
  return std::nullopt;
}

// Changes of the recording, and what else the model is told.
void DeclareChanges(Options* options, ReplayRequest* request) {
  options->add_option("--delay", request->delays, "the rank begins so much later: rank=3:2s")
      ->type_name("rank=R:T")
      ->allow_extra_args(false);
  options
      ->add_option("--slow", request->slower,
                   "what lies between the calls of the rank takes so much longer: rank=3:20%")
      ->type_name("rank=R:P%")
      ->allow_extra_args(false);
  options->add_option("--drop", request->dropped, "the rank leaves that call (seq) out: rank=5:1042")
      ->type_name("rank=R:SEQ")
      ->allow_extra_args(false);
  options->add_option("--fit", request->fit, "take MPI's costs from this recording (self: from the replayed one)")
      ->type_name("DIR");
  options->add_option("--link", request->links, "so much of the bandwidth between these hosts is left: node1-node2:50%")
      ->type_name("A-B:P%")
      ->allow_extra_args(false);
  options->add_option("--ranks", request->ranks, "only these job ranks, on their own communicators")->type_name("LIST");
  options->add_option("--steps", request->steps, "only these steps of the training loop: 100..110")->type_name("A..B");
  options->add_option("--comm", request->communicators, "only on this communicator: label or beginning of its id")
      ->type_name("NAME")
      ->allow_extra_args(false);
  options
      ->add_option("--merge-below", request->merge_text,
                   "collectives smaller than this that follow one another are one: 4MiB")
      ->type_name("SIZE");
  options->add_option("--scale", request->scale, "so many ranks, where the pattern of the recording can be continued")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  DeclareAttempt(options, &request->attempt);
  options->add_flag("--no-gaps", request->no_gaps, "nothing lies between calls");
}

// What is done instead of a replay, and where the result goes.
void DeclareWays(Options* options, ReplayRequest* request) {
  options->add_flag("--ideal", request->ideal, "what if nobody were slow: who and what costs how much of a step");
  options->add_flag("--shrink", request->shrink, "write the smallest program that shows the same fault, into --out");
  options->add_option("--time-limit", request->time_limit_text, "of --shrink: then take what is left (default: 2m)")
      ->type_name("T");
  options
      ->add_option("-o,--out", request->out,
                   "write the outcome here: it reads like a recorded job's (with --ideal: a file)")
      ->type_name("DIR");
}

void DeclareLibrary(Options* options, ReplayRequest* request) {
  options->add_option("-n", request->start, "on NCCL or MPI: start so many ranks, as many as were recorded")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  options->add_option("--loop", request->loops, "on NCCL or MPI: so many times")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  options
      ->add_option("--launcher", request->launcher,
                   "start the ranks by this, {n} of them (default for MPI: mpirun -n {n})")
      ->type_name("WORDS");
  options
      ->add_option("--meet", request->meet, "a directory in which ranks that a launcher has started find one another")
      ->type_name("DIR");
  options->add_flag("--one-rank", request->one_rank)->group("");  // of what `--on` starts: it prints nothing
}

}  // namespace

std::optional<int> ReadRequest(const Command& self, const Arguments& arguments, ReplayRequest* request) {
  Options options(self, kReplayHelp);
  options.add_option("DIR|FILE", request->words, "recordings, and black boxes whose rings have not wrapped")
      ->type_name("");
  options.add_option("--on", request->on, "model: a simulation (the default); nccl, mpi: the library itself")
      ->type_name("WHAT");
  DeclareChanges(&options, request);
  DeclareWays(&options, request);
  DeclareLibrary(&options, request);
  options.add_flag("--json", request->json, "print JSON");
  if (const auto status = options.Read(arguments)) return status;
  return Check(self, request);
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

}  // namespace ncclwatch::analyzer
