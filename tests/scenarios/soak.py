#!/usr/bin/env python3
"""The full counts. Every run is one line in a log; what is in the log already is not run again, so that a long soak can
be stopped, go on, and be run by several at a time. Ends with a table in Markdown."""

import argparse
import collections
import concurrent.futures
import fcntl
import json
import os
import shutil
import sys
import time
import traceback

import endings
import faults
import healthy
import situations
import torchrun
from job import Build, Failure

LONG_SITUATION_RUNS = 5  # of each situation: they do not draw anything


def items(arguments):
    """(name, seed) of every run, mixed so that a stopped soak has seen some of each."""
    counts = {f"fault/{name}": arguments.runs for name in faults.FAULTS}
    counts |= {f"torchrun/{name}": arguments.torch_runs for name in ("exception", "killed")}
    counts |= {f"torchrun/{name}": max(1, arguments.torch_runs // 10)
               for name in ("healthy", "uneven_data", "elastic_restart", *torchrun.LONG)}
    counts |= {f"ending/{name}": max(1, arguments.runs // 10) for name in endings.RUNS}
    share = -(-arguments.healthy_runs // len(healthy.PROGRAMS)) if arguments.healthy_runs else 0
    counts |= {f"healthy/{name}": share for name in healthy.PROGRAMS}
    counts |= {f"healthy/{name}": arguments.long_runs for name in healthy.LONG}
    counts |= {f"situation/{name}": min(LONG_SITUATION_RUNS, arguments.healthy_runs) for name in situations.SITUATIONS}
    order = [((seed + 0.5) / count, name, seed) for name, count in counts.items() for seed in range(count)]
    return [(name, seed) for _, name, seed in sorted(order) if not arguments.only or arguments.only in name]


def run_one(build, folder, name, seed):
    """Returns the line for the log."""
    level, what = name.split("/")
    started = time.time()
    result = {"name": name, "seed": seed}

    def keep(job, failure):
        shutil.copytree(job.root, os.path.join(folder, "failures", f"{level}-{what}-{seed}"), dirs_exist_ok=True,
                        ignore_dangling_symlinks=True)
    try:
        if level == "fault":
            result |= faults.run(build, faults.plan(what, seed), keep)
        elif level == "healthy":
            result |= healthy.run(build, what, seed, keep=keep)
        elif level == "torchrun":
            result |= (torchrun.RUNS | torchrun.LONG)[what](build, seed)
        elif level == "ending":
            endings.RUNS[what](build)
        else:
            situations.SITUATIONS[what](build)
        if result.get("latency_s", 0) > result.get("allowed_s", float("inf")):
            raise Failure(f"verdict after {result['latency_s']:.3f} s, allowed {result['allowed_s']:.1f} s")
        result["outcome"] = "right"
    except situations.Skip as reason:
        result |= {"outcome": "skipped", "why": str(reason)}
    except Failure as failure:
        result |= {"outcome": "wrong", "why": str(failure)[:4000]}
    except Exception:  # a harness that breaks must not pass for a run that went well
        result |= {"outcome": "broken", "why": traceback.format_exc()[-2000:]}
    result["seconds"] = round(time.time() - started, 2)
    return result


class Log:
    """One JSON object a line; appended under a lock."""

    def __init__(self, path):
        self.path = path

    def read(self):
        try:
            with open(self.path) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def append(self, result):
        with open(self.path, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(result) + "\n")


def claim(folder, name, seed):
    """True once among all soaks that share the folder; a claim falls with its process."""
    path = os.path.join(folder, "claims", f"{name.replace('/', '-')}-{seed}")
    file = open(path, "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except BlockingIOError:
        file.close()
        return None


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def table(results):
    groups = collections.defaultdict(list)
    for result in results:
        groups[result["name"]].append(result)
    lines = ["| what | runs | right | wrong | leader as culprit | with live children | verdict p50 | p99 | worst |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name, group in sorted(groups.items()):
        outcomes = collections.Counter(result["outcome"] for result in group)
        latencies = [result["latency_s"] for result in group if "latency_s" in result]
        times = [f"{percentile(latencies, share):.3f} s" for share in (0.5, 0.99, 1.0)] if latencies else ["", "", ""]
        skipped = f" ({outcomes['skipped']} skipped)" if outcomes["skipped"] else ""
        lines.append(f"| {name} | {len(group)}{skipped} | {outcomes['right']} | {outcomes['wrong'] + outcomes['broken']} | "
                     f"{sum(bool(r.get('leader')) for r in group)} | {sum(bool(r.get('children')) for r in group)} | "
                     f"{' | '.join(times)} |")
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--log", default="build/soak", help="folder of the log (default build/soak)")
    parser.add_argument("--runs", type=int, default=300, help="of every fault (300)")
    parser.add_argument("--torch-runs", type=int, default=100, help="of each way in which a rank dies under torchrun (100)")
    parser.add_argument("--healthy-runs", type=int, default=200, help="over all healthy programs (200)")
    parser.add_argument("--long-runs", type=int, default=3, help="of the jobs with pauses of half a minute (3)")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2), help="at a time")
    parser.add_argument("--seconds", type=float, help="start no further run after so long")
    parser.add_argument("--only", help="only runs whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="forget the log")
    parser.add_argument("--table", action="store_true", help="print the table of what is in the log and run nothing")
    return parser.parse_args()


def main():
    arguments = parse()
    build = Build(arguments.build)
    if arguments.fresh:
        shutil.rmtree(arguments.log, ignore_errors=True)
    os.makedirs(os.path.join(arguments.log, "claims"), exist_ok=True)
    log = Log(os.path.join(arguments.log, "runs.jsonl"))
    wanted = items(arguments)
    begun = time.monotonic()

    def work(item):
        if arguments.table or (arguments.seconds and time.monotonic() - begun > arguments.seconds):
            return
        held = claim(arguments.log, *item)
        if not held:
            return
        with held:
            if item in {(done["name"], done["seed"]) for done in log.read()}:
                return
            result = run_one(build, arguments.log, *item)
            log.append(result)
            if result["outcome"] != "right":
                print(f"{result['outcome']}: {item[0]} seed {item[1]}: {result['why']}", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(work, wanted))
    chosen = set(wanted)
    results = [result for result in log.read() if (result["name"], result["seed"]) in chosen]
    print(f"{len(results)} of {len(wanted)} runs are in {log.path}\n")
    print(table(results))
    return 0 if all(result["outcome"] in ("right", "skipped") for result in results) and len(results) == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
