#include "analyzer/player/real.h"

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/console/print.h"
#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/files/input_file.h"
#include "analyzer/files/output_file.h"
#include "analyzer/files/scratch_folder.h"
#include "analyzer/player/base/play.h"
#include "analyzer/player/measured.h"
#include "analyzer/player/nccl/player.h"
#include "analyzer/player/script.h"
#include "analyzer/replay/fates.h"
#include "analyzer/replay/program.h"
#include "analyzer/replay/stopped.h"
#include "analyzer/run/job_process.h"
#include "analyzer/run/mpi/launcher.h"
#include "analyzer/run/own_files.h"
#include "analyzer/run/start_ranks.h"
#include "core/model/finding.h"
#include "core/model/text.h"
#include "core/text/printable.h"
#include "ncclwatch/functions/bandwidth.h"
#include "ncclwatch/functions/types.h"
#include "ncclwatch/nanoseconds.h"
#include "watchdog/rundir/launcher.h"

namespace ncclwatch::analyzer {
namespace {

using player::Kind;

// One rank of a replay: this process.

// The module that plays recorded calls of MPI, for the MPI that this rank is started by.

struct Abi {
  const char* name;
  const char* marker;  // a variable that its launcher sets
  const char* libraries[3];
};
constexpr Abi kAbis[] = {{"openmpi", "OMPI_COMM_WORLD_RANK", {"libmpi.so.40", "libmpi_abi.so.40", "libmpi.so.20"}},
                         {"mpich", "PMI_RANK", {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"}}};

bool OpenLibrary(const Abi& abi) {
  for (const char* library : abi.libraries)
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL)) return true;
  return false;
}

// By the launcher; where that tells nothing (srun), the first that is there.
const Abi* OpenMpi() {
  for (const Abi& abi : kAbis)
    if (std::getenv(abi.marker)) return OpenLibrary(abi) ? &abi : nullptr;
  for (const Abi& abi : kAbis)
    if (OpenLibrary(abi)) return &abi;
  return nullptr;
}

absl::Status PlayMpi(player::Script* script, player::Listener* listener) {
  const Abi* const abi = OpenMpi();
  if (!abi) return absl::NotFoundError("no library of MPI is found (libmpi.so.40, libmpi.so.12)");
  const std::string name = fmt::format("libncclwatch-replay-{}.so", abi->name);
  const std::string installed = "lib/ncclwatch/" + name, built = "lib/" + name;
  const auto path = FindOwnFile({installed.c_str(), built.c_str()});
  if (!path.ok()) return path.status();
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) return absl::UnavailableError(dlerror());
  const auto play = reinterpret_cast<player::PlayMpi>(dlsym(module, "ncclwatch_play_mpi"));
  if (!play) return absl::UnavailableError(*path + " is not this version's");
  const std::string problem = play(script, listener);
  return problem.empty() ? absl::OkStatus() : absl::DataLossError(problem);
}

// As the recorded process did, whose end or standstill the others' verdict was about.
void MeetFate(const Fates& fates, const reader::BoxImage& box) {
  const auto end = fates.EndOf(box);
  if (!end) return;
  if (end->stopped) {
    raise(SIGSTOP);
    return;
  }
  if (end->signal > 0) {
    std::signal(end->signal, SIG_DFL);
    raise(end->signal);
  }
  std::_Exit(end->status);
}

std::string ResultFile(const std::string& directory, int rank) {
  return fmt::format("{}/replay.{}.json", directory, rank);
}

// Why a rank's part of the recording cannot be played.
std::string FailureFile(const std::string& directory, int rank) {
  return fmt::format("{}/replay.{}.failure", directory, rank);
}

// Or until the directory is gone: rank 0 has seen that they are, and has removed it.
void StayUntilAllAreDone(const std::string& directory, int ranks) {
  std::error_code ignored;
  for (int rank = 0; rank < ranks && std::filesystem::exists(directory, ignored);)
    if (std::filesystem::exists(ResultFile(directory, rank), ignored))
      ++rank;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// what the launcher of this process says
rundir::Place OwnPlace() {
  return rundir::PlaceFrom([](std::string_view name) -> std::optional<std::string_view> {
    const char* const value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string_view>(value) : std::nullopt;
  });
}

// Plays the list, writes what it has measured, and stays until the others are done or this process is ended: a rank
// that had no more to do in the recording is not gone here either. `box` is the recorded process: if it had ended by
// the recording's verdict, or stood still, so does this one. An error: it cannot be played.
absl::Status PlayRank(const std::string& on, player::Script* script, const Fates& fates, const reader::BoxImage& box,
                      const std::string& directory) {
  script->directory = directory;
  Measured measured;
  absl::Status played =
      on == "mpi" ? PlayMpi(script, &measured) : PlayNccl(script, &measured, std::max(0, OwnPlace().local_rank));
  if (!script->failure.empty()) played = absl::DataLossError(script->failure);
  if (absl::IsDataLoss(played))
    WriteFile(FailureFile(directory, script->rank), std::string(played.message())).IgnoreError();
  if (!played.ok()) return played;
  // First, since the others wait for it: one that only left, with status 0, is no reason for a verdict.
  if (absl::Status written = measured.Write(ResultFile(directory, script->rank)); !written.ok()) return written;
  MeetFate(fates, box);
  StayUntilAllAreDone(directory, script->ranks);
  return absl::OkStatus();
}

// Starts the ranks of a replay under watch, and says what became of them.

struct Play {
  std::string on;                 // nccl, mpi
  std::vector<std::string> rank;  // the words of one rank's command
  std::string launcher;           // with {n} for the ranks; empty: of this command's choice
  std::string record;             // where the replay's own recording goes
  std::string directory;          // where the ranks meet
  int ranks = 0;
  std::int64_t recorded_ns = 0;
};

// NOLINTNEXTLINE(bugprone-exception-escape): JSON is moved without one
struct Played {
  int status = 0;         // of the job
  bool all_done = false;  // every rank has played its list
  double seconds = 0;
  Measured measured;
  nlohmann::ordered_json diagnosis;
};

// A replay that stands still is told about soon, but not sooner than the recorded job's own pauses explain.
constexpr std::int64_t kShortest_s = 10, kLongest_s = 300;

std::vector<std::string> LauncherWords(const Play& play) {
  std::string text = play.launcher;
  if (text.empty()) {
    text = "mpirun -n {n}";
    const auto mpi = MpiOfLauncher("mpirun", Surroundings::OfThisProcess());
    if (mpi && mpi->mpi == Mpi::kOpenMpi) text += " --oversubscribe";
    if (mpi && mpi->mpi == Mpi::kOpenMpi && geteuid() == 0) text += " --allow-run-as-root";
  }
  return absl::StrSplit(absl::StrReplaceAll(text, {{"{n}", fmt::format("{}", play.ranks)}}), ' ', absl::SkipEmpty());
}

int Execute(const std::vector<std::string>& words) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a replay that is ended leaves no ranks behind
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    dup2(STDERR_FILENO, STDOUT_FILENO);  // what is printed here is the outcome alone
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return StatusOf(status);
}

absl::StatusOr<Played> StartPlay(const Play& play) {
  const auto self = OwnCommand();
  if (!self.ok()) return self.status();
  const std::string verdict = play.directory + "/replay.diagnosis.json";
  const std::int64_t patience = std::clamp(3 * play.recorded_ns / 1'000'000'000, kShortest_s, kLongest_s);
  std::vector<std::string> words{*self, "run", "--on-fault", "abort", "--json", verdict, "--record", play.record};
  if (!std::getenv("NCCLWATCH_TIMEOUT")) words.insert(words.end(), {"--timeout", fmt::format("{}", patience)});
  if (!std::getenv("NCCLWATCH_LOG")) words.insert(words.end(), {"--log", "error"});
  words.emplace_back("--");
  const std::vector<std::string> launcher =
      play.on == "mpi" || !play.launcher.empty()
          ? LauncherWords(play)
          : std::vector<std::string>{*self, "replay", "--start-ranks", fmt::format("{}", play.ranks), "--"};
  words.insert(words.end(), launcher.begin(), launcher.end());
  words.push_back(*self);
  words.insert(words.end(), play.rank.begin(), play.rank.end());

  Played played;
  const auto began = std::chrono::steady_clock::now();
  played.status = Execute(words);
  played.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  played.all_done = true;
  std::error_code ignored;
  for (int rank = 0; rank < play.ranks; ++rank) {
    InputFile failure(FailureFile(play.directory, rank));
    if (std::string why; std::getline(failure, why)) return absl::DataLossError(why);
    const std::string path = ResultFile(play.directory, rank);
    if (!std::filesystem::exists(path, ignored)) {
      played.all_done = false;
      continue;
    }
    if (const absl::Status added = played.measured.Add(path); !added.ok()) return added;
  }
  InputFile file(verdict);
  played.diagnosis = nlohmann::ordered_json::parse(file, nullptr, false);
  if (!played.diagnosis.is_object()) return absl::UnavailableError("the replay could not be started");
  return played;
}

// The outcome of a replay on a real library, for people: lines like those of nccl-tests, beside what was recorded.

std::optional<double> MedianUs(std::vector<std::int64_t> ns) {
  if (ns.empty()) return std::nullopt;
  const auto middle = ns.begin() + static_cast<std::ptrdiff_t>(ns.size() / 2);
  std::nth_element(ns.begin(), middle, ns.end());
  return static_cast<double>(*middle) / 1000;
}

// Of NCCL's calls nobody records their sizes in bytes.
std::uint64_t BytesOf(const Kind& kind) {
  return functions::IsMpi(kind.function) ? kind.bytes : kind.count * functions::DatatypeBytes(kind.dtype);
}

std::string NameOf(const Kind& kind, const RecordedProgram& program) {
  if (kind.comm < 0) return "";
  const auto at = static_cast<std::size_t>(kind.comm);
  return program.comms[at].label.empty() ? diagnosis::Hex16(program.comm_ids()[at]).substr(0, 8)
                                         : Printable(program.comms[at].label);
}

std::optional<functions::Bandwidth> BandwidthIn(const Kind& kind, const RecordedProgram& program,
                                                std::optional<double> us) {
  if (!us || kind.comm < 0) return std::nullopt;
  const auto ranks = static_cast<std::uint32_t>(program.comms[static_cast<std::size_t>(kind.comm)].size());
  return functions::BandwidthOf(functions::PatternOf(kind.function), BytesOf(kind), ranks, *us * 1000);
}

std::string Number(std::optional<double> value) { return value ? fmt::format("{:.1f}", *value) : ""; }

void PrintMeasured(const Measured& measured, const RecordedProgram& program) {
  Table table({{"SIZE", true},
               {"COUNT", true},
               {"TYPE"},
               {"REDOP"},
               {"ROOT", true},
               {"OP"},
               {"COMM"},
               {"CALLS", true},
               {"RECORDED us", true},
               {"TIME us", true},
               {"ALGBW GB/s", true},
               {"BUSBW GB/s", true},
               {"WRONG", true}});
  for (const auto& [kind, of] : measured.kinds) {
    const auto us = MedianUs(of.took_ns);
    const auto bandwidth = BandwidthIn(kind, program, us);
    const bool reduces = kind.reduction != format::kNoReduction;
    const bool user = kind.reduction == format::kUserReduction;
    table.Add({fmt::format("{}", BytesOf(kind)), fmt::format("{}", kind.count),
               kind.dtype == format::kNoType ? "" : std::string(functions::DatatypeName(kind.dtype)),
               !reduces ? ""
               : user   ? "user"
                        : std::string(functions::ReductionName(kind.reduction)),
               kind.root < 0 ? "" : fmt::format("{}", kind.root), std::string(functions::OpName(kind.function)),
               NameOf(kind, program), fmt::format("{}", of.calls), Number(MedianUs(of.recorded_ns)), Number(us),
               bandwidth ? fmt::format("{:.3f}", bandwidth->algbw_GBps) : "",
               bandwidth ? fmt::format("{:.3f}", bandwidth->busbw_GBps) : "",
               of.checked == 0 ? "N/A" : fmt::format("{}", of.wrong)});
  }
  if (!table.empty()) Print("{}", table.Text());
}

nlohmann::ordered_json MeasuredJson(const Measured& measured, const RecordedProgram& program) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(nullptr); };
  for (const auto& [kind, of] : measured.kinds) {
    const auto us = MedianUs(of.took_ns);
    const auto bandwidth = BandwidthIn(kind, program, us);
    const bool known = kind.reduction != format::kNoReduction && kind.reduction != format::kUserReduction;
    rows.push_back(
        {{"op", functions::OpName(kind.function)},
         {"communicator", kind.comm < 0
                              ? Json(nullptr)
                              : Json(diagnosis::Hex16(program.comm_ids()[static_cast<std::size_t>(kind.comm)]))},
         {"bytes", BytesOf(kind)},
         {"count", kind.count},
         {"dtype", kind.dtype == format::kNoType ? Json(nullptr) : Json(functions::DatatypeName(kind.dtype))},
         {"reduction", known ? Json(functions::ReductionName(kind.reduction)) : Json(nullptr)},
         {"root", kind.root < 0 ? Json(nullptr) : Json(kind.root)},
         {"calls", of.calls},
         {"recorded_us", number(MedianUs(of.recorded_ns))},
         {"time_us", number(us)},
         {"algbw_GBps", bandwidth ? Json(bandwidth->algbw_GBps) : Json(nullptr)},
         {"busbw_GBps", bandwidth ? Json(bandwidth->busbw_GBps) : Json(nullptr)},
         {"checked", of.checked},
         {"wrong", of.wrong}});
  }
  return rows;
}

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// All ranks of one start on a node find the same one, those of the next start another.
absl::StatusOr<std::string> MeetingPlace(const RealRequest& request, const rundir::Place& place) {
  std::string path = request.meet;
  if (path.empty() && place.local_world_size != place.world_size)
    return absl::InvalidArgumentError("ranks on several nodes need --meet DIR, a new directory that all of them see");
  if (path.empty()) {
    const rundir::Instance started = rundir::InstanceOf(getpid(), place);
    path = fmt::format("ncclwatch-replay-{}-{}", started.pid, started.start_time);
  }
  if (absl::Status made = MakeFolders(path); !made.ok()) return made;
  std::error_code error;
  return fs::absolute(path, error).string();
}

absl::StatusOr<bool> PlayOwnRank(const Recording& recording, const RecordedProgram& program, const RealRequest& request,
                                 const rundir::Place& place) {
  const int ranks = PlayingRanks(program);
  if (place.world_size != ranks)
    return absl::InvalidArgumentError(
        fmt::format("the recording has {} ranks, the launcher started {}", ranks, place.world_size));
  const auto directory = MeetingPlace(request, place);
  if (!directory.ok()) return directory.status();
  const auto script = ScriptOf(program, place.rank, request.loops);
  const absl::Status played =
      PlayRank(request.on, script.get(), Fates(recording), program.process(place.rank)->process(), *directory);
  if (!played.ok()) return played;
  if (request.one_rank || place.rank != 0) return true;
  Measured measured;
  for (int rank = 0; rank < ranks; ++rank)
    if (const absl::Status added = measured.Add(ResultFile(*directory, rank)); !added.ok()) return added;
  PrintMeasured(measured, program);
  std::error_code ignored;
  if (request.meet.empty()) fs::remove_all(*directory, ignored);
  return measured.wrong() == 0;
}

// What each rank is still in.
std::vector<StoppedCall> StoppedIn(const std::string& directory) {
  std::vector<StoppedCall> stopped;
  const Recording replayed = Recording::Open({directory});
  for (const ProcessRecording& process : replayed.processes()) {
    PieceReader pieces(process);
    std::vector<reader::Failure> ignored;
    for (Piece piece; pieces.Next(&piece, &ignored);)
      for (const reader::Call& call : piece.calls) {
        const auto on = std::find_if(piece.communicators.begin(), piece.communicators.end(), [&](const auto& one) {
          return one.index == call.communicator && one.generation == call.generation;
        });
        const bool known = on != piece.communicators.end();
        const bool on_gpu = known && (call.flags & format::kMarked) != 0 && !on->Finished(call.ticket);
        if (call.returned_ns != 0 && !on_gpu) continue;
        stopped.push_back({process.rank(), known ? on->id : 0, call.position, call.function});
      }
  }
  return stopped;
}

// What the application never freed the replay does not free either: that is a finding of the recording.
Json FindingsOfReplay(const Played& played) {
  Json findings = Json::array();
  for (const Json& finding : played.diagnosis["findings"])
    if (finding.value("kind", "") != diagnosis::Name(diagnosis::Kind::kResourceLeak)) findings.push_back(finding);
  return findings;
}

void PrintPlayed(const Played& played, const RecordedProgram& program, std::uint64_t calls, bool completed) {
  PrintMeasured(played.measured, program);
  Print("{}: {} calls of {} ranks in {}{}\n", completed ? "completed" : "stopped", calls, PlayingRanks(program),
        DurationText(absl::Seconds(played.seconds)),
        played.measured.wrong() == 0 ? "" : fmt::format(", {} with wrong data", played.measured.wrong()));
  if (!played.measured.not_played.empty()) {
    std::string text;
    for (const auto& [op, count] : played.measured.not_played)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, op);
    Print("not played: {}\n", text);
  }
  for (const Json& finding : FindingsOfReplay(played))
    Print("{}: {}\n", finding.value("kind", ""), Printable(finding.value("summary", "")));
}

absl::StatusOr<bool> StartAll(const Recording& recording, const RecordedProgram& program, const RealRequest& request) {
  const int ranks = PlayingRanks(program);
  if (request.ranks != 0 && request.ranks != ranks)
    return absl::InvalidArgumentError(
        fmt::format("the recording has {} ranks, not {}: choose some with --ranks", ranks, request.ranks));
  const ScratchFolder temporary("replay");
  if (temporary.path().empty()) return absl::UnavailableError("no temporary directory can be made");
  Play play{.on = request.on,
            .rank = {"replay", "--on", request.on, "--one-rank", "--meet", temporary.path()},
            .launcher = request.launcher,
            .record = request.out.empty() ? temporary.path() + "/recording" : request.out,
            .directory = temporary.path(),
            .ranks = ranks,
            .recorded_ns = 0};
  for (const std::string& word : request.words) play.rank.push_back(word);
  std::error_code ignored;
  for (const std::string& path : request.paths) play.rank.push_back(fs::absolute(path, ignored).string());
  play.recorded_ns = absl::ToUnixNanos(recording.End()) - program.began_ns();
  const auto played = StartPlay(play);
  if (!played.ok()) return played.status();

  const std::uint64_t wrong = played->measured.wrong();
  const Json findings = FindingsOfReplay(*played);
  const bool completed = played->all_done && played->status == 0 && findings.empty();
  std::uint64_t calls = 0;
  for (const auto& [kind, of] : played->measured.kinds) calls += of.calls;
  if (request.json) {
    PrintJson({{"schema", "ncclwatch.replay/1"},
               {"on", request.on},
               {"ranks", ranks},
               {"calls", calls},
               {"completed", completed},
               {"stopped", completed ? Json::array() : StoppedJson(StoppedIn(play.record))},
               {"simulated_s", nullptr},
               {"replayed_s", played->seconds},
               {"recorded_s", InSeconds(play.recorded_ns)},
               {"steps", Json::array()},
               {"calls_per_s", static_cast<double>(calls) / played->seconds},
               {"wrong", wrong},
               {"not_played", played->measured.not_played},
               {"rows", MeasuredJson(played->measured, program)},
               {"run_directory", request.out.empty() ? Json(nullptr) : Json(request.out)},
               {"findings", findings}});
  } else {
    PrintPlayed(*played, program, calls, completed);
  }
  return completed && wrong == 0;
}

}  // namespace

absl::StatusOr<bool> ReplayForReal(const Recording& recording, const RecordedProgram& program,
                                   const RealRequest& request) {
  const rundir::Place place = OwnPlace();
  const bool started = request.ranks == 0 && place.launcher != rundir::Launcher::kNone && place.rank >= 0;
  return started ? PlayOwnRank(recording, program, request, place) : StartAll(recording, program, request);
}

}  // namespace ncclwatch::analyzer
