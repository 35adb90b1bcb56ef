#include "analyzer/shrink/run_program.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "analyzer/files/input_file.h"
#include "analyzer/files/scratch_folder.h"
#include "analyzer/run/own_files.h"
#include "analyzer/shrink/settle.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

// Alone it is stopped after so many seconds, which is enough for a few calls even if the machine is busy. Under
// ncclwatch a stall is reported after 3 s, and the run is ended by its verdict.
constexpr int kAloneS = 5, kWatchedS = 40;
constexpr absl::Duration kLongestTool = absl::Seconds(90), kToolLook = absl::Milliseconds(20);

struct Tools {
  std::string on;
  std::vector<std::string> words;                             // for make
  std::vector<std::pair<std::string, std::string>> settings;  // of the environment
};

// ---- what there is --------------------------------------------------------------------------------------------------

bool CanRun(const std::string& name) {
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(path ? path : "", ':')))
    if (access(fmt::format("{}/{}", folder, name).c_str(), X_OK) == 0) return true;
  return false;
}

std::string HeaderFolder() {
  std::vector<std::string> folders{"/usr/local/cuda/include", "/usr/local/include", "/usr/include"};
  if (const char* const home = std::getenv("CUDA_HOME"))
    folders.insert(folders.begin(), std::string(home) + "/include");
  if (const auto own = FindOwnFile({"../cuda-headers/include/nccl.h"}); own.ok())
    folders.push_back(std::filesystem::path(*own).parent_path().string());
  for (const std::string& folder : folders)
    if (access((folder + "/nccl.h").c_str(), R_OK) == 0 && access((folder + "/cuda_runtime.h").c_str(), R_OK) == 0)
      return folder;
  return "";
}

std::string CudartIn(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().starts_with("libcudart.so.")) return entry.path().string();
  return "";
}

bool HasStartMarks(const Job& job) {
  return std::any_of(job.boxes.begin(), job.boxes.end(), [](const reader::BoxImage& box) {
    return std::any_of(box.calls.begin(), box.calls.end(), [](const reader::Call& call) {
      return !functions::IsMpi(call.function) && (call.flags & format::kStartMarked) != 0;
    });
  });
}

absl::StatusOr<Tools> SoftgpuTools(const Job& job) {
  const auto nccl = FindOwnFile({"lib/ncclwatch/demo/libnccl.so.2", "softgpu/libnccl.so.2"});
  if (!nccl.ok()) return absl::NotFoundError("softgpu is not installed");
  const std::string folder = std::filesystem::path(*nccl).parent_path().string(), cudart = CudartIn(folder);
  if (cudart.empty()) return absl::NotFoundError("softgpu's libcudart is not installed");
  const std::string headers = HeaderFolder();
  if (headers.empty()) return absl::NotFoundError("there is no folder with nccl.h and cuda_runtime.h (CUDA_HOME)");
  Tools tools{
      "softgpu",
      {"CPPFLAGS=-I" + headers, "LDFLAGS=-Wl,-rpath-link," + folder, fmt::format("LDLIBS={} {}", *nccl, cudart)},
      {{"LD_LIBRARY_PATH", folder}}};
  if (HasStartMarks(job)) tools.settings.emplace_back("NCCLWATCH_GPU", "both");
  return tools;
}

absl::StatusOr<Tools> MpiTools(const Job& job) {
  const bool mpich = job.boxes.front().nccl_library.find("MPICH") != std::string::npos;
  const std::string kind = mpich ? "mpich" : "openmpi";
  for (const std::string& suffix : {"." + kind, std::string()}) {
    if (!CanRun("mpicc" + suffix) || !CanRun("mpirun" + suffix)) continue;
    // As root, and with more ranks than processors, Open MPI starts nothing unless it is told to.
    return Tools{mpich ? "MPICH" : "Open MPI",
                 {"MPICC=mpicc" + suffix, "MPIRUN=mpirun" + suffix},
                 {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                  {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                  {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                  {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}}};
  }
  return absl::NotFoundError(fmt::format("there is no mpicc and mpirun of {}", mpich ? "MPICH" : "Open MPI"));
}

absl::StatusOr<Tools> FindTools(const Job& job) {
  if (!CanRun("make")) return absl::NotFoundError("there is no make");
  return SpeaksMpi(job) ? MpiTools(job) : SoftgpuTools(job);
}

// ---- one run of make ------------------------------------------------------------------------------------------------

struct Made {
  int status = 0;  // of make, 128 + n for a signal
  std::string output;
};

[[noreturn]] void BecomeMake(const std::vector<std::string>& words, const Tools& tools, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const char* const name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "NCCLWATCH_DIR", "NCCLWATCH_JOB",
                                 "NCCLWATCH_TRACE", "NCCLWATCH_TRACE_DIR", "NCCLWATCH_GPU", "LD_PRELOAD", "MAKEFLAGS"})
    unsetenv(name);
  for (const auto& [name, value] : tools.settings) setenv(name.c_str(), value.c_str(), 1);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // execvp changes nothing
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

Made Make(const std::string& directory, std::vector<std::string> more, const Tools& tools) {
  std::vector<std::string> words{"make", "-s", "-C", directory};
  words.insert(words.end(), tools.words.begin(), tools.words.end());
  words.insert(words.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  const std::string log = directory + "/run.log";
  Descriptor output(open(log.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const pid_t child = fork();
  if (child == 0) BecomeMake(words, tools, output.get());
  Made made;
  int status = 0;
  const absl::Time until = absl::Now() + kLongestTool;
  while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
    if (absl::Now() > until) kill(-child, SIGKILL);
    absl::SleepFor(kToolLook);
  }
  if (child > 0) kill(-child, SIGKILL);  // what it has left behind
  made.status = child < 0 ? 127 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  made.output = ReadFile(log).value_or("");
  unlink(log.c_str());
  return made;
}

// ---- what came of it ------------------------------------------------------------------------------------------------

// "rank 3: stopped in ncclSend(...)" anywhere in a line: launchers put words before it.
std::map<int, std::string> StoppedIn(const std::string& output) {
  std::map<int, std::string> stopped;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(output, '\n'))) {
    const std::size_t at = line.find("rank "), what = line.find(": stopped in ");
    if (at == std::string::npos || what == std::string::npos) continue;
    stopped[std::atoi(line.c_str() + at + 5)] = line.substr(what + 13);
  }
  return stopped;
}

// The ranks that the model has in a call, each with the names of those that never end.
std::map<int, std::vector<std::string>> StoppedOnModel(const Shrunk& shrunk) {
  std::map<int, std::vector<std::string>> stopped;
  for (const StoppedCall& call : shrunk.fault.stopped)
    stopped[call.rank].emplace_back(functions::FullName(functions::WithSmallCounts(call.function)));
  return stopped;
}

// A call that differs from another rank's may end for the library, however wrong its data are.
bool MayEnd(diagnosis::Kind kind) {
  using diagnosis::Kind;
  return kind == Kind::kArgumentMismatch || kind == Kind::kPointToPointMismatch || kind == Kind::kOrderMismatch;
}

// mpirun ends the others when a rank dies, before they say where they are.
bool LauncherEnds(const Shrunk& shrunk) {
  using diagnosis::Kind;
  const Kind kind = shrunk.fault.kind;
  return SpeaksMpi(shrunk.job) && (kind == Kind::kDeadRank || kind == Kind::kEarlyExit);
}

void CompareStops(const Shrunk& shrunk, ProgramRun* run) {
  if (MayEnd(shrunk.fault.kind)) return;
  if (run->status == 0) run->elsewhere.emplace_back("the program came to its end");
  const auto model = StoppedOnModel(shrunk);
  for (const auto& [rank, call] : run->stopped) {
    const std::string& in = call;
    const auto found = model.find(rank);
    const bool idle = in.starts_with("no call") || in.starts_with("MPI_Finalize");
    if (found == model.end() ? idle : std::any_of(found->second.begin(), found->second.end(), [&](const auto& name) {
          return in.starts_with(name) || in.find(name + ",") != std::string::npos ||
                 in.find(name + " in a group") != std::string::npos || in.find("_Wait") != std::string::npos ||
                 in.find("_Test") != std::string::npos;
        }))
      continue;
    run->elsewhere.push_back(fmt::format("rank {} was in {}, and on the model in {}", rank, in.substr(0, in.find('(')),
                                         found == model.end() ? "no call" : absl::StrJoin(found->second, ", ")));
  }
  if (LauncherEnds(shrunk)) return;
  for (const auto& [rank, names] : model)
    if (!run->stopped.contains(rank) && names.front() != "MPI_Finalize")
      run->elsewhere.push_back(fmt::format("rank {} was not stopped in {}", rank, names.front()));
}

void ReadVerdict(const Shrunk& shrunk, const std::string& directory, ProgramRun* run) {
  const auto text = ReadFile(directory + "/diagnosis.json");
  const auto json = nlohmann::json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("findings") || json["findings"].empty()) return;
  const auto& finding = json["findings"][0];
  run->kind = finding.value("kind", "");
  run->certainty = finding.value("certainty", "");
  run->culprits = finding.value("culprits", std::vector<int>());
  std::vector<int> were;
  for (const int rank : run->culprits)
    were.push_back(rank >= 0 && rank < static_cast<int>(shrunk.job.was.size())
                       ? shrunk.job.was[static_cast<std::size_t>(rank)]
                       : -1);
  run->same_verdict = run->kind == diagnosis::Name(shrunk.fault.kind) && were == shrunk.fault.culprits;
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "no output" : lines.back();
}

}  // namespace

ProgramRun RunProgram(const Shrunk& shrunk, const std::string& directory) {
  ProgramRun run;
  const auto tools = FindTools(shrunk.job);
  const auto command = OwnCommand();
  if (!tools.ok() || !command.ok()) {
    run.not_done = std::string(tools.ok() ? command.status().message() : tools.status().message());
    return run;
  }
  run.on = tools->on;
  if (const Made built = Make(directory, {"repro"}, *tools); built.status != 0) {
    run.not_done = "it could not be built: " + LastLine(built.output);
    return run;
  }
  const Made alone = Make(directory, {"run", fmt::format("TIMEOUT={}", kAloneS)}, *tools);
  run.status = alone.status;
  run.stopped = StoppedIn(alone.output);
  CompareStops(shrunk, &run);
  const ScratchFolder scratch("shrink");
  if (scratch.path().empty()) return run;  // without a verdict: nothing was compared
  const std::string watched = scratch.path() + "/run";
  Make(directory,
       {"run", fmt::format("TIMEOUT={}", kWatchedS),
        fmt::format("WATCH='{}' run --timeout 3 --on-fault abort --dir {} --", *command, watched)},
       *tools);
  ReadVerdict(shrunk, watched, &run);
  return run;
}

}  // namespace ncclwatch::analyzer
