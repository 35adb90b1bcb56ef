#include "analyzer/player/start.h"

#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "analyzer/files/input_file.h"
#include "analyzer/player/rank.h"
#include "analyzer/run/job_process.h"
#include "analyzer/run/mpi/launcher.h"
#include "analyzer/run/own_files.h"
#include "analyzer/run/start_ranks.h"

namespace ncclwatch::analyzer {
namespace {

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

}  // namespace

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

}  // namespace ncclwatch::analyzer
