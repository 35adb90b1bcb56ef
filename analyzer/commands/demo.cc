// `ncclwatch demo`: a fault and its verdict, on a machine without a GPU.
#include <absl/strings/str_split.h>
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/table.h"
#include "analyzer/run/own_files.h"
#include "analyzer/run/start_ranks.h"
#include "watchdog/act/end_job.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDemoHelp[] =
    "Show a fault and its verdict. Starts the ranks of a small training loop on this machine, in which one goes wrong\n"
    "at step 20; by default it waits for a data loader that never answers. No GPU is needed: the loop calls the CUDA\n"
    "and NCCL of softgpu, which runs on the processor. ncclwatch says which rank is to blame and why, and ends the\n"
    "job if it hangs. --list names the other examples; their sources are in examples/.\n\n"
    "With --unwatched the ranks run alone, for at most two minutes. Watch them with options of your own:\n"
    "  ncclwatch run --timeout 10 --keep -- ncclwatch demo --unwatched\n\n"
    "Exit status: 0 if the job ended as the example should, 1 if not, 2 usage, 3 if files of the demo are missing.";

constexpr auto kLongestDemo = absl::Minutes(2);
constexpr int kFewest = 3, kMost = 64;  // rank 2 hangs

struct Example {
  std::string_view name, what;
  bool hangs = true;  // the watchdog ends it; others end by themselves, with status 0
  std::string_view options = "--step 20", environment = "";
};
constexpr Example kExamples[] = {
    {"stuck_data_loader", "rank 2 waits for a batch that never comes"},
    {"skipped_collective", "rank 2 leaves out an AllReduce and goes on to the next call"},
    {"bucket_sizes", "rank 2 cuts its gradient into other buckets: the same operation, another count"},
    {"wrong_dtype", "rank 2 reduces doubles where the others reduce floats"},
    {"rank0_logging", "rank 0 makes one AllReduce more than the others, for its log"},
    {"uneven_last_batch", "rank 2 has fewer batches and ends early"},
    {"exception", "rank 2 ends with an exception"},
    {"killed", "rank 2 is killed by SIGKILL"},
    {"frozen", "rank 2 is stopped by SIGSTOP"},
    {"stuck_stream", "the GPU of rank 2 never comes to the last call", true, "--step 20", "NCCLWATCH_GPU=both"},
    {"missing_at_start", "rank 2 never gets to ncclCommInitRank", true, ""},
    {"wrong_world_size", "rank 2 was started with another number of ranks", true, ""},
    {"straggler", "rank 2 takes half as long again as the others; the job ends well", false, "--step 200"},
    {"healthy_training", "nothing is wrong", false, "--steps 100"},
};

struct Files {
  std::string command, program, libraries;
};

absl::StatusOr<Files> FindFiles() {
  auto command = OwnCommand();
  if (!command.ok()) return command.status();
  auto program = FindOwnFile({"lib/ncclwatch/demo/demo_job", "examples/demo_job"});
  if (!program.ok()) return program.status();
  const auto nccl = FindOwnFile({"lib/ncclwatch/demo/libnccl.so.2", "softgpu/libnccl.so.2"});
  if (!nccl.ok()) return nccl.status();
  return Files{*std::move(command), *std::move(program), std::filesystem::path(*nccl).parent_path().string()};
}

int StartUnwatched(const Files& files, const Example& example, int ranks) {
  const char* before = std::getenv("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH",
         fmt::format("{}{}{}", files.libraries, before && *before ? ":" : "", before ? before : "").c_str(), 1);
  std::vector<std::string> command{files.program, std::string(example.name)};
  const std::vector<std::string> words = absl::StrSplit(std::string(example.options), ' ', absl::SkipEmpty());
  command.insert(command.end(), words.begin(), words.end());
  return StartRanks(command, ranks, kLongestDemo);
}

void PrintExamples() {
  Table table({{"NAME"}, {"WHAT HAPPENS"}});
  for (const Example& example : kExamples) table.Add({std::string(example.name), std::string(example.what)});
  Print("{}", table.Text());
}

int Watch(const Command& self, const Files& files, const Example& example, int ranks) {
  std::vector<std::string> words{"--timeout",
                                 "5",
                                 "--on-fault",
                                 "abort",
                                 "--",
                                 files.command,
                                 "demo",
                                 "--unwatched",
                                 "--ranks",
                                 fmt::format("{}", ranks),
                                 std::string(example.name)};
  Note("{} ranks of a training loop: {}", ranks, example.what);
  Note("{}{}ncclwatch run --timeout 5 --on-fault abort -- ncclwatch demo --unwatched --ranks {} {}",
       example.environment, example.environment.empty() ? "" : " ", ranks, example.name);
  if (const std::size_t at = example.environment.find('='); at != std::string_view::npos)
    setenv(std::string(example.environment.substr(0, at)).c_str(),
           std::string(example.environment.substr(at + 1)).c_str(), 1);
  const int status = Run(*FindCommand("run"), words);
  const int wanted = example.hangs ? act::kEndedByUs : 0;
  if (status == 128 + SIGINT || status == 128 + SIGTERM) return status;  // the user ended it
  if (status != wanted) {
    Complain(self.name, "the job was to end with status {}, and has status {}", wanted, status);
    return kProblem;
  }
  if (example.hangs)
    Note("ncclwatch ended the job (status {}); without --on-fault abort it says what is wrong and lets the job be",
         status);
  return kDone;
}

}  // namespace

int Demo(const Command& self, const Arguments& arguments) {
  Options options(self, kDemoHelp);
  int ranks = 4;
  bool unwatched = false, list = false;
  std::string name(kExamples[0].name);
  options.add_option("NAME", name, fmt::format("which example (default: {})", name))->type_name("");
  options.add_flag("--list", list, "print the examples");
  options.add_option("--ranks", ranks, fmt::format("processes to start, {} to {} (default 4)", kFewest, kMost))
      ->type_name("N")
      ->check(CLI::Range(kFewest, kMost));
  options.add_flag("--unwatched", unwatched, "start the ranks alone");
  if (const auto status = options.Read(arguments)) return *status;
  if (list) {
    PrintExamples();
    return kDone;
  }
  const auto* const example =
      std::find_if(std::begin(kExamples), std::end(kExamples), [&](const Example& one) { return one.name == name; });
  if (example == std::end(kExamples)) return UsageError(self, fmt::format("no example '{}'; see --list", name));
  const auto files = FindFiles();
  if (!files.ok()) return Unreadable(self, files.status());
  return unwatched ? StartUnwatched(*files, *example, ranks) : Watch(self, *files, *example, ranks);
}

}  // namespace ncclwatch::analyzer
