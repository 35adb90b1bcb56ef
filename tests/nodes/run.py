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
import shutil
import signal
import subprocess
import sys
import time

import cluster
from agreement import (all_seen, check_offline, check_said_once, check_same, said_in, settled, verdicts,
                       watched)
from cluster import RUN, Build, Cluster, Failure, Skip, SpreadJob

import faults  # of ../scenarios

TIMEOUT_S = 3.0
CERTAIN_S = 3.0    # from the fault to the verdict on every node, where no time-out is needed
GRACE_S = 1.0      # beyond the time-out, where one is
LOSSY_S = 30.0     # TCP itself needs seconds for what a third of the frames and 200 ms cost it
LOSSY = (0.2, 0.3)
SETTLE_S = 0.7
KEPT = "node-failures"  # below the build folder: what failed jobs left

# Needs a time-out; needs every rank from the beginning, so that nothing can be cut off before it.
NEEDS_TIMEOUT = {name for name, (slow, _) in faults.FAULTS.items() if slow}
AT_START = {"wrong_world_size", "missing_at_start"}


def options_for(name, culprit, ranks, seed, planned=True):
    """planned: the culprit is known from the beginning; else it is named while the job runs."""
    options = ["--rank", culprit if planned else -1, "--step", 30, "--steps", 1_000_000, "--step-ms", 5, "--seed", seed,
               "--count", 4096]
    if name == "wrong_world_size":
        options += ["--world-size", ranks + 1]
    if name == "exception":
        options += ["--terminate", seed % 2]
    return options


def fault(build, name, nodes, ranks, culprit, seed=1, cut=False, lossy=False, redis=False, kill_redis=False):
    """One fault on a job over so many nodes. Returns what was measured."""
    want = faults.expected(name)
    slow = name in NEEDS_TIMEOUT
    planned = name in AT_START or not (cut or lossy or kill_redis)
    with Cluster(build, nodes, redis=redis) as made:
        job = SpreadJob(made, build.example(name), ranks, options_for(name, culprit, ranks, seed, planned),
                        {"NCCLWATCH_TIMEOUT": f"{TIMEOUT_S:g}"})
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
            if latency > allowed:
                raise Failure(f"verdict after {latency:.2f} s, allowed {allowed:.1f} s")
            if not lossy:
                check_offline(job, live, [made.nodes[n] for n in told], exact=not cut)
            return {"fault": name, "nodes": nodes, "ranks": ranks, "latency_s": round(latency, 3)}
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


def keep(build, job, name, failure):
    kept = os.path.join(build.folder, KEPT, name)
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(kept, exist_ok=True)
    for node in job.cluster.nodes:
        shutil.copytree(node.path(RUN), os.path.join(kept, node.host), symlinks=True, ignore_dangling_symlinks=True,
                        dirs_exist_ok=True)
    with open(os.path.join(kept, "output"), "w") as file:
        for node in job.cluster.nodes:
            file.write(f"==== {node.host}\n{job.output(node.number)}\n")
        file.write(f"==== failure\n{failure}\n")
    print(f"what the job left is kept in {kept}", flush=True)


def report(result):
    print(json.dumps(result), flush=True)


# ---- what every fault is tried in ------------------------------------------------------------------------------------

LAYOUTS = {2: 4, 4: 8, 8: 16}  # nodes: ranks
# Situations, each over 4 nodes: options of fault().
SITUATIONS = {"hub_cut_off": {"cut": True}, "lossy": {"lossy": True}, "redis": {"redis": True},
              "redis_restarted": {"redis": True, "kill_redis": True}}
# With every run of all tests; `all` runs the rest. Lossy networks take half a minute each.
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
    """Each of (name, what to run), one line of JSON each; goes on after a failure, and says in the end what there was."""
    outcomes, slowest = [], {}
    for what, run in runs:
        begun = time.monotonic()
        try:
            result = {"outcome": "right", **run()}
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


# ---- other tests -----------------------------------------------------------------------------------------------------

def healthy(build):
    """A job that runs well over 4 nodes, and ends: one line says who is watched, and nothing else is said."""
    with Cluster(build, 4) as made:
        job = SpreadJob(made, build.example("healthy_training"), 8, ["--steps", 400, "--step-ms", 5])
        made.wait_until(lambda: len(job.ended()) == 8, 120, "the job was to end")
        if set(job.ended().values()) != {0}:
            raise Failure(f"statuses {job.ended()}\n{job.output()}")
        said = [line for line in job.said() if "watching 8/8 ranks" not in line]
        if said or not watched(job) or len(job.watched()) != 1:
            raise Failure(f"said of a healthy job over 4 nodes:\n{job.output()}")
        for node in range(4):
            if job.diagnosis(node):
                raise Failure(f"a diagnosis of a healthy job: {job.diagnosis(node)}")


def switched_off(build):
    """NCCLWATCH_EXCHANGE=off: each node by itself, and an honest line about whom it does not see."""
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("killed"), 4, options_for("killed", 3, 4, 1),
                        {"NCCLWATCH_TIMEOUT": "3", "NCCLWATCH_EXCHANGE": "off"})
        made.wait_until(job.fault_ns, 60, "the fault was to happen")
        found = made.wait_until(lambda: job.diagnosis(1), 10, "a diagnosis on the culprit's node")
        faults.check_finding(found[1], faults.expected("killed"), 3, "node1")
        made.wait_until(lambda: job.printed("not seen: ranks 2-3") and job.printed("not seen: ranks 0-1"), 15,
                        "lines about ranks that are not seen")


def met_by_id(build):
    """Nothing tells where the nodes meet but the ids that communicators are made of."""
    with Cluster(build, 3) as made:
        job = SpreadJob(made, build.example("killed"), 6, options_for("killed", 4, 6, 1),
                        {"NCCLWATCH_TIMEOUT": "3", "MASTER_ADDR": None,
                         "EXAMPLES_ADDRESS": made.nodes[0].address})
        made.wait_until(job.fault_ns, 60, "the fault was to happen")
        want = faults.expected("killed")
        documents, _ = made.wait_until(lambda: verdicts(job, want, range(3)), 10, "the verdict on every node")
        check_same(documents, want, 4)


def node_lost(build):
    """A node is switched off: never certain, and the verdict says why."""
    with Cluster(build, 3) as made:
        job = SpreadJob(made, build.example("healthy_training"), 6, ["--steps", 1_000_000, "--step-ms", 5],
                        {"NCCLWATCH_TIMEOUT": "3"})
        made.wait_until(lambda: watched(job), 60, "all ranks were to be watched")
        made.nodes[2].cut()  # or the ends of its connections would still leave it
        made.nodes[2].end()
        found = made.wait_until(lambda: job.diagnosis(0), 30, "a diagnosis")[1]
        first = found["findings"][0]
        if first["kind"] != "dead_rank" or first["certainty"] != "likely" or first["culprits"] != [4, 5]:
            raise Failure(f"{json.dumps(first, indent=1)}\n{job.output()}")
        if "not been heard of" not in first["summary"]:
            raise Failure(first["summary"])


def was_hub(job, node):
    """What a leader of that node leaves its successor: whether it is the hub."""
    with open(job.cluster.nodes[node].path(RUN + "/exchange"), "rb") as file:
        return file.read(6)[5] == 1


def cut_off_and_back(build):
    """A node is cut off until it leads itself, and comes back before the fault: all are seen again, by all."""
    with Cluster(build, 3) as made:
        job = SpreadJob(made, build.example("stuck_data_loader"), 6, options_for("stuck_data_loader", 3, 6, 1, False),
                        {"NCCLWATCH_TIMEOUT": "3"})
        made.wait_until(lambda: watched(job), 60, "all ranks were to be watched")
        made.wait_until(lambda: was_hub(job, 0) and not was_hub(job, 2), 10, "node0 was to have the hub")
        made.nodes[2].cut()
        made.wait_until(lambda: was_hub(job, 2), 30, "node2 was to have a hub of its own")
        made.nodes[2].mend()
        made.wait_until(lambda: not was_hub(job, 2), 30, "node2 was to give way")
        job.name_culprit(3)
        want = faults.expected("stuck_data_loader")
        documents, _ = made.wait_until(lambda: all_seen(verdicts(job, want, range(3)), 6) and
                                       verdicts(job, want, range(3)), 30, "a verdict on all nodes that has seen all")
        check_same(documents, want, 3)


def hub_changes(build):
    """The leader that is the hub dies with the verdict standing: it stays, and is not said again."""
    with Cluster(build, 3) as made:
        job = SpreadJob(made, build.example("stuck_data_loader"), 6, options_for("stuck_data_loader", 4, 6, 1, False),
                        {"NCCLWATCH_TIMEOUT": "3"})
        made.wait_until(lambda: watched(job), 60, "all ranks were to be watched")
        job.name_culprit(4)
        want = faults.expected("stuck_data_loader")
        documents, _ = made.wait_until(lambda: verdicts(job, want, range(3)), 20, "the verdict on every node")
        finding = documents["node0"]["findings"][0]
        job.signal(0, signal.SIGKILL)
        job.signal(1, signal.SIGKILL)
        time.sleep(8)
        check_said_once(job, finding, "after the hub's node has ended")
        after = verdicts(job, want, [1, 2])
        if not after:
            raise Failure(f"the verdict does not stand any more: {job.diagnosis(1)}\n{job.output()}")
        check_same(after[0], want, 4)


def strangers(build):
    """Ten thousand calls without the token at the hub of a job, what its members have said among them, and then a fault."""
    with Cluster(build, 2) as made:
        heard = os.path.join(made.root, "overheard")
        program = os.path.join(cluster.HERE, "strangers.py")
        ear = made.helper(sys.executable, program, "overhear", made.nodes[1].cable, heard, stdout=subprocess.PIPE, text=True)
        if ear.stdout.readline() != "overhears\n":
            raise Failure("nobody overhears")
        job = SpreadJob(made, build.example("killed"), 4, options_for("killed", 3, 4, 1, False), {"NCCLWATCH_TIMEOUT": "3"})
        made.wait_until(lambda: watched(job), 60, "all ranks were to be watched")
        made.wait_until(lambda: was_hub(job, 0), 10, "node0 was to have the hub")
        ear.terminate()
        ear.wait()
        before = made.nodes[0].resident_kib()
        for port in made.nodes[0].listening():
            caller = made.helper(sys.executable, program, "call", made.nodes[0].address, str(port), "5000", heard,
                                 stdout=subprocess.PIPE, text=True)
            told = json.loads(caller.stdout.readline())
            if told["calls"] != 5000 or told["overheard"] == 0:
                raise Failure(f"strangers at port {port}: {told}")
        grown = made.nodes[0].resident_kib() - before
        if grown > 32 << 10:
            raise Failure(f"the hub's node has grown by {grown} KiB")
        lines = [line for line in job.said() if "without the job's token" in line]
        if not 1 <= len(lines) <= 3:
            raise Failure(f"{len(lines)} lines about strangers\n{job.output()}")
        job.name_culprit(3)
        want = faults.expected("killed")
        documents, _ = made.wait_until(lambda: verdicts(job, want, range(2)), CERTAIN_S, "the verdict on both nodes")
        check_same(documents, want, 3)
        report({"strangers": 5000 * len(made.nodes[0].listening()), "grown_kib": grown, "lines": len(lines)})


def stacks_of(job, node):
    """pid -> when its stacks were read, of a node's run directory."""
    folder = job.cluster.nodes[node].path(RUN + "/stacks")
    read = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name[:-4].isdigit():
            with open(os.path.join(folder, name)) as file:
                head = file.read().split("\n\n")[0]
            if "\nwhere " in head:
                read[int(name[:-4])] = int(head.split(" at_ns ")[1].split()[0])
    return read


def abort(build):
    """NCCLWATCH_ON_FAULT=abort: evidence on every node first, the culprit's stack in everybody's verdict, then all end."""
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("stuck_data_loader"), 4, options_for("stuck_data_loader", 3, 4, 1),
                        {"NCCLWATCH_TIMEOUT": "3", "NCCLWATCH_ON_FAULT": "abort"})
        try:
            made.wait_until(lambda: len(job.ended()) == 4, 60, "the job was to be ended")
            statuses = {rank: os.waitstatus_to_exitcode(status) for rank, status in job.ended().items()}
            if statuses != {0: 1, 1: 1, 2: 1, 3: 86}:
                raise Failure(f"statuses {statuses}: those that waited end by NCCL's error, the other by 86")
            documents = {made.nodes[node].host: (job.diagnosis(node) or (0, None))[1] for node in range(2)}
            if None in documents.values():
                raise Failure(f"a node has no diagnosis: {documents}")
            check_same(documents, faults.expected("stuck_data_loader"), 3)
            where = documents["node0"]["findings"][0]["culprit_details"][0]["where"]
            if not any(line.startswith("main (stuck_data_loader") for line in where):
                raise Failure(f"where: {where}")
            for node in range(2):
                if len(stacks_of(job, node)) != 2:
                    raise Failure(f"stacks of node{node}: {stacks_of(job, node)}")
            check_said_once(job, documents["node0"]["findings"][0], "abort")
            check_offline(job, documents["node0"], made.nodes)
        except Failure as failure:
            keep(build, job, "abort", failure)
            raise


def dump(build):
    """`ncclwatch dump` on one node, SIGUSR2 on the other: each time the evidence of both, no verdict, and the job lives."""
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("healthy_training"), 4, ["--steps", 1_000_000, "--step-ms", 5])
        made.wait_until(lambda: watched(job), 60, "all ranks were to be watched")
        done = subprocess.run([build.command, "dump", made.nodes[0].path(RUN)], capture_output=True, text=True, timeout=60)
        if done.returncode != 0 or "stacks of 2 of 2 processes" not in done.stdout:
            raise Failure(f"dump ends with {done.returncode}\n{done.stdout}{done.stderr}\n{job.output()}")
        before = {}
        for what, ask in (("dump", lambda: None), ("SIGUSR2", lambda: job.signal(3, signal.SIGUSR2))):
            ask()
            made.wait_until(lambda: all(len(stacks_of(job, node)) == 2 and not any(
                before.get((node, pid), 0) >= at for pid, at in stacks_of(job, node).items()) for node in range(2)), 15,
                f"{what}: new stacks were to be on both nodes")
            before = {(node, pid): at for node in range(2) for pid, at in stacks_of(job, node).items()}
        if job.ended() or job.diagnosis(0) or job.diagnosis(1):
            raise Failure(f"ended {job.ended()}, diagnosis {job.diagnosis(0)} {job.diagnosis(1)}\n{job.output()}")


def unreachable(build):
    """NCCLWATCH_EXCHANGE says an address where nobody is: each node says so once, and judges itself."""
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("killed"), 4, options_for("killed", 3, 4, 1, False),
                        {"NCCLWATCH_TIMEOUT": "3", "NCCLWATCH_EXCHANGE": "tcp://10.77.0.99:7777"})
        # Rank 0's node listens, since the address may be a service's; the other one finds nobody.
        made.wait_until(lambda: job.printed("not seen: ranks 2-3") == 1 and
                        job.printed("the other nodes of the job cannot be reached") == 1, 30, "a line on each node")
        job.name_culprit(3)
        found = made.wait_until(lambda: job.diagnosis(1), 10, "a diagnosis on the culprit's node")
        faults.check_finding(found[1], faults.expected("killed"), 3, "node1")
        said = [line for line in job.said() if "the other nodes of the job cannot be reached" in line]
        if len(said) != len({line.split("]")[0] for line in said}):
            raise Failure(f"a leader said it twice:\n{job.output()}")


def no_meeting_place(build):
    """Nothing tells where the nodes meet: one line on each, and each is judged alone."""
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("killed"), 4, options_for("killed", 3, 4, 1),
                        {"NCCLWATCH_TIMEOUT": "3", "MASTER_ADDR": None, "EXAMPLES_ADDRESS": made.nodes[0].address,
                         "NCCL_COMM_ID": made.nodes[0].address + ":5555"})
        made.wait_until(job.fault_ns, 60, "the fault was to happen")
        found = made.wait_until(lambda: job.diagnosis(1), 10, "a diagnosis on the culprit's node")
        faults.check_finding(found[1], faults.expected("killed"), 3, "node1")
        lines = [line for line in job.said() if "nothing tells where they meet" in line]
        if len(lines) != 2:
            raise Failure(f"{len(lines)} lines, wanted one a node:\n{job.output()}")


OTHERS = (healthy, switched_off, unreachable, met_by_id, no_meeting_place, node_lost, cut_off_and_back, strangers,
          hub_changes, abort, dump)


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
        job = SpreadJob(made, build.example(name), 8, options, {"NCCLWATCH_TIMEOUT": f"{TIMEOUT_S:g}"})
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
    tests |= {test.__name__: test for test in OTHERS}
    return tests


def quick(name):
    level, _, what = name.partition(".")
    return level not in SITUATIONS or what in QUICK.get(level, ())


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
