#include "analyzer/commands/table.h"

namespace ncclwatch::analyzer {
namespace {

constexpr Command kCommands[] = {
    {"run", "[OPTIONS] -- CMD...", "run a job under watch",
     "ncclwatch run -- torchrun --nproc-per-node 8 train.py\n"
     "ncclwatch run --timeout 120 --on-fault abort -- srun ./train\n"
     "ncclwatch run --record recording -- mpirun -n 4 ./solver\n",
     Run},
    {"demo", "[--ranks N]", "show a hang and its verdict, on any machine",
     "ncclwatch demo\n"
     "ncclwatch demo --list\n"
     "ncclwatch demo straggler\n",
     Demo},
    {"diagnose", "[OPTIONS] [DIR|FILE...]", "say what is wrong with a live or a dead job",
     "ncclwatch diagnose\n"
     "ncclwatch diagnose /dev/shm/ncclwatch-1000/job\n"
     "ncclwatch diagnose --baseline good recording\n",
     Diagnose},
    {"attach", "[OPTIONS] [PID...]", "say where the ranks of a job stand that runs without ncclwatch",
     "ncclwatch attach\n"
     "ncclwatch attach --json 4711\n"
     "srun --overlap ncclwatch attach --meet node01:23456\n",
     Attach},
    {"report", "[-o FILE] [DIR|FILE...]", "write all of that as one page to look at",
     "ncclwatch report -o report.html\n", Report},
    {"top", "[OPTIONS] [DIR]", "show a job as it goes on",
     "ncclwatch top\n"
     "ncclwatch top --once latest\n",
     Top},
    {"trace", "[FILTERS] [DIR|FILE...]", "list the recorded calls of all ranks by time",
     "ncclwatch trace --pending\n"
     "ncclwatch trace --rank 3 --op AllReduce --last 20\n"
     "ncclwatch trace --json recording\n",
     Trace},
    {"stats", "[OPTIONS] [DIR|FILE...]", "sum up the recorded calls: how many, how long, who waited",
     "ncclwatch stats\n"
     "ncclwatch stats --by rank recording\n"
     "ncclwatch stats --steps recording\n",
     Stats},
    {"replay", "[OPTIONS] [DIR|FILE...]", "run the recorded calls again, on a model",
     "ncclwatch replay recording\n"
     "ncclwatch replay --slow rank=3:20% recording\n"
     "ncclwatch replay --on mpi recording\n"
     "ncclwatch replay --shrink --out small recording\n",
     Replay},
    {"collect", "[OPTIONS] [DIR]", "record every call of a live job on this node",
     "ncclwatch collect --to recording latest\n", Collect},
    {"metrics", "[OPTIONS] [DIR]", "print or serve a job's numbers for Prometheus",
     "ncclwatch metrics\n"
     "ncclwatch metrics --listen :9400 latest\n",
     Metrics},
    {"export", "--to FORMAT -o OUT [DIR|FILE...]", "convert black boxes to the format of another tool",
     "ncclwatch export --to perfetto -o job.pftrace\n"
     "ncclwatch export --to parquet -o calls recording\n",
     Export},
    {"import", "[--from FORMAT] -o REC PATH...", "make a recording of what other tools recorded",
     "ncclwatch import -o recording traces/\n"
     "ncclwatch import --from jsonl -o recording calls.jsonl\n",
     ImportTraces},
    {"bundle", "[OPTIONS] [DIR|FILE...]", "put everything for a bug report into one file",
     "ncclwatch bundle -o bundle.tar.zst\n"
     "ncclwatch bundle --redact --logs logs latest\n",
     BundleJob},
    {"doctor", "[OPTIONS] [-- PROGRAM]", "is this machine, and are all ranks, ready to run",
     "ncclwatch doctor\n"
     "srun ncclwatch doctor --active\n"
     "ncclwatch doctor -- ./train\n",
     Doctor},
    {"compare", "[OPTIONS] A B [-- CMD...]", "say whether B is better than A, and how sure that is",
     "ncclwatch compare before after\n"
     "ncclwatch compare --trials 10 old new -- ./bench {}\n",
     CompareRuns},
    {"bisect", "[OPTIONS] -- CMD...", "find the size, item, host or variable with which CMD fails",
     "ncclwatch bisect --size 2..64 -- torchrun --nproc-per-node {n} train.py\n"
     "ncclwatch bisect --hosts hosts.txt --timeout 5m -- mpirun -H {hosts} ./solver\n",
     Bisect},
    {"correlate", "[OPTIONS] FILE|DIR...", "say what comes before failures, over weeks of events",
     "ncclwatch correlate events.jsonl\n"
     "ncclwatch correlate --window 30m events.jsonl sacct.txt\n",
     Correlate},
    {"investigate", "[-o FILE] DIR|LOGS...", "write the incident report of a job from its files",
     "ncclwatch investigate latest\n"
     "ncclwatch investigate -o incident.md recording logs\n",
     InvestigateJob},
    {"triage", "[OPTIONS] LOGDIR|FILE...", "find the first cause in the logs of many ranks",
     "ncclwatch triage logs\n"
     "ncclwatch triage --follow logs\n"
     "ncclwatch triage --rules own.toml slurm-4711.out\n",
     TriageLogs},
    {"ls", "[--json]", "list the run directories on this machine, newest first", "ncclwatch ls\n", Ls},
    {"clean", "[--older-than AGE] [DIR...]", "remove finished run directories (never a live one)",
     "ncclwatch clean --older-than 7d --dry-run\n", Clean},
    {"dump", "[--json] [DIR]", "ask a live job for its evidence now", "ncclwatch dump latest\n", Dump},
    {"stacks", "[OPTIONS] [PID|DIR...]", "show where every thread of a process or of a live job is",
     "ncclwatch stacks 4711\n"
     "ncclwatch stacks latest\n",
     Stacks},
    {"off", "[OPTIONS] [DIR]", "stop watching a live job without restarting it", "ncclwatch off latest\n", Off},
    {"on", "[OPTIONS] [DIR]", "resume watching a live job", "ncclwatch on latest\n", On},
};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  for (const Command& command : kCommands)
    if (name == command.name) return &command;
  return nullptr;
}

}  // namespace ncclwatch::analyzer
