// `ncclwatch triage`: the first cause in the logs of many ranks.
#include <absl/status/statusor.h>
#include <absl/time/clock.h>
#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/signals.h"
#include "analyzer/known_bad/known_bad.h"
#include "analyzer/triage/follow.h"
#include "analyzer/triage/print.h"
#include "analyzer/triage/read_logs.h"
#include "analyzer/triage/versions.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kTriageHelp[] =
    "Find the first cause of a failure in the logs of many ranks.\n\n"
    "The command searches folders for log files: one for each rank, as torchrun, Slurm and mpirun write them, or\n"
    "all ranks in one file with prefixes; plain, gzip or Zstandard. Kernel logs may lie beside them. Rules classify\n"
    "lines as a cause, an echo of a cause elsewhere, or a confirmation by a launcher or scheduler. The output shows\n"
    "the first cause with its line, rank and time, and what to do. --rules FILE adds your own rules; --list-rules\n"
    "prints all rules. --baseline LOGS reads the logs of a run that went well: lines that occur there mean nothing.\n\n"
    "--follow reads the logs while they grow. It prints one line when something has failed. When the logs grow no\n"
    "more, or after Ctrl-C, it prints the verdict. It ends without a failure when the job says that it has "
    "succeeded.\n\n"
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

struct TriageRequest {
  std::vector<std::string> logs, rule_files, version_files, good_logs;
  std::string look = "1s", settle = "10s";
  bool follow = false, json = false, list = false;
};

void Declare(Options* options, TriageRequest* request) {
  options->add_option("LOGDIR|FILE", request->logs, "log files and folders of them")->type_name("");
  options->add_option("--rules", request->rule_files, "rules of your own, beside the built-in ones")->type_name("FILE");
  options->add_option("--versions", request->version_files, "versions with known faults, beside the built-in ones")
      ->type_name("FILE");
  options->add_option("--baseline", request->good_logs, "logs of a run that went well")->type_name("LOGS");
  options->add_flag("--follow", request->follow, "read the logs while they grow");
  options->add_option("--look", request->look)->group("");      // --follow: between two looks; for tests
  options->add_option("--settle", request->settle)->group("");  // --follow: silence after a failure; for tests
  options->add_flag("--list-rules", request->list, "print the built-in rules, as a file for --rules");
  options->add_flag("--json", request->json, "print JSON");
}

// With --json only the verdict is for stdout.
void ReportFailure(const Triage& triage, bool json) {
  const std::string line =
      fmt::format("{} something has failed: {}\n", absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone()),
                  FailureLine(triage));
  if (!json) {
    WriteOut(line);
    std::fflush(stdout);
  } else {
    std::fputs(PrintableLines(line).c_str(), stderr);
  }
}

absl::StatusOr<Triage> Follow(const TriageRequest& request, const Matcher& matcher, HarmlessLines baseline) {
  const auto look = ParseDuration(request.look), settle = ParseDuration(request.settle);
  if (!look || !settle) return absl::InvalidArgumentError("--look and --settle take a time like 10s");
  FollowOptions options;
  options.baseline = std::move(baseline);
  options.look = *look;
  options.settle = *settle;
  options.report = [&](const Triage& triage) { ReportFailure(triage, request.json); };
  options.stopped = Ended;
  CatchSignals();
  return FollowLogs(matcher, request.logs, options);
}

absl::StatusOr<HarmlessLines> ReadBaseline(const TriageRequest& request, const Matcher& matcher) {
  if (request.good_logs.empty()) return HarmlessLines();
  const auto good = FindLogs(request.good_logs);
  if (!good.ok()) return good.status();
  return BaselineOf(ScanLogs(matcher, *good, nullptr));
}

absl::StatusOr<Triage> Read(const TriageRequest& request, const Matcher& matcher) {
  auto baseline = ReadBaseline(request, matcher);
  if (!baseline.ok()) return baseline.status();
  if (request.follow) return Follow(request, matcher, *std::move(baseline));
  const auto files = FindLogs(request.logs);
  if (!files.ok()) return files.status();
  return Judge(matcher.rules(), ScanWithProgress(matcher, *files), *baseline);
}

void AddKnownBad(const TriageRequest& request, const std::vector<KnownBad>& entries, Triage* triage) {
  if (!IsFailure(*triage)) return;
  const auto files = FindLogs(request.logs);
  if (files.ok()) triage->known_bad = KnownBadOf(entries, VersionsIn(*files), *triage);
}

}  // namespace

int TriageLogs(const Command& self, const Arguments& arguments) {
  Options options(self, kTriageHelp);
  TriageRequest request;
  Declare(&options, &request);
  if (const auto status = options.Read(arguments)) return *status;
  if (request.list) {
    WriteOut(OwnRules());
    return kDone;
  }
  if (request.logs.empty()) return UsageError(self, "which logs?");
  const auto matcher = MakeMatcher(request.rule_files);
  if (!matcher.ok()) return UsageError(self, std::string(matcher.status().message()));
  const auto known_bad = ReadKnownBad(request.version_files);
  if (!known_bad.ok()) return UsageError(self, std::string(known_bad.status().message()));
  auto triage = Read(request, *matcher);
  if (!triage.ok()) return Unreadable(self, triage.status());
  AddKnownBad(request, *known_bad, &*triage);
  for (const std::string& failure : triage->failures) Complain("triage", "{}", failure);
  if (request.json)
    PrintJson(TriageJson(*triage));
  else
    WriteOut(TriageText(*triage));
  if (IsFailure(*triage)) return kProblem;
  return triage->failures.empty() && triage->files > 0 ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
