"""`ncclwatch diagnose` on what NCCL Inspector recorded."""

import json
import os

import inspector
from common import bench_case, check, check_equal


def diagnose(bench, folder, status, **environment):
    done = bench.command("diagnose", "--json", folder, **environment)
    check_equal(done.status, status, f"diagnose {folder}: {done}: status")
    return (json.loads(done.out) if done.out else None), done


def flat_job(steps=60, late_rank=None, ranks=16):
    job = inspector.Model(ranks // 4, 4, {"world": list(range(ranks))})
    for step in range(steps):
        for rank in range(ranks):
            job.compute(rank, 0.5 * (1.25 if rank == late_rank and step >= 20 else 1))
        job.collective("world", "AllReduce", 1 << 26, 0.05)
        job.collective("world", "AllGather", 1 << 24, 0.02)
    return job


def pipeline(steps=60, slow_pair=None, ranks=8):
    """Each rank sends to the next one, on a ring; all reduce at the end of a step."""
    job = inspector.Model(ranks, 1, {"world": list(range(ranks))})
    for step in range(steps):
        for rank in range(ranks):
            job.compute(rank, 0.4)
        for rank in range(0, ranks, 2):
            job.message("world", rank, rank + 1, 1 << 25, 0.05 * (3 if (rank, rank + 1) == slow_pair and step >= 25 else 1))
        job.collective("world", "AllReduce", 1 << 26, 0.05)
    return job


@bench_case
def inspector_slow_switch(bench):
    """256 ranks on 32 hosts: 42 to 17 GB/s behind one switch."""
    folder = inspector.train_on_leaves(60, slow_leaf=1).write(bench.sandbox.fresh("slow"))
    topology = inspector.topology(os.path.join(bench.sandbox.path, "topology.conf"))
    hosts = [f"node{number:02}" for number in range(8, 16)]
    for known in (True, False):
        said, _ = diagnose(bench, folder, 1, **({"NCCLWATCH_TOPOLOGY": topology} if known else {}))
        check_equal([one["kind"] for one in said["findings"]], ["slow_communication"], "findings")
        finding = said["findings"][0]
        check_equal((finding["culprits"], finding["shared_by"]["hosts"], finding["shared_by"]["switch"]),
                    (list(range(64, 128)), hosts, "leaf1" if known else None), "who")
        check(abs(finding["onset"]["step"] - 30) <= 3, f"since step 30: {finding['onset']}")
        check(0.28 < finding["share_lost"] < 0.45, f"0.41 s of 1.09 s: {finding['share_lost']}")
        check(abs(finding["effect"]["change"] - (17 / 42 - 1)) < 0.05, f"42 to 17: {finding['effect']}")
        check(finding["certainty"] != "certain", "slowness is never certain")
        check("node08 and node09" in " ".join(finding["evidence"]), f"one pair could be it: {finding['evidence']}")
        check(all(host in finding["next_steps"][0] for host in hosts), f"which to measure: {finding['next_steps']}")
    check_equal((said["coverage"]["watched"], len(said["job"]["hosts"])), (256, 32), "who was seen")


@bench_case
def inspector_healthy(bench):
    job = flat_job()
    for name, how in {"periodic": {}, "end": {"every_s": None, "compress": True}, "verbose": {"verbose": True},
                      "readme": {"version": "readme"}, "named": {"version": "2.30"}}.items():
        said, done = diagnose(bench, job.write(bench.sandbox.fresh(name), **how), 0)
        check_equal((said["healthy"], said["findings"], said["coverage"]["watched"], done.err), (True, [], 16, ""), name)
        notes = " ".join(said["notes"])
        check("1920 operations of 16 ranks on 4 hosts" in notes and "under 8 KiB" in notes, f"{name}: {notes}")
        check(("when calls were made was not recorded" in notes) == (name == "end"), f"{name}: {notes}")


@bench_case
def inspector_straggler(bench):
    job = flat_job(late_rank=5)
    for name, how in {"periodic": {}, "end": {"every_s": None}, "verbose": {"verbose": True}}.items():
        said, _ = diagnose(bench, job.write(bench.sandbox.fresh(name), **how), 1)
        check_equal([(one["kind"], one["culprits"], one["certainty"]) for one in said["findings"]],
                    [("straggler", [5], "suspected")], name)
        check(abs(said["findings"][0]["onset"]["step"] - 20) <= 3, f"{name}: since step 20: {said['findings'][0]['onset']}")
        check_equal(said["findings"][0]["culprit_details"][0]["host"], "node01", name)


@bench_case
def inspector_slow_pair(bench):
    said, _ = diagnose(bench, pipeline().write(bench.sandbox.fresh("healthy")), 0)
    check_equal(said["findings"], [], "no pair is slow")
    said, _ = diagnose(bench, pipeline(slow_pair=(2, 3)).write(bench.sandbox.fresh("slow")), 1)
    check_equal([(one["kind"], one["shared_by"]["pair"]) for one in said["findings"]], [("slow_communication", [2, 3])], "pair")


def part_is_right(said, fault, ranks, hosts):
    kind = {"healthy": [], "straggler": ["straggler"]}.get(fault, ["slow_communication"])
    findings = said["findings"]
    if not findings or not kind:
        return not findings and not kind
    first = findings[0]
    return [first["kind"]] == kind and first["culprits"] == ranks and first["shared_by"]["hosts"] == hosts


@bench_case
def inspector_slow_parts(bench):
    """Which part of the machine is slow, with and without a list of switches; `./dev slow-parts` runs fifty of each."""
    size = {"hosts": 8, "gpus": 2, "leaf": 4}
    topology = inspector.topology(os.path.join(bench.sandbox.path, "topology.conf"), 8, 4)
    for number, fault in enumerate(inspector.PARTS):
        job, ranks, hosts = inspector.train_on_parts(fault, number, **size)
        folder = job.write(bench.sandbox.fresh(fault))
        for known in ({}, {"NCCLWATCH_TOPOLOGY": topology}):
            said, _ = diagnose(bench, folder, 0 if fault == "healthy" else 1, **known)
            check(part_is_right(said, fault, ranks, hosts), f"{fault}: wanted {ranks} {hosts}, got {said['findings']}")


@bench_case
def inspector_damage(bench):
    """What can be read is judged; the rest is named with file and line."""
    folder = flat_job(late_rank=5).write(bench.sandbox.fresh("damaged"))
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    for path, change in zip(files, (
            lambda text: text[:-40],                                             # cut off in the last line
            lambda text: text.replace("\n", "\n{broken\nnull\n", 1),             # no JSON, and no object
            lambda text: text.replace('"header":{', '"more":[{"a":1}],"header":{"also":null,'),  # unknown keys
            lambda text: text + text.splitlines()[0].replace("AllReduce", "AllToNowhere") + "\n",
            lambda text: text + '{"header":{"id":"0x1","rank":9,"n_ranks":2},"metadata":{}}\n')):
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(change(text))
    for name, text in {"README.md": "# logs\n", "other.json": '{"a": 1}\n', "empty.log": ""}.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    said, done = diagnose(bench, folder, 1)
    check_equal([(one["kind"], one["culprits"]) for one in said["findings"]], [("straggler", [5])], "findings")
    for path, line in ((files[0], 120), (files[1], 2), (files[4], 121)):
        check(f"{path}:{line}: " in done.err, f"{path}:{line} is named: {done.err}")
    check("cut off" in done.err and "and 1 more lines of it" in done.err, done.err)
    check("1 lines are about operations that this version does not know" in " ".join(said["notes"]), said["notes"])


@bench_case
def inspector_nothing(bench):
    folder = bench.sandbox.fresh("nothing")
    with open(os.path.join(folder, "node00-pid1.log"), "w") as file:
        file.write('{"header":{"id":"0x1","rank":0,"n_ranks":2}')
    said, done = diagnose(bench, folder, 3)
    check(said is None and "node00-pid1.log:1: cut off" in done.err, f"{done}")


@bench_case
def inspector_part_of_a_job(bench):
    """Where files are missing nothing is said of bandwidths; who is late among the others shows all the same."""
    for late_rank, status, culprits in ((None, 0, []), (5, 1, [[5]])):
        folder = flat_job(late_rank=late_rank).write(bench.sandbox.fresh("part"))
        for rank in (3, 7):
            os.remove(os.path.join(folder, f"node{rank // 4:02}-pid{1000 + rank}.log"))
        said, _ = diagnose(bench, folder, status)
        check_equal([one["culprits"] for one in said["findings"]], culprits, "findings")
        check_equal(said["coverage"]["unseen_ranks"], [3, 7], "who is missing")
        check("operations not all ranks were recorded" in " ".join(said["notes"]), said["notes"])


@bench_case
def inspector_missing_files_and_clocks(bench):
    """An adapter, though another rank left no file, and its host's clock is an hour ahead."""
    job, ranks, hosts = inspector.train_on_parts("nic", 2, hosts=8, gpus=2, leaf=4)
    host, gpu = divmod(ranks[0], 2)
    missing = (host + 4) % 8 * 2 + 1 - gpu
    folder = job.write(bench.sandbox.fresh("incomplete"), missing=[missing], ahead_s={host: 3600})
    said, _ = diagnose(bench, folder, 1)
    check(part_is_right(said, "nic", ranks, hosts), f"wanted {ranks} {hosts}, got {said['findings']}")
    # No communicator has all ranks, so nobody knows which rank is missing; that one is, is said.
    check("operations not all ranks were recorded" in " ".join(said["notes"]), said["notes"])


@bench_case
def inspector_straggler_among_experts(bench):
    hosts, gpus, late_rank = 8, 2, 5
    job = inspector.Model(hosts, gpus, inspector.leaves(hosts, gpus, leaf=4))
    job.collective("world", "Broadcast", 1 << 20, 0.001)
    for step in range(60):
        for rank in range(job.ranks):
            job.compute(rank, 0.3 * (1.3 if rank == late_rank and step >= 25 else 1))
        for group in range(2):
            for gpu in range(gpus):
                job.exchange(f"inner{group}.{gpu}", 1 << 21, 0.05)
        for place in range(4):
            for gpu in range(gpus):
                job.collective(f"outer{place}.{gpu}", "AllReduce", 1 << 27, 0.05)
    said, _ = diagnose(bench, job.write(bench.sandbox.fresh("experts")), 1)
    check_equal([(one["kind"], one["culprits"]) for one in said["findings"]], [("straggler", [late_rank])], "findings")
