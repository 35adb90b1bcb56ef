// `ncclwatch run`: a job under watch, from before its first process to after its last.
#include <absl/status/statusor.h>
#include <absl/time/clock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/files/output_file.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/run/collector_process.h"
#include "analyzer/run/deaths.h"
#include "analyzer/run/epilogue.h"
#include "analyzer/run/idle_launcher.h"
#include "analyzer/run/job_process.h"
#include "analyzer/run/pick_library.h"
#include "analyzer/run/ranks_only.h"
#include "analyzer/run/setting_up.h"
#include "analyzer/run/signal_relay.h"
#include "analyzer/segments/segment_file.h"
#include "watchdog/act/end_job.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kRunHelp[] =
    "Run a job under watch: CMD is torchrun ..., mpirun ..., srun ..., ./a.out.\n\n"
    "Makes the run directory, preloads the library, runs CMD in the foreground on this terminal, forwards signals to "
    "it,\n"
    "outlives its ranks and prints the diagnosis once.\n\n"
    "The library is libncclwatch-openmpi.so or libncclwatch-mpich.so if the launcher, a program or its mpi4py uses "
    "that\n"
    "MPI, otherwise libncclwatch.so; --log info says which and why. All come from this installation. mpirun\n"
    "and srun get LD_PRELOAD by their own options (-x, -genv, --export), for the ranks alone; otherwise it is in the\n"
    "environment of CMD. An LD_PRELOAD that is already set is kept. Options mirror the NCCLWATCH_* variables and win\n"
    "over them. A run directory made here is removed if the job ends with status 0 and no fault was found, unless\n"
    "--keep is given.\n\n"
    "Exit status: the job's own, 128+n if signal n ended it, 127 or 126 if it could not be started, 86 if ncclwatch\n"
    "ended it (--on-fault abort), 2 usage, 3 if libncclwatch.so is missing. If no run directory can be\n"
    "made, the job runs without watch.";

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kScan(100);         // how often new boxes are looked for
constexpr std::chrono::seconds kSurvivorsWait(2);       // for ranks that outlive their launcher
constexpr auto kFileClockLag = absl::Milliseconds(50);  // times of files are those of the last timer tick

struct RunRequest {
  std::vector<std::string> command;
  std::string json;
  std::string mpi;
  std::string record;
  bool keep = false;
};

struct Mirror {
  const char* option;
  const char* variable;
  const char* type;
  const char* meaning;
};
constexpr Mirror kMirrors[] = {
    {"--timeout", "NCCLWATCH_TIMEOUT", "SECONDS", "time without progress before a stall is reported, or auto"},
    {"--on-fault", "NCCLWATCH_ON_FAULT", "WHAT", "report, dump or abort"},
    {"--out", "NCCLWATCH_OUT", "DIR", "durable directory to which evidence is copied on a fault"},
    {"--hook", "NCCLWATCH_HOOK", "COMMAND",
     "command to start once on a verdict, with diagnosis.json on its standard input"},
    {"--gpu", "NCCLWATCH_GPU", "MARKS", "device progress marks: off, end or both"},
    {"--log", "NCCLWATCH_LOG", "LEVEL", "off, error, warn, info or debug"},
    {"--dir", "NCCLWATCH_DIR", "DIR", "run directory; it is never removed"},
    {"--ignore", "NCCLWATCH_IGNORE", "FILE", "known findings to leave out"},
    {"--job", "NCCLWATCH_JOB", "NAME", "name of the job"},
    {"--ring", "NCCLWATCH_RING", "N", "records kept for each process, rounded up to a power of two"},
    {"--communicators", "NCCLWATCH_COMMUNICATORS", "N", "communicators watched at once in each process"},
};

// A complaint of a variable, in the words of the option that has set it.
std::string AsOption(const settings::Complaint& complaint, const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < std::size(kMirrors); ++i)
    if (!values[i].empty() && complaint.variable == kMirrors[i].variable)
      return fmt::format("{} takes {}, not '{}'", kMirrors[i].option, complaint.accepted, values[i]);
  return complaint.text;
}

// Options become variables of this process, which the job inherits. A mistake in a variable is the job's to say, a
// mistake in an option is a usage error.
absl::StatusOr<settings::Settings> Apply(const std::vector<std::string>& values) {
  std::vector<settings::Complaint> before, after;
  settings::OfThisProcess(&before);
  for (std::size_t i = 0; i < std::size(kMirrors); ++i)
    if (!values[i].empty()) setenv(kMirrors[i].variable, values[i].c_str(), 1);
  settings::Settings settings = settings::OfThisProcess(&after);
  for (const settings::Complaint& complaint : after)
    if (std::find(before.begin(), before.end(), complaint) == before.end())
      return absl::InvalidArgumentError(AsOption(complaint, values));
  return settings;
}

std::optional<int> ReadRequest(const Command& self, const Arguments& arguments, RunRequest* request,
                               settings::Settings* settings) {
  Options options(self, kRunHelp);
  options.prefix_command();
  std::vector<std::string> values(std::size(kMirrors));
  for (std::size_t i = 0; i < values.size(); ++i)
    options.add_option(kMirrors[i].option, values[i], kMirrors[i].meaning)->type_name(kMirrors[i].type);
  options
      .add_option("--json", request->json,
                  "write the diagnosis to this file as JSON, also for a healthy job; - is standard output")
      ->type_name("FILE");
  options
      .add_option("--mpi", request->mpi,
                  "preload the library for this MPI, no matter what CMD is: openmpi, mpich or none")
      ->type_name("MPI");
  options
      .add_option("--record", request->record,
                  "record every call, and keep all that is known of the job in this directory")
      ->type_name("DIR");
  options.add_flag("--keep", request->keep, "keep the run directory of a healthy job");
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (const auto status = options.Read(Arguments(arguments.begin(), dashes))) return status;
  request->command = options.remaining();
  if (!request->command.empty() && request->command.front().starts_with('-'))
    return UsageError(self, "there is no option '" + request->command.front() + "'");
  if (dashes != arguments.end()) request->command.insert(request->command.end(), dashes + 1, arguments.end());
  if (!request->mpi.empty() && !MpiNamed(request->mpi))
    return UsageError(self, "--mpi is openmpi, mpich or none, not '" + request->mpi + "'");
  if (request->command.empty()) return UsageError(self, "what shall be run? ncclwatch run [OPTIONS] -- CMD...");
  if (!request->record.empty()) {
    std::error_code error;
    request->record = std::filesystem::absolute(request->record, error).lexically_normal();
    if (!BoxFiles(request->record).empty() || !SegmentFiles(request->record).empty())
      return UsageError(self, request->record + " holds a recording already");
    setenv("NCCLWATCH_TRACE", "full", 1);
    setenv("NCCLWATCH_TRACE_DIR", request->record.c_str(), 1);
  }
  auto applied = Apply(values);
  if (!applied.ok()) return UsageError(self, std::string(applied.status().message()));
  *settings = *std::move(applied);
  return std::nullopt;
}

void Wait(SignalRelay* relay, Deaths* deaths, CollectorProcess* collector, pid_t job, Clock::duration at_most = kScan) {
  std::vector<pollfd> polled{{relay->descriptor(), POLLIN, 0}};
  deaths->AddTo(&polled);
  // Never negative, which would wait for ever: the deadline may have passed since it was looked at.
  const auto wait = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(at_most), kScan * 0, kScan);
  poll(polled.data(), polled.size(), static_cast<int>(wait.count()));
  deaths->Look();
  deaths->Scan();
  relay->Relay(job);
  collector->Look();
}

// Until the job's process has ended, and its ranks too, unless they mean to stay. Returns its wait status.
int Accompany(pid_t job, IdleLauncher idle, SignalRelay* relay, Deaths* deaths, CollectorProcess* collector) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(job, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
    Wait(relay, deaths, collector, job);
    idle.Look(job, *deaths);
  }
  const auto deadline = Clock::now() + kSurvivorsWait;
  deaths->Scan();
  for (deaths->Look(); deaths->AnyAlive() && Clock::now() < deadline;)
    Wait(relay, deaths, collector, 0, deadline - Clock::now());
  return status;
}

void SayWhereItStands(const Epilogue& epilogue, const Deaths& deaths, const RunPlace& place,
                      const RunRequest& request) {
  if (!epilogue.fault && !epilogue.slow && !epilogue.clean.empty()) Note("{}", epilogue.clean);
  if (!request.record.empty() && epilogue.watched)
    Note("recorded in {}: ncclwatch stats {}", request.record, request.record);
  if (!epilogue.watched) Note("no process of this job called NCCL or MPI under watch: there is nothing to diagnose");
  if (deaths.AnyAlive()) Note("processes of the job still run: ncclwatch diagnose {}", place.path());
}

int Finish(const RunRequest& request, const settings::Settings& settings, int status, Deaths* deaths, RunPlace* place) {
  const bool say = settings.log >= settings::LogLevel::kWarn && settings.on;
  const Epilogue epilogue = Conclude(deaths, status, settings);
  if (say) SayWhereItStands(epilogue, *deaths, *place, request);
  if (!request.json.empty())
    if (const absl::Status written = WriteFile(request.json, epilogue.json); !written.ok())
      Note("{}", std::string(written.message()));
  const bool ended_by_us = settings.on_fault == settings::OnFault::kAbort && epilogue.fault &&
                           (epilogue.ended_by_us || status == act::kEndedByUs || deaths->ExitSeen(act::kEndedByUs));
  const bool healthy = status == 0 && !epilogue.fault && !epilogue.slow;
  if (!request.record.empty()) CopyEvidence(place->path(), request.record);
  if (!deaths->AnyAlive() && ((healthy && !request.keep) || !epilogue.watched)) place->Remove();
  return ended_by_us ? act::kEndedByUs : status;
}

// The job comes first: other users may have taken every place for a run directory.
int RunUnwatched(const Command& self, const std::vector<std::string>& command, const absl::Status& why) {
  Note("not watching: {}", std::string(why.message()));
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));  // execvp changes nothing
  words.push_back(nullptr);
  std::signal(SIGXFSZ, SIG_DFL);
  execvp(words[0], words.data());
  const int error = errno;
  Complain(self.name, "{}: {}", command.front(), std::strerror(error));
  return StatusOfFailure(error);
}

// The library for the job's MPI; says which, and what will not be seen.
std::string Picked(const std::string& plain, const RunRequest& request, const settings::Settings& settings) {
  const MpiChoice mpi = request.mpi.empty() ? ChooseMpi(request.command, Surroundings::OfThisProcess())
                                            : MpiChoice{*MpiNamed(request.mpi), "asked for by --mpi", ""};
  const LibraryChoice library = PickLibrary(plain, mpi);
  const auto say = [&](settings::LogLevel level, const std::string& what) {
    if (settings.on && settings.log >= level && !what.empty()) WriteNote(what);
  };
  say(settings::LogLevel::kWarn, library.warning);
  say(settings::LogLevel::kInfo, fmt::format("preloading {}: {}", FileName(library.path), library.why));
  return library.path;
}

std::string ValueOf(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> OurVariables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry)
    if (const std::string_view text = *entry; text.starts_with("NCCLWATCH"))
      names.emplace_back(text.substr(0, text.find('=')));
  return names;
}

// For the ranks alone where their launcher has an option for it, else for the launcher and all that it starts.
void SetPreload(const std::string& library, const std::string& before, std::vector<std::string>* command) {
  const PreloadRequest request{.library = library,
                               .inherited = before,
                               .slurm_export = ValueOf("SLURM_EXPORT_ENV"),
                               .ours = OurVariables(),
                               .open_mpi_environment_list = !ValueOf("OMPI_MCA_mca_base_env_list").empty()};
  if (auto words = PreloadRanksOnly(*command, request, Surroundings::OfThisProcess()))
    *command = *std::move(words);
  else
    setenv("LD_PRELOAD", Preload(library, before).c_str(), 1);
}

}  // namespace

int Run(const Command& self, const Arguments& arguments) {
  RunRequest request;
  settings::Settings settings;
  if (const auto status = ReadRequest(self, arguments, &request, &settings)) return *status;

  const auto library = FindLibrary();
  if (!library.ok()) return Unreadable(self, library.status());
  auto made = RunPlace::Make(settings, request.command.front());
  if (!made.ok()) return RunUnwatched(self, request.command, made.status());
  RunPlace& place = *made;
  setenv("NCCLWATCH_DIR", place.path().c_str(), 1);
  const std::string preloaded = ValueOf("LD_PRELOAD");
  if (!PreloadsOurs(preloaded)) {
    const auto preloadable = place.NameFor(Picked(*library, request, settings));
    if (!preloadable.ok()) return Unreadable(self, preloadable.status());
    SetPreload(*preloadable, preloaded, &request.command);
  }

  CollectorProcess collector;
  if (!request.record.empty()) {
    if (const absl::Status folder = MakeFolders(request.record); !folder.ok()) return Unreadable(self, folder);
    if (const absl::Status started = collector.Start(place.path(), request.record, settings.trace_most_bytes);
        !started.ok())
      Note("not recorded: {}", std::string(started.message()));
  }
  Deaths deaths(place.path(), absl::Now() - kFileClockLag);
  SignalRelay relay;
  const Started job =
      StartJob(request.command, relay.mask_before(), relay.child_action_before(), relay.pipe_action_before());
  if (job.pid < 0) {
    Complain(self.name, "{}: {}", request.command.front(), std::strerror(job.error));
    place.Remove();
    return StatusOfFailure(job.error);
  }
  const IdleLauncher idle(request.command.front(), settings.on_fault == settings::OnFault::kAbort);
  const int status = StatusOf(Accompany(job.pid, idle, &relay, &deaths, &collector));
  collector.Finish();
  return Finish(request, settings, status, &deaths, &place);
}

}  // namespace ncclwatch::analyzer
