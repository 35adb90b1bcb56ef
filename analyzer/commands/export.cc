// `ncclwatch export`: what was recorded, in the formats of other tools.
#include <absl/strings/str_join.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <memory>

#include "analyzer/commands/export_torch.h"
#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/filter_options.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/units.h"
#include "analyzer/export/calls/chakra.h"
#include "analyzer/export/calls/csv.h"
#include "analyzer/export/calls/otf2.h"
#include "analyzer/export/calls/parquet.h"
#include "analyzer/export/calls/perfetto.h"
#include "analyzer/files/input_file.h"
#include "analyzer/jobs/crash_frames.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/locate.h"
#include "core/text/printable.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kExportHelp[] =
    "Write what was recorded of a job in the format of another tool: the calls that `ncclwatch trace` lists.\n\n"
    "chakra: OUT is a folder with Chakra's execution traces, ranks.N.et for rank N, for simulators.\n"
    "csv: OUT is a file of what `trace --csv` prints, `-` for standard output.\n"
    "parquet: OUT is a folder, by node and hour: node=HOST/hour=2026-01-01T14/part-0.parquet. pyarrow writes it:\n"
    "`pip install 'ncclwatch[arrow]'`, or a python3 that has it.\n"
    "perfetto: OUT is a trace for ui.perfetto.dev, `-` for standard output.\n"
    "torch-fr: OUT is a folder with dumps of torch's flight recorder (version 2.10), one for each rank, for torch's "
    "own\n"
    "torchfrtrace. They have no place for reductions, roots, streams, deaths and last words: `ncclwatch diagnose`\n"
    "finds more in the black boxes themselves.\n"
#ifdef NCCLWATCH_OTF2
    "otf2: OUT is a folder with an OTF2 archive, traces.otf2, for Vampir, Score-P's tools and otf2-print.\n"
#else
    "This build writes no OTF2.\n"
#endif
    "Exit status: 0 done, 1 a file could not be written, 2 usage, 3 if any input could not be read.";

constexpr char kTorch[] = "torch-fr";
constexpr std::uint64_t kMostBytes = 2'000'000'000;  // of a file: ui.perfetto.dev opens no longer one

struct ExportRequest {
  std::vector<std::string> words;
  std::string format, into, most_bytes;
  AttemptChoice attempt;
  FilterWords filter;
  bool json = false;
};

struct Format {
  const char* name;
  std::function<absl::StatusOr<std::unique_ptr<exporting::Exporter>>(const exporting::Source&, const ExportRequest&)>
      make;
};

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {"chakra", [](const exporting::Source& source,
                    const ExportRequest& request) { return exporting::ToChakra(source, request.into); }},
      {"csv", [](const exporting::Source& source,
                 const ExportRequest& request) { return exporting::ToCsv(source, request.into); }},
#ifdef NCCLWATCH_OTF2
      {"otf2", [](const exporting::Source& source,
                  const ExportRequest& request) { return exporting::ToOtf2(source, request.into); }},
#endif
      {"parquet", [](const exporting::Source& source,
                     const ExportRequest& request) { return exporting::ToParquet(source, request.into); }},
      {"perfetto",
       [](const exporting::Source& source, const ExportRequest& request) {
         return exporting::ToPerfetto(source, request.into, ParseBytes(request.most_bytes).value_or(kMostBytes));
       }},
  };
  return formats;
}

void Declare(Options* options, ExportRequest* request) {
  std::vector<std::string> names{kTorch};
  for (const Format& format : Formats()) names.emplace_back(format.name);
  std::sort(names.begin(), names.end());
  options->add_option("DIR|FILE", request->words, "recordings, run directories and black boxes of one job")
      ->type_name("");
  options->add_option("--to", request->format, "the format: " + absl::StrJoin(names, ", "))
      ->type_name("FORMAT")
      ->required()
      ->check(CLI::IsMember(names));
  options->add_option("-o", request->into, "the file or folder to write to; it is created")
      ->type_name("OUT")
      ->required();
  options->add_option("--max-size", request->most_bytes, "of perfetto: the size at which a new file is begun (2G)")
      ->type_name("SIZE");
  DeclareAttempt(options, &request->attempt);
  DeclareFilter(options, &request->filter);
  options->add_flag("--json", request->json, "print the names of the files as JSON");
}

// For people: with source lines.
diagnosis::Diagnosis DiagnosisOf(const std::vector<std::string>& paths) {
  reader::RunImage run = ReadJob(paths, reader::Calls::kForVerdict);
  if (run.boxes.empty()) return {};
  AddCrashFrames(&run);
  SiteLines lines(run.boxes);
  return lines.ForPeople(Diagnose(std::move(run)));
}

absl::StatusOr<std::uint64_t> Write(const Recording& recording, const Filter& filter, exporting::Exporter* exporter,
                                    std::vector<reader::Failure>* failures) {
  std::uint64_t calls = 0;
  for (const ProcessRecording& process : recording.processes()) calls += process.end_slot();
  Progress progress("writing calls", calls);
  return exporter->Write(filter, &progress, failures);
}

void SayWritten(const ExportRequest& request, std::uint64_t calls, const exporting::Exporter& exporter) {
  auto files = nlohmann::ordered_json::array();
  for (const std::string& file : exporter.files()) files.push_back(Printable(file));
  if (request.json)
    return PrintJson({{"schema", "ncclwatch.export/1"},
                      {"format", request.format},
                      {"calls", calls},
                      {"files", files},
                      {"notes", exporter.notes()}});
  if (request.into == kStandardStream) return;
  Print("{} calls in {}\n", calls, absl::StrJoin(exporter.files(), ", "));
}

int ExportCalls(const Command& self, const ExportRequest& request, const Format& format,
                const std::vector<std::string>& paths) {
  const Recording recording = Recording::Open(paths);
  std::vector<reader::Failure> failures = recording.run().failures;
  SayFailures(failures);
  if (recording.processes().empty()) return Unreadable(self, absl::NotFoundError("no recorded call could be read"));
  const absl::StatusOr<Filter> filter = FilterOf(request.filter, recording);
  if (!filter.ok()) return Unreadable(self, filter.status());
  SayLost(recording);
  const std::size_t said = failures.size();
  Sites sites(recording);
  const auto made = format.make({recording, [&] { return DiagnosisOf(paths); }, sites}, request);
  if (!made.ok()) {
    Complain(self.name, "{}", std::string(made.status().message()));
    return kUsage;
  }
  exporting::Exporter* const exporter = made->get();
  const auto calls = Write(recording, *filter, exporter, &failures);
  SayFailures({failures.begin() + static_cast<std::ptrdiff_t>(said), failures.end()});
  if (!calls.ok()) {
    Complain(self.name, "{}", std::string(calls.status().message()));
    return kProblem;
  }
  for (const std::string& note : exporter->notes()) Complain(self.name, "{}", note);
  SayWritten(request, *calls, *exporter);
  return failures.empty() ? kDone : kUnreadable;
}

}  // namespace

int Export(const Command& self, const Arguments& arguments) {
  KeepFreedMemory();
  Options options(self, kExportHelp);
  ExportRequest request;
  Declare(&options, &request);
  if (const auto status = options.Read(arguments)) return *status;
  if (const absl::Status wrong = Check(request.filter); !wrong.ok())
    return UsageError(self, std::string(wrong.message()));
  if (!request.most_bytes.empty() && !ParseBytes(request.most_bytes))
    return UsageError(self, "--max-size takes a size like 500M, not '" + request.most_bytes + "'");
  const auto located = Locate(request.words, request.attempt);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  umask(077);  // pyarrow and OTF2 open their files themselves
  if (request.format == kTorch) return ExportToTorch(self, located->paths, request.into, request.json);
  const auto& formats = Formats();
  const auto format =
      std::find_if(formats.begin(), formats.end(), [&](const Format& one) { return one.name == request.format; });
  return ExportCalls(self, request, *format, located->paths);
}

}  // namespace ncclwatch::analyzer
