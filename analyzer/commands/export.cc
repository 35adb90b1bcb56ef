// `ncclwatch export`: what black boxes hold, in the formats of other tools.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>

#include "analyzer/console/options.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/terminal.h"
#include "analyzer/export/torch_dump.h"
#include "analyzer/jobs/locate.h"
#include "watchdog/diagnosis/from_boxes.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDescription[] =
    "Write what the black boxes of a job hold in the format of another tool.\n\n"
    "torch-fr: dumps of torch's flight recorder (version 2.10), one a rank, for torch's own torchfrtrace. They have "
    "no\n"
    "place for reductions, roots, streams, deaths and what a process said of its end: `ncclwatch diagnose` tells more\n"
    "from the black boxes themselves.\n"
    "Exit status: 0 done, 1 a file could not be written, 2 usage, 3 if any input could not be read.";

constexpr char kPrefix[] = "nccl_trace_rank_";

// `at_ns`: CLOCK_REALTIME that the file bears. torch writes dumps at the moment that they tell of.
bool Write(const std::string& path, const std::string& bytes, std::int64_t at_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t part = write(fd, bytes.data() + written, bytes.size() - written);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) break;
    written += static_cast<std::size_t>(part);
  }
  const timespec at{at_ns / kSecond, at_ns % kSecond};
  const timespec times[2] = {at, at};
  const bool whole = written == bytes.size() && (at_ns <= 0 || futimens(fd, times) == 0);
  return close(fd) == 0 && whole;
}

int WriteDumps(const exporting::TorchDumps& all, const std::string& directory, std::int64_t at_ns, bool json) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  Progress progress("writing dumps", all.dumps.size());
  auto files = nlohmann::ordered_json::array();
  for (const exporting::TorchDump& dump : all.dumps) {
    const std::string path = directory + "/" + kPrefix + std::to_string(dump.rank);
    if (!Write(path, dump.pickle, at_ns)) {
      std::fprintf(stderr, "ncclwatch export: %s: %s\n", Printable(path).c_str(), strerror(errno));
      return kProblem;
    }
    files.push_back(Printable(path));
    progress.Done(files.size());
  }
  if (json)
    std::puts(nlohmann::ordered_json{{"format", "torch-fr"}, {"files", files}, {"notes", all.notes}}.dump(2).c_str());
  else
    std::printf("%zu dumps in %s: torchfrtrace %s --prefix %s\n", files.size(), Printable(directory).c_str(),
                Printable(directory).c_str(), kPrefix);
  return kDone;
}

}  // namespace

int Export(const Arguments& arguments) {
  Options options("export", kDescription);
  std::vector<std::string> words;
  std::string format, into;
  bool json = false;
  options.add_option("DIR|FILE", words, "run directories and black boxes of one job")->type_name("");
  options.add_option("--to", format, "the format: torch-fr")
      ->type_name("FORMAT")
      ->required()
      ->check(CLI::IsMember({"torch-fr"}));
  options.add_option("-o", into, "the folder to write into; it is made")->type_name("OUT")->required();
  options.add_flag("--json", json, "print the names of the files as JSON");
  if (const auto status = options.Read(arguments)) return *status;

  const auto paths = Locate(words);
  if (const auto* missing = std::get_if<Missing>(&paths)) {
    std::fprintf(stderr, "ncclwatch export: %s\n", Printable(missing->reason).c_str());
    return kUnreadable;
  }
  reader::RunImage run = ReadJob(std::get<std::vector<std::string>>(paths), reader::Calls::kAll);
  SayFailures(run.failures);
  if (run.boxes.empty()) {
    std::fputs("ncclwatch export: no black box could be read\n", stderr);
    return kUnreadable;
  }
  const bool failed = !run.failures.empty();
  const diagnosis::Snapshot snapshot = diagnosis::FromBoxes(std::move(run.boxes));
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  const exporting::TorchDumps all = exporting::ToTorchDumps(view);
  for (const std::string& note : all.notes) std::fprintf(stderr, "ncclwatch export: %s\n", Printable(note).c_str());
  const int status = WriteDumps(all, into, view.now_ns + view.realtime_minus_monotonic_ns, json);
  return failed && status == kDone ? kUnreadable : status;
}

}  // namespace ncclwatch::analyzer
