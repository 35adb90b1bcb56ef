// `ncclwatch triage`: the first cause in the logs of many ranks.
#include <absl/time/clock.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "analyzer/commands/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/progress.h"
#include "analyzer/triage/print.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDescription[] =
    "Find the first cause of a failure in the logs of many ranks.\n\n"
    "Folders are searched for log files: one a rank, as torchrun, Slurm and mpirun write them, or all ranks in one "
    "file\n"
    "with prefixes; plain, gzip or Zstandard. Kernel logs may lie beside them. Each line is compared with rules: a "
    "cause,\n"
    "an echo of a cause elsewhere, or a confirmation by a launcher or scheduler. The first cause is told with its "
    "line,\n"
    "rank and time, and with what to do. --rules FILE adds rules of your own; --list-rules prints all of them.\n\n"
    "Exit status: 0 nothing failed, 1 a cause, or a failure that no rule knows, 2 usage, 3 a file could not be read.";

absl::StatusOr<std::vector<Rule>> AllRules(const std::vector<std::string>& paths) {
  auto rules = ParseRules(OwnRules(), "rules");
  for (const std::string& path : paths) {
    if (!rules.ok()) break;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return absl::NotFoundError(path + ": cannot be read");
    auto more = ParseRules(text.str(), path);
    if (!more.ok()) return more.status();
    AddRules(*std::move(more), &*rules);
  }
  return rules;
}

std::vector<ScannedFile> ScanAll(const Matcher& matcher, const std::vector<LogFile>& files) {
  const int year = absl::ToCivilYear(absl::Now(), absl::UTCTimeZone()).year();
  std::vector<ScannedFile> scanned(files.size());
  std::atomic<std::size_t> next{0}, done{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      scanned[i] = ScanLog(matcher, files[i], year);
      ++done;
    }
  };
  Progress progress("reading logs", files.size());
  std::vector<std::thread> threads;
  const std::size_t most = std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), files.size());
  for (std::size_t i = 0; i < most; ++i) threads.emplace_back(work);
  while (done < files.size()) {
    progress.Done(done);
    absl::SleepFor(absl::Milliseconds(20));
  }
  for (std::thread& thread : threads) thread.join();
  return scanned;
}

}  // namespace

int TriageLogs(const Command& self, const Arguments& arguments) {
  Options options(self, kDescription);
  std::vector<std::string> words, rule_files;
  bool json = false, list = false;
  options.add_option("LOGDIR|FILE", words, "log files and folders of them")->type_name("");
  options.add_option("--rules", rule_files, "rules of your own, beside the built-in ones")->type_name("FILE");
  options.add_flag("--list-rules", list, "print the built-in rules, as a file for --rules");
  options.add_flag("--json", json, "print JSON");
  if (const auto status = options.Read(arguments)) return *status;
  if (list) {
    WriteOut(OwnRules());
    return kDone;
  }
  if (words.empty()) return UsageError(self, "which logs?");
  auto rules = AllRules(rule_files);
  if (!rules.ok()) return UsageError(self, std::string(rules.status().message()));
  const auto matcher = Matcher::Make(*std::move(rules));
  if (!matcher.ok()) return UsageError(self, std::string(matcher.status().message()));
  const auto files = FindLogs(words);
  if (!files.ok()) return Unreadable(self, files.status());
  const Triage triage = Judge(matcher->rules(), ScanAll(*matcher, *files));
  for (const std::string& failure : triage.failures) Complain("triage", "{}", failure);
  if (json)
    PrintJson(TriageJson(triage));
  else
    WriteOut(TriageText(triage));
  if (!triage.causes.empty() || triage.unknown) return kProblem;
  return triage.failures.empty() && !files->empty() ? kDone : kUnreadable;
}

}  // namespace ncclwatch::analyzer
