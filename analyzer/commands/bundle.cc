// `ncclwatch bundle`: everything for a bug report, as one file.
#include "analyzer/bundle/bundle.h"

#include <nlohmann/json.hpp>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/doctor/checks/check.h"
#include "analyzer/doctor/report.h"
#include "analyzer/files/input_file.h"
#include "analyzer/files/output_file.h"
#include "analyzer/jobs/locate.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kBundleHelp[] =
    "Put everything that a bug report needs into one file: what the job has left (black boxes, stacks, logs of\n"
    "ncclwatch, recordings), the verdict, and the output of `ncclwatch doctor` on this machine.\n\n"
    "`tar --zstd -xf FILE` unpacks it; all other commands of ncclwatch read its folder `run/`. --redact hides\n"
    "secrets, and replaces names of hosts and users, addresses, paths and arguments by pseudonyms, also inside\n"
    "black boxes. It leaves out what it cannot redact: recordings, memory of crashed processes, packed files.\n"
    "manifest.json lists what is in the file and what is not.\n\n"
    "Exit status: 0 written, 1 it could not be written, 2 usage, 3 there is no such job.";

Json DescribeMachine() {
  const doctor::Machine machine("", doctor::Machine::OwnEnvironment());
  std::vector<doctor::Finding> findings;
  for (const doctor::Check& check : doctor::ChecksOfOneRank())
    if (!check.active && !check.id.starts_with("manual-"))
      findings.push_back({std::string(check.id), check.look(machine), {}});
  return doctor::ToJson(doctor::ReportOf(machine, findings));
}

void PrintText(const std::string& file, std::uint64_t bytes, const Bundled& bundled) {
  Print("{}: {}, {} files\n", file, BytesText(bytes), bundled.files.size());
}

}  // namespace

int BundleJob(const Command& self, const Arguments& arguments) {
  Options options(self, kBundleHelp);
  std::vector<std::string> words;
  std::string into = "ncclwatch-bundle.tar.zst", most;
  BundleRequest request;
  bool json = false;
  AttemptChoice choice;
  options.add_option("DIR|FILE", words, "run directories and recordings of one job (default: the newest)")
      ->type_name("");
  options.add_option("-o", into, "the file to write (default: ncclwatch-bundle.tar.zst)")->type_name("FILE");
  options.add_flag("--redact", request.redact,
                   "hide secrets, names of hosts and users, addresses, paths and arguments");
  options.add_option("--logs", request.logs, "the job's own logs too")->type_name("DIR|FILE")->allow_extra_args(false);
  DeclareAttempt(&options, &choice);
  options.add_option("--max", most, "leave out files that are larger, as in 1G (default: 10G)")->type_name("SIZE");
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.bundle/1)");
  if (const auto status = options.Read(arguments)) return *status;
  if (!most.empty()) {
    const auto bytes = ParseBytes(most);
    if (!bytes) return UsageError(self, "--max takes a size like 1G, not '" + most + "'");
    request.most_bytes = *bytes;
  }
  auto located = Locate(words, choice);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  request.located = *std::move(located);
  const Json machine = DescribeMachine();
  request.machine = &machine;

  OutputFile file;
  Bundled bundled;
  absl::Status written = file.Open(into);
  if (written.ok())
    written = WriteBundle(
        request, [&](std::string_view part) { return file.Write(part).ok(); }, &bundled);
  if (absl::IsNotFound(written)) return Unreadable(self, written);
  if (written.ok()) written = file.Close();
  if (!written.ok()) {
    Complain(self.name, "{}", std::string(written.message()));
    return kProblem;
  }
  for (const auto& [name, why] : bundled.left_out) Complain(self.name, "left out: {}: {}", name, why);
  if (into == kStandardStream) return kDone;
  if (!json) {
    PrintText(into, file.bytes(), bundled);
    return kDone;
  }
  Json manifest = ManifestOf(request, bundled);
  manifest["path"] = Printable(into);
  manifest["bytes"] = file.bytes();
  PrintJson(manifest);
  return kDone;
}

}  // namespace ncclwatch::analyzer
