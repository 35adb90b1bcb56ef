#!/usr/bin/env python3
"""Jobs over several nodes, each a set of namespaces of this machine: the faults of tests/scenarios must get the verdict
that they get on one node. `--list` names the tests; status 77 is a skip.

    python3 tests/nodes/run.py --build build/release fault.killed
    python3 tests/nodes/run.py --build build/release all          # every fault in every layout and situation
    python3 tests/nodes/run.py --build build/release chaos --runs 200
"""

import argparse
import json
import os
import random
import sys
import time

import cases
import cluster
from agreement import (all_seen, check_offline, check_said_once, check_same, said_in, settled, verdicts,
                       watched)
from cluster import RUN, Build, Cluster, Failure, Skip, SpreadJob
from spread import CERTAIN_S, keep, options_for, report

import faults  # of ../scenarios

TIMEOUT_S = 3.0
GRACE_S = 1.0  # beyond the time-out, where one is
LOSSY_S = 30.0  # TCP itself needs seconds for what a third of the frames and 200 ms cost it
LOSSY = (0.2, 0.3)
SETTLE_S = 0.7

# Needs a time-out; needs every rank from the beginning, so that nothing can be cut off before it.
NEEDS_TIMEOUT = {name for name, (slow, _) in faults.FAULTS.items() if slow}
AT_START = {"wrong_world_size", "missing_at_start"}


def fault(build, name, nodes, ranks, culprit, seed=1, cut=False, lossy=False, redis=False, kill_redis=False):
    """One fault on a job over so many nodes. Returns what was measured."""
    want = faults.expected(name)
    slow = name in NEEDS_TIMEOUT
    planned = name in AT_START or not (cut or lossy or kill_redis)
    with Cluster(build, nodes, redis=redis) as made:
        job = SpreadJob(made, build.example(name), ranks, options_for(name, culprit, ranks, seed, planned),
                        {"NCCLWATCH_TIMEOUT": f"{TIMEOUT_S:g}", **faults.ENVIRONMENT.get(name, {})})
        try:
            if not planned:
                made.wait_until(lambda: watched(job), 60, "all ranks were to be watched")
                disturb(made, cut, lossy, kill_redis)
                job.name_culprit(culprit)
            fault_ns = made.wait_until(job.fault_ns, 60, "the fault was to happen")
            told = [n for n in range(nodes) if not (cut and n == 0)]
            allowed = TIMEOUT_S + GRACE_S if slow else CERTAIN_S
            allowed = LOSSY_S if lossy else allowed
            documents, written = made.wait_until(lambda: verdicts(job, want, told, lossy), allowed + 10,
                                                 f"a diagnosis of {name} was to be on every node")
            if not (cut or lossy or kill_redis):  # a hub that followed another one knows more once all have come to it
                seen = ranks - (name == "missing_at_start")
                made.wait_until(lambda: all_seen(verdicts(job, want, told), seen), 10, "all ranks were to be seen")
            exact = not (cut or lossy)
            time.sleep(SETTLE_S)
            documents = settled(job, want, told, exact) or (verdicts(job, want, told, lossy) or (documents, 0))[0]
            check_same(documents, want, culprit)
            latency = (written - fault_ns) / 1e9
            if lossy:  # what is said waits for the other nodes' answers
                documents = made.wait_until(lambda: said_in(job, want, told), 15, "the verdict was to be said")
            live = next(iter(documents.values()))
            check_said_once(job, live["findings"][0], name, apart=lossy)
            if not lossy:
                check_offline(job, live, [made.nodes[n] for n in told], exact=not cut)
            return {"fault": name, "nodes": nodes, "ranks": ranks, "latency_s": round(latency, 3), "allowed_s": allowed}
        except Failure as failure:
            keep(build, job, name, failure)
            raise


def disturb(made, cut, lossy, kill_redis):
    if cut:
        made.nodes[0].cut()
        time.sleep(2.5)  # the others notice, and one of them takes over
    if lossy:
        made.lose(*LOSSY)
        time.sleep(2)
    if kill_redis:
        made.kill_redis()
        time.sleep(1)
        made.start_redis()
        time.sleep(1)


# ---- what every fault is tried in ------------------------------------------------------------------------------------

LAYOUTS = {2: 4, 4: 8, 8: 16}  # nodes: ranks
# Situations, each over 4 nodes: options of fault().
SITUATIONS = {"hub_cut_off": {"cut": True}, "lossy": {"lossy": True}, "redis": {"redis": True},
              "redis_restarted": {"redis": True, "kill_redis": True}}
# With every run of all tests; `all` runs the rest: faults whose verdict is another one's, lossy networks (half a minute each).
ALIKE = ("rank0_logging", "bucket_sizes", "exception", "missing_at_start")
QUICK = {"hub_cut_off": ("killed", "stuck_data_loader"), "lossy": (), "redis": ("killed", "frozen"),
         "redis_restarted": ("wrong_dtype",)}


def possible(situation, name):
    return situation == "redis" or name not in AT_START


def quick_fault(build, name):
    """One layout for each fault; the culprit in turn on the hub's node and elsewhere."""
    number = sorted(faults.FAULTS).index(name)
    nodes = list(LAYOUTS)[number % 2]
    report(fault(build, name, nodes, LAYOUTS[nodes], culprit=1 if number % 3 == 0 else LAYOUTS[nodes] - 1 - number % 2))


def matrix(build):
    """Every fault in every layout and situation. (name, what to run) in turn."""
    for name in faults.FAULTS:
        for nodes, ranks in LAYOUTS.items():
            for culprit in (1, ranks - 2):  # beside the hub, and elsewhere
                yield (f"{nodes} nodes/{name}/{culprit}",
                       lambda n=name, k=nodes, r=ranks, c=culprit: fault(build, n, k, r, culprit=c))
        for situation, options in SITUATIONS.items():
            if possible(situation, name):
                yield f"{situation}/{name}", lambda n=name, o=options: fault(build, n, 4, 8, culprit=5, **o)


def tried(runs, log):
    """Each of (name, what to run), one line of JSON each; goes on after a failure, and says in the end what there was. How
    late a verdict may be counts here alone: the quick suite runs beside other tests."""
    outcomes, slowest = [], {}
    for what, run in runs:
        begun = time.monotonic()
        try:
            result = {"outcome": "right", **run()}
            if result["latency_s"] > result.get("allowed_s", float("inf")):
                raise Failure(f"verdict after {result['latency_s']:.2f} s, allowed {result['allowed_s']:.1f} s")
            slowest[result["fault"]] = max(slowest.get(result["fault"], 0), result["latency_s"])
        except Failure as failure:
            result = {"outcome": "wrong", "why": str(failure)[:2000]}
        outcomes.append(result["outcome"])
        line = json.dumps({"what": what, **result, "took_s": round(time.monotonic() - begun, 1)})
        print(line, flush=True)
        if log:
            with open(log, "a") as file:
                file.write(line + "\n")
    right = outcomes.count("right")
    print(json.dumps({"runs": len(outcomes), "right": right, "slowest_s": slowest}))
    if right != len(outcomes):
        raise Failure(f"{len(outcomes) - right} of {len(outcomes)} are wrong")


# ---- long runs -------------------------------------------------------------------------------------------------------

def chaos(build, runs, seed):
    """Random faults at random times, 8 ranks over 4 nodes. (name, what to run) in turn."""
    names = sorted(faults.FAULTS)
    for run in range(seed, seed + runs):
        draw = random.Random(f"chaos/{run}")
        name = draw.choice(names)
        culprit = draw.randrange(1 if name == "missing_at_start" else 0, 8)
        yield (f"chaos {run}/{name}/{culprit}",
               lambda n=name, c=culprit, r=run, d=draw: chaos_run(build, n, c, r, d))


def chaos_run(build, name, culprit, run, draw):
    want = faults.expected(name)
    options = options_for(name, culprit, 8, run)
    options[options.index("--step") + 1] = draw.randrange(1, 400)
    options[options.index("--step-ms") + 1] = draw.choice([1, 2, 5, 10])
    with Cluster(build, 4) as made:
        job = SpreadJob(made, build.example(name), 8, options,
                        {"NCCLWATCH_TIMEOUT": f"{TIMEOUT_S:g}", **faults.ENVIRONMENT.get(name, {})})
        try:
            fault_ns = made.wait_until(job.fault_ns, 90, "the fault was to happen")
            documents, written = made.wait_until(lambda: verdicts(job, want, range(4)), 40, f"a diagnosis of {name}")
            seen = 8 - (name == "missing_at_start")
            made.wait_until(lambda: all_seen(verdicts(job, want, range(4)), seen), 10, "all ranks were to be seen")
            time.sleep(SETTLE_S)
            documents = settled(job, want, range(4), True) or (verdicts(job, want, range(4)) or (documents, 0))[0]
            check_same(documents, want, culprit)
            live = next(iter(documents.values()))
            check_said_once(job, live["findings"][0], name)
            check_evidence(job)
            check_offline(job, live, made.nodes)
            return {"fault": name, "culprit": culprit, "latency_s": round((written - fault_ns) / 1e9, 3)}
        except Failure as failure:
            keep(build, job, f"chaos-{run}-{name}", failure)
            raise


def check_evidence(job):
    """Each node's run directory: both forms of the verdict, a whole box for each of its ranks."""
    for node in job.cluster.nodes:
        names = os.listdir(node.path(RUN))
        boxes = [name for name in names if name.endswith(".box")]
        if len(boxes) < job.per_node - 1 or not {"diagnosis.json", "diagnosis.txt"} <= set(names):
            raise Failure(f"evidence of {node.host} is not complete: {sorted(names)}")


def table():
    tests = {f"fault.{name}": lambda build, name=name: quick_fault(build, name) for name in faults.FAULTS}
    tests |= {f"{situation}.{name}": lambda build, n=name, s=situation:
              report(fault(build, n, 4, 8, culprit=5, **SITUATIONS[s]))
              for situation in SITUATIONS for name in faults.FAULTS if possible(situation, name)}
    tests |= {test.__name__: test for test in cases.CASES + cases.LONG}
    return tests


def quick(name):
    level, _, what = name.partition(".")
    if name in {test.__name__ for test in cases.LONG}:
        return False
    if level == "fault":
        return what not in ALIKE
    return level not in SITUATIONS or what in QUICK[level]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--runs", type=int, default=200, help="of chaos")
    parser.add_argument("--seed", type=int, default=0, help="of the first run of chaos")
    parser.add_argument("--only", default="", help="of all: what contains this")
    parser.add_argument("--log", help="of all and chaos: a file to which the lines are appended")
    parser.add_argument("name", nargs="?")
    arguments = parser.parse_args()
    tests = table()
    if arguments.list:
        print("\n".join(filter(quick, tests)))
        return 0
    build = Build(arguments.build)
    tests["chaos"] = lambda build: tried(chaos(build, arguments.runs, arguments.seed), arguments.log)
    tests["all"] = lambda build: tried(((what, run) for what, run in matrix(build) if arguments.only in what),
                                       arguments.log)
    try:
        cluster.check_possible()
        tests[arguments.name](build)
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
