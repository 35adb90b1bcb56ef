"""Jobs over several nodes in situations of their own: what is said, and what is not."""

import json
import os
import signal
import subprocess
import sys
import time

import cluster
from agreement import all_seen, check_offline, check_said_once, check_same, verdicts, watched
from cluster import RUN, SOURCE, Cluster, Failure, SpreadJob, TorchJob, sanitizer
from spread import CERTAIN_S, keep, options_for, report

import faults  # of ../scenarios

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


def log_of_a_machine(build):
    """Machines answer right after the verdict, while its stacks are read: all nodes tell the same, with both."""
    want = faults.expected("frozen")
    with Cluster(build, 3) as made:
        root, command = os.path.join(made.root, "machine"), os.path.join(made.root, "ncclwatch")
        os.makedirs(os.path.join(root, "dev"))
        with open(os.path.join(root, "dev", "kmsg"), "w") as file:
            now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            file.write(f"3,17,{now_us},-;mce: [Hardware Error]: Machine check events logged\n")
        with open(command, "w") as file:
            file.write(f'#!/bin/sh\nif [ "$1" = doctor ]; then\n'
                       f'until [ -e {RUN}/diagnosis.json ]; do sleep 0.01; done\nset -- "$@" --root {root}\nfi\n'
                       f'exec {build.command} "$@"\n')
        os.chmod(command, 0o700)
        job = SpreadJob(made, build.example("frozen"), 6, options_for("frozen", 4, 6, 1),
                        {"NCCLWATCH_TIMEOUT": "3", "NCCLWATCH_COMMAND": command})

        def told():
            found = verdicts(job, want, range(3))
            lines = [document["findings"][0]["evidence"] for document in found[0].values()] if found else [[]]
            whole = all(any(line.startswith(start) for line in lines[0])
                        for start in ("the machine: node2, ", "rank 4 stands in "))
            return whole and all(line == lines[0] for line in lines)
        try:
            made.wait_until(told, 40, "all nodes were to quote the culprit's machine and stack")
        except Failure as failure:
            keep(build, job, "log_of_a_machine", failure)
            raise


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
        if "not been heard from" not in first["summary"]:
            raise Failure(first["summary"])
        hook = subprocess.run([os.path.join(cluster.HERE, "..", "..", "docs", "deploy", "hooks", "nodes_to_drain.py")],
                              input=json.dumps(found), capture_output=True, text=True, check=True)
        if hook.stdout != "node2 ncclwatch:dead_rank\n":
            raise Failure(f"the node that is lost is to be drained: {hook.stdout}")


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
        if grown > 32 << 10 and not sanitizer.RUNTIME:  # it keeps what is freed
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


OWN_HOME = "/dev/shm"  # of each node


def secrets_of(job):
    folder = os.path.join(job.cluster.root, "home", ".ncclwatch")
    return os.listdir(folder) if os.path.isdir(folder) else []


def abort(build):
    """NCCLWATCH_ON_FAULT=abort: evidence on every node first, the culprit's stack in everybody's verdict, then all end."""
    secrets = aborted(build, {})
    if len(secrets) != 1:
        raise Failure(f"secrets in the common home: {secrets}")


def abort_by_id(build):
    """No home is common: what the job hands round in its ncclUniqueId proves the nodes to one another."""
    aborted(build, {"HOME": OWN_HOME})


def guessable(build):
    """Nothing but the job's own token is common: who is wrong is said on both nodes, that of the culprit, whose boxes show
    it, ends, and the other does not end for what it was told."""
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("stuck_data_loader"), 4, options_for("stuck_data_loader", 3, 4, 1),
                        {"NCCLWATCH_TIMEOUT": "3", "NCCLWATCH_ON_FAULT": "abort", "HOME": OWN_HOME,
                         "NCCL_COMM_ID": made.nodes[0].address + ":5555"})
        try:
            made.wait_until(lambda: job.printed("a stranger could guess") == 2, 60, "a line on each node")
            made.wait_until(lambda: len(job.ended()) == 2, 60, "the culprit's node was to be ended")
            if set(job.ended()) != {2, 3}:
                raise Failure(f"ended {job.ended()}")
            found = made.wait_until(lambda: job.diagnosis(0), 10, "a diagnosis on the other node")[1]["findings"][0]
            if (found["kind"], found["certainty"], found["culprits"]) != ("missing_participant", "likely", [3]):
                raise Failure(json.dumps(found, indent=1))
            made.wait_until(lambda: job.printed("may be a stranger, so ncclwatch does not act upon it: missing_participant"),
                            10, "the hub's word was to be shown")
            time.sleep(3)  # longer than evidence and stacks are waited for before a job is ended
            if set(job.ended()) != {2, 3} or {"stacks", "evidence"} & set(os.listdir(made.nodes[0].path(RUN))):
                raise Failure(f"the other node did something: ended {job.ended()}")
        except Failure as failure:
            keep(build, job, "guessable", failure)
            raise


def torchrun(build):
    """torchrun on two nodes: the verdict names the rank, its node and the Python line on which it stands."""
    script = os.path.join(SOURCE, "tests", "scenarios", "programs", "stuck_loader.py")
    with Cluster(build, 2) as made:
        job = TorchJob(made, script, 4, ("--rank", 3, "--step", 5), {"NCCLWATCH_TIMEOUT": "4"})
        want = {"kind": "missing_participant", "certainty": "likely"}
        try:
            made.wait_until(lambda: verdicts(job, want, range(2)), 120, "a diagnosis was to be on both nodes")
            documents = made.wait_until(lambda: with_where(job), 20, "the Python line was to be in it")
            check_same({f"node{number}": document for number, document in enumerate(documents)}, want, 3)
            details, = documents[0]["findings"][0]["culprit_details"]
            if details["node"] != "node1" or not details["where"][0].startswith("next_batch (stuck_loader.py:"):
                raise Failure(f"the culprit: {details}")
            if documents[0]["coverage"]["watched"] != 4:
                raise Failure(f"coverage: {documents[0]['coverage']}")
        except Failure as failure:
            keep(build, job, "torchrun", failure)
            raise


def with_where(job):
    documents = [(job.diagnosis(number) or (0, None))[1] for number in range(2)]
    return documents if all(one and one["findings"][0]["culprit_details"][0]["where"] for one in documents) else None


def aborted(build, environment):
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("stuck_data_loader"), 4, options_for("stuck_data_loader", 3, 4, 1),
                        {"NCCLWATCH_TIMEOUT": "3", "NCCLWATCH_ON_FAULT": "abort", **environment})
        try:
            made.wait_until(lambda: len(job.ended()) == 4, 60, "the job was to be ended")
            statuses = {rank: os.waitstatus_to_exitcode(status) for rank, status in job.ended().items()}
            if statuses != {0: 1, 1: 1, 2: 1, 3: 86}:
                raise Failure(f"statuses {statuses}: those that waited end by NCCL's error, the other by 86")
            documents = {made.nodes[node].host: (job.diagnosis(node) or (0, None))[1] for node in range(2)}
            if None in documents.values():
                raise Failure(f"a node has no diagnosis: {documents}")
            check_same(documents, faults.expected("stuck_data_loader"), 3)
            details, = documents["node0"]["findings"][0]["culprit_details"]
            if details["node"] != "node1" or not (details["gpu_uuid"] or "").startswith("GPU-"):
                raise Failure(f"what to drain: {details}")
            where = details["where"]
            if not any(line.startswith("main (stuck_data_loader") for line in where):
                raise Failure(f"where: {where}")
            for node in range(2):
                if len(stacks_of(job, node)) != 2:
                    raise Failure(f"stacks of node{node}: {stacks_of(job, node)}")
            check_said_once(job, documents["node0"]["findings"][0], "abort")
            check_offline(job, documents["node0"], made.nodes)
            return secrets_of(job)
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


def events(job, node):
    """(when it was written, its events.jsonl) of a node; None: it has none."""
    path = job.cluster.nodes[node].path(RUN + "/events.jsonl")
    try:
        with open(path) as file:
            return os.stat(path).st_mtime_ns, [json.loads(line) for line in file]
    except FileNotFoundError:
        return None


def slow(build, name, nodes, ranks, culprits, hosts, within_s):
    """Ranks that take longer from one step on: said once, by the hub's leader, and written down on every node."""
    with Cluster(build, nodes) as made:
        job = SpreadJob(made, build.example("straggler"), ranks,
                        ["--rank", culprits[0], "--slow-ranks", len(culprits), "--step", 100, "--steps", 1_000_000])
        try:
            fault_ns = made.wait_until(job.fault_ns, 60, "the first slow step")
            made.wait_until(lambda: all(events(job, node) for node in range(nodes)), within_s,
                            "an event was to be on every node")
            latency = (events(job, 0)[0] - fault_ns) / 1e9
            for node in range(nodes):
                event, = events(job, node)[1]
                details = event["details"]
                if (event["event_type"], details["culprits"], details["shared_by"]["hosts"]) != ("straggler", culprits, hosts):
                    raise Failure(f"event of node{node}: {json.dumps(event, indent=1)}")
                if {one["host"] for one in details["culprit_details"]} != {job.node_of(rank).host for rank in culprits}:
                    raise Failure(f"hosts: {details['culprit_details']}")
            said = [line for line in job.said() if "straggler (" in line]
            if len(said) != 1 or said[0] not in job.output(0).splitlines():
                raise Failure(f"one line, by the leader of node0, was wanted: {said}")
            report({"case": name, "nodes": nodes, "ranks": ranks, "latency_s": round(latency, 1)})
        except Failure as failure:
            keep(build, job, name, failure)
            raise


def slow_node(build):
    """All ranks of a node that is not the hub's: its host is named, while the job runs."""
    slow(build, "slow_node", 3, 6, [4, 5], ["node2"], within_s=60)


def slow_rank(build):
    """One rank of a node that is not the hub's."""
    slow(build, "slow_rank", 2, 4, [3], [], within_s=60)


def slow_rank_of_the_hub(build):
    slow(build, "slow_rank_of_the_hub", 3, 6, [1], [], within_s=60)


def slow_communication(build):
    """NCCL's kernels take 10 ms longer from a call on, on all nodes: nobody is late, and no rank is named."""
    with Cluster(build, 2) as made:
        job = SpreadJob(made, build.example("straggler"), 4, ["--step", 1_000_000, "--steps", 1_000_000],
                        {"NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN", "NCCLWATCH_PROFILER": "1/4",
                         "SOFTGPU_NCCL_SLOW": "300:10000"})
        try:
            made.wait_until(lambda: all(events(job, node) for node in range(2)), 60, "an event was to be on every node")
            for node in range(2):
                event, = events(job, node)[1]
                if (event["event_type"], event["details"]["culprits"]) != ("slow_communication", []):
                    raise Failure(f"event of node{node}: {json.dumps(event, indent=1)}")
        except Failure as failure:
            keep(build, job, "slow_communication", failure)
            raise


def no_slow_rank(build):
    """The same job without: 60 s long nothing is said."""
    with Cluster(build, 3) as made:
        job = SpreadJob(made, build.example("straggler"), 6, ["--step", 1_000_000, "--steps", 1_000_000])
        made.wait_until(lambda: watched(job), 60, "all ranks were to be watched")
        time.sleep(60)
        said = [line for line in job.said() if "watching 6/6 ranks" not in line]
        if said or any(events(job, node) for node in range(3)):
            keep(build, job, "no_slow_rank", said)
            raise Failure(f"said of a healthy job: {said}")


LONG = (slow_node, slow_rank_of_the_hub, slow_communication, no_slow_rank)  # a minute each: not with every run of all tests
CASES = (slow_rank, healthy, switched_off, unreachable, met_by_id, no_meeting_place, log_of_a_machine, node_lost, cut_off_and_back, strangers,
         hub_changes, abort, abort_by_id, guessable, dump, torchrun)
