// `ncclwatch triage`: the first cause in the logs of many ranks.
#include <nlohmann/json.hpp>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/triage/print.h"
#include "analyzer/triage/read_logs.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kTriageHelp[] =
    "Find the first cause of a failure in the logs of many ranks.\n\n"
    "The command searches folders for log files: one for each rank, as torchrun, Slurm and mpirun write them, or\n"
    "all ranks in one file with prefixes; plain, gzip or Zstandard. Kernel logs may lie beside them. Rules classify\n"
    "lines as a cause, an echo of a cause elsewhere, or a confirmation by a launcher or scheduler. The output shows\n"
    "the first cause with its line, rank and time, and what to do. --rules FILE adds your own rules; --list-rules\n"
    "prints all rules. --baseline LOGS reads the logs of a run that went well: lines that occur there mean nothing.\n\n"
    "Exit status: 0 nothing failed, or causes are only suspected, 1 a cause, or a failure that no rule knows, 2 "
    "usage,\n"
    "3 a file could not be read.";

std::vector<ScannedFile> ScanWithProgress(const Matcher& matcher, const std::vector<LogFile>& files) {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  std::uint64_t bytes = 0;
  for (const LogFile& file : files) bytes += file.bytes;
  Progress progress("reading logs, MiB:", bytes / kMebibyte);
  return ScanLogs(matcher, files, [&](std::uint64_t read) { progress.Done(read / kMebibyte); });
}

}  // namespace

int TriageLogs(const Command& self, const Arguments& arguments) {
  Options options(self, kTriageHelp);
  std::vector<std::string> words, rule_files, good_logs;
  bool json = false, list = false;
  options.add_option("LOGDIR|FILE", words, "log files and folders of them")->type_name("");
  options.add_option("--rules", rule_files, "rules of your own, beside the built-in ones")->type_name("FILE");
  options.add_option("--baseline", good_logs, "logs of a run that went well")->type_name("LOGS");
  options.add_flag("--list-rules", list, "print the built-in rules, as a file for --rules");
  options.add_flag("--json", json, "print JSON");
  if (const auto status = options.Read(arguments)) return *status;
  if (list) {
    WriteOut(OwnRules());
    return kDone;
  }
  if (words.empty()) return UsageError(self, "which logs?");
  const auto matcher = MakeMatcher(rule_files);
  if (!matcher.ok()) return UsageError(self, std::string(matcher.status().message()));
  const auto files = FindLogs(words);
  if (!files.ok()) return Unreadable(self, files.status());
  HarmlessLines baseline;
  if (!good_logs.empty()) {
    const auto good = FindLogs(good_logs);
    if (!good.ok()) return Unreadable(self, good.status());
    baseline = BaselineOf(ScanLogs(*matcher, *good, nullptr));
  }
  const Triage triage = Judge(matcher->rules(), ScanWithProgress(*matcher, *files), baseline);
  for (const std::string& failure : triage.failures) Complain("triage", "{}", failure);
  if (json)
    PrintJson(TriageJson(triage));
  else
    WriteOut(TriageText(triage));
  const bool sure = !triage.causes.empty() && triage.causes.front().confidence != Confidence::kSuspected;
  if (sure || triage.unknown) return kProblem;
  return triage.failures.empty() && !files->empty() ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
