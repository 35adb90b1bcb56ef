#include "analyzer/commands/table.h"

namespace ncclwatch::analyzer {
namespace {

constexpr Command kCommands[] = {
    {"run", "[OPTIONS] -- CMD...", "run a job under watch", Run},
    {"demo", "[--ranks N]", "show a hang and its verdict, on any machine", Demo},
    {"diagnose", "[OPTIONS] [DIR|FILE...]", "say what is wrong with a live or a dead job", Diagnose},
    {"report", "[-o FILE] [DIR|FILE...]", "write all of that as one page to look at", Report},
    {"top", "[OPTIONS] [DIR]", "show a job as it goes on", Top},
    {"trace", "[FILTERS] [DIR|FILE...]", "list the recorded calls of all ranks by time", Trace},
    {"stats", "[OPTIONS] [DIR|FILE...]", "sum up the recorded calls: how many, how long, who waited", Stats},
    {"replay", "[OPTIONS] [DIR|FILE...]", "run the recorded calls again, on a model", Replay},
    {"collect", "[OPTIONS] [DIR]", "record every call of a live job on this node", Collect},
    {"metrics", "[OPTIONS] [DIR]", "print or serve a job's numbers for Prometheus", Metrics},
    {"export", "--to FORMAT -o OUT [DIR|FILE...]", "convert black boxes to the format of another tool", Export},
    {"bundle", "[OPTIONS] [DIR|FILE...]", "put everything for a bug report into one file", BundleJob},
    {"doctor", "[OPTIONS] [-- PROGRAM]", "is this machine, and are all ranks, ready to run", Doctor},
    {"compare", "[OPTIONS] A B [-- CMD...]", "say whether B is better than A, and how sure that is", CompareRuns},
    {"bisect", "[OPTIONS] -- CMD...", "find the size, item, host or variable with which CMD fails", Bisect},
    {"correlate", "[OPTIONS] FILE|DIR...", "say what comes before failures, over weeks of events", Correlate},
    {"investigate", "[-o FILE] DIR|LOGS...", "write the incident report of a job from its files", InvestigateJob},
    {"triage", "[OPTIONS] LOGDIR|FILE...", "find the first cause in the logs of many ranks", TriageLogs},
    {"ls", "[--json]", "list the run directories on this machine, newest first", Ls},
    {"clean", "[--older-than AGE] [DIR...]", "remove finished run directories (never a live one)", Clean},
    {"dump", "[--json] [DIR]", "ask a live job for its evidence now", Dump},
    {"stacks", "[OPTIONS] [PID|DIR...]", "show where every thread of a process or of a live job is", Stacks},
    {"off", "[OPTIONS] [DIR]", "stop watching a live job without restarting it", Off},
    {"on", "[OPTIONS] [DIR]", "resume watching a live job", On},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  for (const Command& command : kCommands)
    if (name == command.name) return &command;
  return nullptr;
}

}  // namespace ncclwatch::analyzer
