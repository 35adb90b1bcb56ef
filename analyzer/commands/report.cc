// `ncclwatch report`: what diagnose, trace and stats tell of a job, as one page.
#include "analyzer/report/report.h"

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/units.h"
#include "analyzer/files/input_file.h"
#include "analyzer/files/output_file.h"
#include "analyzer/jobs/locate.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kReportHelp[] =
    "Write one page: the verdict, who waits for whom, a timeline of ranks, differing calls side by side, stacks,\n"
    "the progress of each communicator, the parts of each step's time, and what was not watched.\n\n"
    "The page is one file. It opens from a disk or an attachment, in any browser since 2023, and loads nothing. DIR\n"
    "is a run directory, a recording or a folder of dumps of torch's flight recorder, of a live or a dead job.\n\n"
    "Exit status: 0 written, 1 it could not be written, 2 usage, 3 if any input could not be read (the page shows\n"
    "the others).";

std::string Headline(const diagnosis::Diagnosis& verdict) {
  if (verdict.healthy()) return "healthy";
  if (verdict.clean()) return "nothing wrong in what was recorded, which is not all";
  const diagnosis::Finding& first = verdict.findings.front();
  return fmt::format("{} ({}): {}", Name(first.kind), Name(first.certainty),
                     first.culprits.empty() ? "no single rank" : diagnosis::Ranks(first.culprits));
}

}  // namespace

int Report(const Command& self, const Arguments& arguments) {
  Options options(self, kReportHelp);
  std::vector<std::string> words;
  std::string into = "report.html";
  AttemptChoice choice;
  options.add_option("DIR|FILE", words, "run directories, recordings and black boxes of one job (default: the newest)")
      ->type_name("");
  options.add_option("-o", into, "the file to write (default: report.html)")->type_name("FILE");
  DeclareAttempt(&options, &choice);
  if (const auto status = options.Read(arguments)) return *status;

  auto located = Locate(words, choice);
  if (!located.ok()) return Unreadable(self, located.status());
  SayWhichAttempt(located->attempts);
  JobReport report;
  report.name = words.size() == 1 && words.front() != "latest" ? words.front() : located->paths.front();
  report.located = *std::move(located);
  OutputFile file;
  if (const absl::Status opened = file.Open(into); !opened.ok()) {
    Complain(self.name, "{}", std::string(opened.message()));
    return kProblem;
  }
  const auto write = [&](std::string_view part) { return file.Write(part).ok(); };
  const absl::Status read = WriteReport(self.name, write, &report);
  SayFailures(report.failures);
  if (!read.ok()) return Unreadable(self, read);
  if (const absl::Status written = file.Close(); !written.ok()) {
    Complain(self.name, "{}", std::string(written.message()));
    return kProblem;
  }
  if (into != kStandardStream) Print("{}: {}, {}\n", into, Headline(report.verdict), BytesText(file.bytes()));
  return report.failures.empty() ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
