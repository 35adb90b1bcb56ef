// `ncclwatch ls`: the run directories of this machine.
#include <absl/time/clock.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <span>

#include "analyzer/commands/options/options.h"
#include "analyzer/commands/table.h"
#include "analyzer/console/print.h"
#include "analyzer/console/table.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/verdict.h"
#include "core/model/text.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kLsHelp[] =
    "List the run directories of this machine, newest first: those of NCCLWATCH_DIR, /dev/shm, $TMPDIR and /tmp.\n"
    "`latest` names the first one. STATE is running (a process of the job lives), fault (a diagnosis found a problem;\n"
    "ALIVE says whether the job still runs) or finished.";

constexpr std::size_t kRows = 30;

const char* StateOf(const rundir::Listed& run) {
  if (HasFault(run.path)) return "fault";
  return run.alive > 0 ? "running" : "finished";
}

absl::Duration AgeOf(const rundir::Listed& run) { return absl::Now() - absl::FromUnixNanos(run.modified_ns); }

nlohmann::ordered_json ToJson(const std::vector<rundir::Listed>& runs) {
  auto list = nlohmann::ordered_json::array();
  for (const rundir::Listed& run : runs)
    list.push_back({{"path", run.path},
                    {"job", run.job},
                    {"attempt", run.attempt},
                    {"ranks", run.boxes},
                    {"alive", run.alive},
                    {"state", StateOf(run)},
                    {"modified_at", diagnosis::UtcTime(run.modified_ns)},
                    {"age_s", absl::ToDoubleSeconds(AgeOf(run))},
                    {"latest", &run == &runs.front()}});
  return {{"schema", "ncclwatch.ls/1"}, {"runs", std::move(list)}};
}

void PrintText(const std::vector<rundir::Listed>& runs, bool all) {
  if (runs.empty()) {
    std::fputs("no run directories on this machine\n", stderr);
    return;
  }
  Table table({{"STATE"}, {"ALIVE", true}, {"RANKS", true}, {"AGE", true}, {"JOB"}, {"ATTEMPT", true}, {"PATH"}});
  const std::size_t shown = all ? runs.size() : std::min(runs.size(), kRows);
  for (const rundir::Listed& run : std::span(runs).first(shown))
    table.Add({StateOf(run), fmt::format("{}", run.alive), fmt::format("{}", run.boxes), AgeText(AgeOf(run)), run.job,
               fmt::format("{}", run.attempt), run.path});
  WriteOut(table.Text());
  if (shown < runs.size()) Print("... and {} older ones (--all)\n", runs.size() - shown);
}

}  // namespace

int Ls(const Command& self, const Arguments& arguments) {
  Options options(self, kLsHelp);
  bool json = false, all = false;
  options.add_flag("--all", all, fmt::format("also those after the newest {}; --json always has all", kRows));
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.ls/1)");
  if (const auto status = options.Read(arguments)) return *status;
  const std::vector<rundir::Listed> runs = ListRuns();
  json ? PrintJson(ToJson(runs)) : PrintText(runs, all);
  return kDone;
}

}  // namespace ncclwatch::analyzer
