// `ncclwatch diagnose`: the same pure function that the leader ran, over the boxes as they are now.
#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <string>

#include "analyzer/commands/options/attempt_option.h"
#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/terminal.h"
#include "analyzer/jobs/crash_frames.h"
#include "analyzer/jobs/diagnose.h"
#include "analyzer/jobs/inspector.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/site_lines.h"
#include "analyzer/restart/after_diagnosis.h"
#include "analyzer/restart/restart.h"
#include "analyzer/steps/steps.h"
#include "core/diagnose.h"
#include "core/report/render.h"
#include "watchdog/settings/settings.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDiagnoseHelp[] =
    "Say what is wrong with a job, live or dead, from its black boxes.\n\n"
    "DIR is a run directory, FILE a black box; `latest`, or no argument, is the newest run directory on this machine.\n"
    "Files that cannot be read are listed with the reason; the others are read. If nothing stops the job, the command\n"
    "looks for what slows it, with --baseline also against an earlier run.\n\n"
    "If the job was restarted, the command shows the last attempt that failed, and a line names the others.\n\n"
    "DIR may also be a folder of dumps of torch's flight recorder (pickle or JSON, one file for each rank), or of\n"
    "the JSON lines of NCCL Inspector, which only show slowness.\n\n"
    "A resource_leak is listed, but is no problem: the exit status is 0.\n\n"
    "Exit status: 0 healthy, 1 a problem was found, 2 usage, 3 if any file could not be read (the diagnosis from\n"
    "the other files is still printed).";

void Tell(const diagnosis::Diagnosis& verdict, const diagnosis::Diagnosis& for_people, const Attempts& attempts,
          const std::vector<reader::Failure>& failures, bool json) {
  if (json) return PrintJson(DiagnosisJson(verdict, failures, attempts));
  if (const std::string which = WhichAttempt(attempts); !which.empty()) Print("{}\n\n", which);
  std::fputs(DiagnosisFor(STDOUT_FILENO, for_people).c_str(), stdout);
  const auto columns = std::min(static_cast<std::size_t>(Width(STDOUT_FILENO)), diagnosis::kColumns);
  if (const auto restart = RestartAfter(verdict)) Print("\n{}", diagnosis::Wrapped("", RestartText(*restart), columns));
}

// What can be used is, and what cannot be is said.
int DiagnoseRecorded(const Command& self, const std::vector<std::string>& files, bool json) {
  const auto verdict = DiagnoseInspector(files, TopologyOfTheJob("diagnose"));
  if (!verdict.ok()) return Unreadable(self, verdict.status());
  for (const std::string& complaint : verdict->complaints) Complain("", "{}", complaint);
  Tell(verdict->diagnosis, verdict->diagnosis, {}, {}, json);
  return verdict->diagnosis.clean() ? kDone : kProblem;
}

absl::StatusOr<JobSteps> BaselineOf(const std::vector<std::string>& words) {
  const auto located = Locate(words, {.number = std::nullopt, .prefer = Prefer::kNewest});
  if (!located.ok()) return located.status();
  const Recording recording = Recording::Open(located->paths);
  SayFailures(recording.run().failures);
  return StepsOf(recording);
}

diagnosis::SlowContext ContextOf(const std::optional<JobSteps>& baseline) {
  diagnosis::SlowContext context;
  context.baseline = baseline ? &baseline->table : nullptr;
  context.topology = TopologyOfTheJob("diagnose");
  context.least_idle = settings::OfThisProcess().bubble;
  return context;
}

}  // namespace

int Diagnose(const Command& self, const Arguments& arguments) {
  Options options(self, kDiagnoseHelp);
  std::vector<std::string> words, baseline_words;
  AttemptChoice choice;
  std::string ignore;
  bool json = false;
  options.add_option("DIR|FILE", words, "run directories and black boxes of one job")->type_name("");
  options.add_option("--baseline", baseline_words, "an earlier run: say what takes longer than there")
      ->type_name("DIR|FILE")
      ->allow_extra_args(false);
  options.add_option("--ignore", ignore, "a file of known findings to leave out, instead of NCCLWATCH_IGNORE")
      ->type_name("FILE");
  DeclareAttempt(&options, &choice);
  options.add_flag("--json", json, "print the diagnosis as JSON (schema ncclwatch.diagnosis/1)");
  if (const auto status = options.Read(arguments)) return *status;

  if (!ignore.empty()) setenv("NCCLWATCH_IGNORE", ignore.c_str(), 1);
  auto located = Locate(words, choice);
  if (!located.ok()) return Unreadable(self, located.status());
  if (const std::vector<std::string> files = InspectorFiles(located->paths); !files.empty()) {
    if (!baseline_words.empty()) return UsageError(self, "--baseline does not go with NCCL Inspector's lines");
    return DiagnoseRecorded(self, files, json);
  }
  std::optional<JobSteps> baseline;
  if (!baseline_words.empty()) {
    const auto steps = BaselineOf(baseline_words);
    if (!steps.ok()) return Unreadable(self, steps.status());
    baseline = *steps;
  }
  reader::RunImage run = ReadJob(located->paths, reader::Calls::kForVerdict);
  SayFailures(run.failures);
  if (run.boxes.empty() && !json) return Unreadable(self, absl::NotFoundError("no black box could be read"));
  AddCrashFrames(&run);
  const std::vector<reader::Failure> failures = run.failures;
  SiteLines lines(run.boxes);
  diagnosis::Diagnosis verdict = Diagnose(std::move(run), ContextOf(baseline));
  NameAndIgnore("diagnose", &lines, &verdict);
  Tell(verdict, lines.ForPeople(verdict), AsDiagnosed(verdict, located->attempts), failures, json);
  if (!failures.empty()) return kUnreadable;
  return verdict.harmless() ? kDone : kProblem;
}

}  // namespace ncclwatch::analyzer
