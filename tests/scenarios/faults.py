"""Jobs with one planted fault each: what is planted, and what ncclwatch must say about it, when and how often."""

import copy
import dataclasses
import json
import os
import random
import re
import time

from job import SOURCE, Failure, Job, launched

TIMEOUT_S = 3.0   # NCCLWATCH_TIMEOUT of these jobs
PROMPT_S = 1.0    # mismatches, deaths and exits need no time-out
GRACE_S = 1.0     # what the others may need beyond it
STAMP_S = 0.004   # file times are as coarse as the kernel's tick: taken as late as they may be
SETTLE_S = 0.5    # after the verdict: whether it changes or is said again

# Example: (needs a time-out, can be planted on the leader). The rest stands in its expected.json.
FAULTS = {
    "skipped_collective": (False, True),
    "uneven_last_batch": (False, True),
    "rank0_logging": (False, True),
    "bucket_sizes": (False, True),
    "wrong_dtype": (False, True),
    "exception": (False, True),
    "killed": (False, True),
    "stuck_data_loader": (True, True),
    "frozen": (True, True),
    "stuck_stream": (True, True),
    "wrong_world_size": (True, False),
    "missing_at_start": (True, False),
}

ENVIRONMENT = {"stuck_stream": {"NCCLWATCH_GPU": "both"}}  # beyond the time-out


@dataclasses.dataclass
class Plan:
    """One run, fixed by its seed."""
    fault: str
    seed: int
    ranks: int
    rank: int          # -1: the leader
    step: int
    step_ms: int
    count: int
    children: int
    cores: list
    mode: str

    def options(self):
        options = ["--rank", self.rank, "--step", self.step, "--steps", 1_000_000, "--step-ms", self.step_ms,
                   "--seed", self.seed, "--count", self.count, "--children", self.children]
        if self.fault == "wrong_world_size":
            options += ["--world-size", self.ranks + 1 + self.seed % 3]
        if self.fault == "exception":
            options += ["--terminate", self.seed % 2]
        return options


def plan(fault, seed, leader=None, children=None, crowded=None, mode=None, rank=None):
    """What is not given is drawn from the seed."""
    draw = random.Random(f"{fault}/{seed}")
    ranks = draw.choice([3, 4, 4, 5, 8])
    cores = sorted(os.sched_getaffinity(0))
    crowded = draw.random() < 0.25 if crowded is None else crowded
    if crowded:  # four ranks a core
        ranks, cores = (8, cores[:2]) if len(cores) > 1 and draw.random() < 0.5 else (4, cores[:1])
    # Rank 0 hands out the unique id: without it nobody gets as far as waiting.
    drawn = draw.randrange(1 if fault == "missing_at_start" else 0, ranks)
    leader = draw.random() < 0.3 if leader is None else leader
    return Plan(
        fault, seed, ranks, -1 if leader and FAULTS[fault][1] else drawn if rank is None else rank,
        step=draw.randrange(20, 60) if leader else draw.randrange(1, 40), step_ms=draw.choice([1, 2, 5, 10, 20]),
        count=draw.choice([2, 64, 4096, 100_000]),
        children=(2 if draw.random() < 0.3 else 0) if children is None else children, cores=cores,
        mode=mode or draw.choice(["preload", "run"]))


def expected(fault):
    with open(os.path.join(SOURCE, "examples", fault, "expected.json")) as file:
        return json.load(file)


def name_the_leader(job):
    """For rank -1: waits until there is a leader that every rank can see, and names its rank to the programs."""
    def leader():
        pid = job.leader_pid()
        return [rank for rank, own in job.ranks().items() if own == pid] if pid else None

    rank, = job.wait_until(leader, 20, "a leader was to take the lease")
    with open(job.culprit_file + ".new", "w") as file:
        file.write(str(rank))
    os.rename(job.culprit_file + ".new", job.culprit_file)
    return rank


def check_finding(document, want, culprit, where):
    findings = document.get("findings", [])
    if document.get("healthy") is not False or not findings:
        raise Failure(f"{where}: no finding, wanted {want['kind']} of rank {culprit}")
    first = findings[0]
    if (first["kind"], first["culprits"], first["certainty"]) != (want["kind"], [culprit], want["certainty"]):
        raise Failure(f"{where}: {first['certainty']} {first['kind']} of {first['culprits']}, wanted "
                      f"{want['certainty']} {want['kind']} of [{culprit}]\n{json.dumps(document, indent=1)}")
    return first


def check_place(first, culprit):
    """What to drain: softgpu's device of a local rank has its number. Without a communicator no device is known, and without
    a black box nothing."""
    details, = first["culprit_details"]
    if first["kind"] == "initialization_hang" and details["node"] is None:
        return
    if details["node"] != details["host"]:
        raise Failure(f"node {details['node']} of host {details['host']}")
    if first["kind"] == "initialization_hang" and details["gpu_uuid"] is None:
        return
    uuid = re.fullmatch(r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{2})[0-9a-f]{2}-[0-9a-f]{12}",
                        details["gpu_uuid"] or "")
    if not uuid or int(uuid[1], 16) != culprit or details["gpu_index"] != culprit or \
            details["pci_bus_id"] != f"0000:{culprit + 1:02X}:00.0":
        raise Failure(f"the GPU of rank {culprit}: {details}")


def run(build, one, keep=None):
    """Runs one plan. Returns {"latency_s": ..., "allowed_s": ..., "leader": ...}; raises Failure. How late a verdict may be
    is for a machine without other work: the soak holds it to that."""
    want = expected(one.fault)
    slow = FAULTS[one.fault][0]
    allowed = TIMEOUT_S + GRACE_S if slow else PROMPT_S
    command = launched(build.example(one.fault), one.ranks, *one.options())
    with Job(build, command, mode=one.mode, cores=one.cores,
             environment={"NCCLWATCH_TIMEOUT": f"{TIMEOUT_S:g}", **ENVIRONMENT.get(one.fault, {})}) as job:
        try:
            culprit = name_the_leader(job) if one.rank == -1 else one.rank
            fault_ns = job.wait_until(job.fault_ns, 60, "the fault was to happen")

            def final():
                document = job.look()
                return document and any(f["certainty"] == want["certainty"] or f["kind"] != want["kind"]
                                        for f in document["findings"][:1]) and document
            # Waits longer than allowed, so that a late verdict is told from none.
            job.wait_until(final, allowed + 10, f"a diagnosis of {one.fault} was to be on disk")
            written_ns = job.seen[-1][0]
            time.sleep(SETTLE_S)
            live = job.look()
            first = check_finding(live, want, culprit, "diagnosis.json")
            check_place(first, culprit)
            latency = (written_ns - fault_ns) / 1e9 + STAMP_S
            job.end()
            check_offline(job, live)
            printed = job.printed(first["summary"])
            if printed != 1:
                raise Failure(f"the diagnosis was printed {printed} times:\n{job.output()[-4000:]}")
            return {"latency_s": latency, "allowed_s": allowed, "leader": one.rank == -1, "children": one.children > 0}
        except Failure as failure:
            if keep:
                keep(job, failure)
            raise


def as_judged(findings):
    """Without what the command alone can know: the lines of call sites (the watchdog reads no debug information), and
    what a machine logged so shortly before the end that no watchdog was left to quote it."""
    findings = copy.deepcopy(findings)
    for finding in findings:
        finding["evidence"] = [line for line in finding["evidence"] if not line.startswith("the machine: ")]
        for call in finding["calls"]:
            if call["site"] and call["site_text"].startswith("0x"):
                call["site"] = None  # its process named it after the verdict
            elif call["site"]:
                call["site"].update(file=None, line=None, function=None)
    return findings


def check_offline(job, live):
    """After everybody is gone the black boxes alone tell the same."""
    status, document = job.offline()
    if status != 1:
        raise Failure(f"diagnose exits with {status}, wanted 1")
    if as_judged(live["findings"]) != as_judged(document["findings"]):
        raise Failure("live and offline findings differ\nlive: " + json.dumps(live["findings"], indent=1) +
                      "\noffline: " + json.dumps(document["findings"], indent=1))
