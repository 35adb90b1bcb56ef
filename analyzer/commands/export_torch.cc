#include "analyzer/commands/export_torch.h"

#include <absl/time/time.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "analyzer/commands/options/options.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/export/torch_dump.h"
#include "analyzer/files/output_file.h"
#include "analyzer/jobs/locate.h"
#include "core/text/printable.h"
#include "core/view/from_boxes.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kPrefix[] = "nccl_trace_rank_";

// `at_ns`: CLOCK_REALTIME that the file bears. torch writes dumps at the moment that they tell of.
bool Write(const std::string& path, const std::string& bytes, std::int64_t at_ns) {
  const absl::Status written = WriteFile(path, bytes);
  const timespec at = absl::ToTimespec(absl::FromUnixNanos(at_ns));
  const timespec times[2] = {at, at};
  return written.ok() && (at_ns <= 0 || utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

int WriteDumps(const Command& self, const exporting::TorchDumps& all, const std::string& directory, std::int64_t at_ns,
               bool json) {
  if (const absl::Status made = MakeFolders(directory); !made.ok()) {
    Complain(self.name, "{}", std::string(made.message()));
    return kProblem;
  }
  Progress progress("writing dumps", all.dumps.size());
  auto files = nlohmann::ordered_json::array();
  for (const exporting::TorchDump& dump : all.dumps) {
    const std::string path = fmt::format("{}/{}{}", directory, kPrefix, dump.rank);
    if (!Write(path, dump.pickle, at_ns)) {
      Complain(self.name, "{}: {}", path, std::strerror(errno));
      return kProblem;
    }
    files.push_back(Printable(path));
    progress.Done(files.size());
  }
  if (json)
    PrintJson({{"format", "torch-fr"}, {"files", files}, {"notes", all.notes}});
  else
    Print("{} dumps in {}: torchfrtrace {} --prefix {}\n", files.size(), directory, directory, kPrefix);
  return kDone;
}

}  // namespace

int ExportToTorch(const Command& self, const std::vector<std::string>& paths, const std::string& into, bool json) {
  reader::RunImage run = ReadJob(paths, reader::Calls::kAll);
  SayFailures(run.failures);
  if (run.boxes.empty()) return Unreadable(self, absl::NotFoundError("no black box could be read"));
  const bool failed = !run.failures.empty();
  const diagnosis::Snapshot snapshot = diagnosis::FromBoxes(std::move(run.boxes));
  const diagnosis::View view = diagnosis::MakeView(snapshot);
  const exporting::TorchDumps all = exporting::ToTorchDumps(view);
  for (const std::string& note : all.notes) Complain(self.name, "{}", note);
  const int status = WriteDumps(self, all, into, view.now_ns + view.realtime_minus_monotonic_ns, json);
  return failed && status == kDone ? kUnreadable : status;
}

}  // namespace ncclwatch::analyzer
