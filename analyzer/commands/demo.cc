// `ncclwatch demo`: a hang and its verdict, on a machine without a GPU.
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/run/own_files.h"
#include "analyzer/run/start_ranks.h"
#include "watchdog/act/end_job.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDescription[] =
    "Show a hang and its verdict. Starts the ranks of a small training loop on this machine; rank 2 stops answering "
    "at\n"
    "step 20. No GPU is needed: the loop calls the CUDA and NCCL of softgpu, which runs on the processor. ncclwatch "
    "finds\n"
    "the hang after 5 seconds, says which rank is to blame and why, and ends the job.\n\n"
    "With --unwatched the ranks run alone, for at most two minutes. Watch them with options of your own:\n"
    "  ncclwatch run --timeout 10 --keep -- ncclwatch demo --unwatched\n\n"
    "Exit status: 0 if the hang was found, 1 if not, 2 usage, 3 if files of the demo are missing.";

constexpr auto kLongest = absl::Minutes(2);
constexpr int kFewest = 3, kMost = 64;  // rank 2 hangs

struct Files {
  std::string command, program, libraries;
};

absl::StatusOr<Files> FindFiles() {
  auto command = OwnCommand();
  if (!command.ok()) return command.status();
  auto program = FindOwnFile({"lib/ncclwatch/demo/stuck_data_loader", "examples/stuck_data_loader"});
  if (!program.ok()) return program.status();
  const auto nccl = FindOwnFile({"lib/ncclwatch/demo/libnccl.so.2", "softgpu/libnccl.so.2"});
  if (!nccl.ok()) return nccl.status();
  return Files{*std::move(command), *std::move(program), std::filesystem::path(*nccl).parent_path().string()};
}

int StartUnwatched(const Files& files, int ranks) {
  const char* before = std::getenv("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH",
         fmt::format("{}{}{}", files.libraries, before && *before ? ":" : "", before ? before : "").c_str(), 1);
  return StartRanks({files.program, "--step", "20"}, ranks, kLongest);
}

}  // namespace

int Demo(const Command& self, const Arguments& arguments) {
  Options options(self, kDescription);
  int ranks = 4;
  bool unwatched = false;
  options.add_option("--ranks", ranks, fmt::format("processes to start, {} to {} (default 4)", kFewest, kMost))
      ->type_name("N")
      ->check(CLI::Range(kFewest, kMost));
  options.add_flag("--unwatched", unwatched, "start the ranks alone");
  if (const auto status = options.Read(arguments)) return *status;
  const auto files = FindFiles();
  if (!files.ok()) return Unreadable(self, files.status());
  if (unwatched) return StartUnwatched(*files, ranks);

  const std::string count = fmt::format("{}", ranks);
  Note("{} ranks of a training loop; rank 2 will hang", ranks);
  Note("ncclwatch run --timeout 5 --on-fault abort -- ncclwatch demo --unwatched --ranks {}", ranks);
  const int status = Run(*FindCommand("run"), {"--timeout", "5", "--on-fault", "abort", "--", files->command, "demo",
                                               "--unwatched", "--ranks", count});
  if (status == act::kEndedByUs) {
    Note("ncclwatch ended the job (status {}); without --on-fault abort it says what is wrong and lets the job be",
         status);
    return kDone;
  }
  Complain(self.name, "the job was to be ended with status {}, and has status {}", act::kEndedByUs, status);
  return kProblem;
}

}  // namespace ncclwatch::analyzer
