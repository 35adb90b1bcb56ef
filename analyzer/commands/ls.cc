// `ncclwatch ls`: the run directories of this machine.
#include <nlohmann/json.hpp>

#include <cstdio>

#include "analyzer/console/options.h"
#include "analyzer/console/table.h"
#include "analyzer/console/terminal.h"
#include "analyzer/console/units.h"
#include "analyzer/jobs/locate.h"
#include "analyzer/jobs/verdict.h"

namespace ncclwatch::analyzer {
namespace {

constexpr char kDescription[] =
    "List the run directories of this machine, newest first: those of NCCLWATCH_DIR, /dev/shm, $TMPDIR and /tmp.\n"
    "The first is what `latest` names. State: running (a process of it lives), fault (it has a diagnosis that found\n"
    "something; ALIVE says whether it still runs), finished.";

const char* StateOf(const rundir::Listed& run) {
  if (HasFault(run.path)) return "fault";
  return run.alive > 0 ? "running" : "finished";
}

void PrintJson(const std::vector<rundir::Listed>& runs) {
  auto list = nlohmann::ordered_json::array();
  for (const rundir::Listed& run : runs)
    list.push_back({{"path", run.path},
                    {"job", run.job},
                    {"attempt", run.attempt},
                    {"ranks", run.boxes},
                    {"alive", run.alive},
                    {"state", StateOf(run)},
                    {"modified_at", IsoText(run.modified_ns)},
                    {"age_s", static_cast<double>(RealtimeNow() - run.modified_ns) / 1e9},
                    {"latest", &run == &runs.front()}});
  const nlohmann::ordered_json all = {{"schema", "ncclwatch.ls/1"}, {"runs", std::move(list)}};
  std::puts(PrintableJson(all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)).c_str());
}

void PrintText(const std::vector<rundir::Listed>& runs) {
  if (runs.empty()) {
    std::fputs("no run directories on this machine\n", stderr);
    return;
  }
  Table table({{"STATE"}, {"ALIVE", true}, {"RANKS", true}, {"AGE", true}, {"JOB"}, {"ATTEMPT", true}, {"PATH"}});
  for (const rundir::Listed& run : runs)
    table.Add({StateOf(run), std::to_string(run.alive), std::to_string(run.boxes),
               AgeText(RealtimeNow() - run.modified_ns), Printable(run.job), std::to_string(run.attempt),
               Printable(run.path)});
  std::fputs(table.Text().c_str(), stdout);
}

}  // namespace

int Ls(const Arguments& arguments) {
  Options options("ls", kDescription);
  bool json = false;
  options.add_flag("--json", json, "print as JSON (schema ncclwatch.ls/1)");
  if (const auto status = options.Read(arguments)) return *status;
  const std::vector<rundir::Listed> runs = ListRuns();
  json ? PrintJson(runs) : PrintText(runs);
  return kDone;
}

}  // namespace ncclwatch::analyzer
