// `ncclwatch import`: what other tools recorded, as a recording.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/files/output_file.h"
#include "analyzer/import/formats.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/segments/segment_file.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kImportHelp[] =
    "Make a recording of what other tools recorded, for every command that takes a recording.\n\n"
    "It reads traces of torch's profiler (Kineto, one file for each rank, also .gz), Chakra execution traces, OTF2\n"
    "archives, dumps of torch's flight recorder, lines of NCCL Inspector, and the lines that `trace --json` prints.\n"
    "Other commands read these directly too; an import is worth it where several of them will.\n\n"
    "Exit status: 0 done, 2 usage, 3 if any file could not be read.";

void SayImported(const std::string& into, const import::Imported& imported, import::Format format, bool json) {
  if (json)
    return PrintJson({{"schema", "ncclwatch.import/1"},
                      {"format", import::Name(format)},
                      {"processes", imported.processes},
                      {"calls", imported.calls},
                      {"operations", imported.operations},
                      {"notes", imported.notes},
                      {"out", Printable(into)}});
  for (const std::string& note : imported.notes) Print("note: {}\n", Printable(note));
  const std::string operations =
      imported.operations > 0 ? fmt::format(" and {} operations", imported.operations) : std::string();
  Print("{} calls{} of {} processes in {}\n", imported.calls, operations, imported.processes, Printable(into));
}

}  // namespace

int ImportTraces(const Command& self, const Arguments& arguments) {
  Options options(self, kImportHelp);
  std::vector<std::string> paths;
  std::string into, from;
  bool json = false;
  options.add_option("PATH", paths, "files, and directories that hold them")->required()->type_name("");
  options.add_option("-o,--out", into, "directory of the recording")->required()->type_name("REC");
  options.add_option("--from", from, "format: kineto, chakra, otf2, torch-fr, inspector, jsonl (default: guessed)")
      ->type_name("FORMAT");
  options.add_flag("--json", json, "print JSON");
  if (const auto status = options.Read(arguments)) return *status;
  std::optional<import::Format> only;
  if (!from.empty() && !(only = import::FormatNamed(from)))
    return UsageError(self, "--from takes kineto, chakra, otf2, torch-fr, inspector or jsonl, not '" + from + "'");
  const auto found = import::FindAll(paths, only);
  if (!found.ok()) return Unreadable(self, found.status());
  if (!SegmentFiles(into).empty()) return UsageError(self, into + ": holds a recording already");
  if (absl::Status made = MakeFolders(into); !made.ok()) return Unreadable(self, made);
  Progress progress("reading files", found->files.size());
  const auto imported = import::Import(*found, into, [&](std::size_t count) { progress.Done(count); });
  if (!imported.ok()) return Unreadable(self, imported.status());
  SayFailures(imported->failures);
  if (imported->processes == 0) return Unreadable(self, absl::NotFoundError("nothing could be read"));
  SayImported(into, *imported, found->format, json);
  return imported->failures.empty() ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
