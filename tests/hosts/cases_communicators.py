"""Numbers and kinds of communicators; growth over many of them."""

import os
import re
import sys

from common import both, check_recorded, counts, program
from harness import Skipped, case, check, check_equal


@case
def thousand_communicators(sandbox):
    job = both(sandbox, [program(sandbox, "many"), "alive", "1000"], 0, timeout=120)
    check_recorded(job, [8] * 1000)
    calls = [c for c in job.calls() if c["op"] == "AllReduce"]
    check_equal(len({c["communicator"] for c in calls}), 1000, "different identities")


@case
def more_communicators_than_room(sandbox):
    """The table holds 1,024 at once. What finds no room works on, unwatched."""
    job = both(sandbox, [program(sandbox, "many"), "alive", "1200"], 0, timeout=120, quiet=False)
    watched = {c["communicator"] for c in job.calls() if c["op"] == "AllReduce" and c["communicator"]}
    check_equal(len(watched), 1024, "communicators watched")


@case
def many_splits(sandbox):
    job = both(sandbox, [program(sandbox, "many"), "splits", "100"], 0, ranks=2, timeout=90)
    check_recorded(job, [9] * 100 + [10])
    by_rank = {}
    for call in job.calls():
        if call["op"] == "AllReduce":
            by_rank.setdefault(call["rank"], []).append(call["communicator"])
    check_equal(by_rank[0], by_rank[1], "identities of communicators on both ranks")
    check_equal(len(set(by_rank[0])), 101, "different identities")


@case
def threads_as_ranks(sandbox):
    job = both(sandbox, [program(sandbox, "many"), "threads", "4"], 0)
    calls = [c for c in job.calls() if c["op"] == "AllReduce"]
    check_equal(len(calls), 80, "calls recorded")
    check_equal(len({c["communicator"] for c in calls}), 1, "identities")
    by_thread = {}
    for call in calls:
        by_thread.setdefault(call["thread"], []).append((call["count"], call["position"]))
    check_equal(sorted(by_thread.values()), [[(100 + i, i) for i in range(20)]] * 4, "counts and positions of each thread")


@case
def init_all(sandbox):
    job = both(sandbox, [program(sandbox, "many"), "init_all", "4"], 0,
               extra={"SOFTGPU_DEVICES": "4"})
    calls = [c for c in job.calls() if c["op"] == "AllReduce"]
    check_equal(len(calls), 20, "calls recorded")
    check_equal([c["position"] for c in calls], [i // 4 for i in range(20)], "positions")
    check(all(c["group"] is not None for c in calls), "all were made inside a group")


@case
def names_given_by_the_program(sandbox):
    job = both(sandbox, [program(sandbox, "labels")], 0)
    labels = {c["count"]: c["label"] for c in job.calls() if c["op"] == "AllReduce"}
    check_equal(labels, {1: "data parallel", 2: "x" * 47, 3: ""}, "labels")


@case
def names_given_by_python(sandbox):
    """An NCCL communicator by its handle; nothing happens where the library is not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    job = both(sandbox, [sys.executable, os.path.join(here, "annotations", "labels.py"), sandbox.build.nccl], 0,
               extra={"PYTHONPATH": os.path.join(here, "..", "..", "python")})
    labels = {c["label"] for c in job.calls() if c["op"] == "CommInitRank"}
    check_equal(labels, {"expert parallel"}, "labels")


@case
def non_blocking(sandbox):
    job = both(sandbox, [program(sandbox, "many"), "non_blocking", "0"], 0, ranks=2)
    calls = [c for c in job.calls() if c["op"] == "AllReduce"]
    check_equal(len(calls), 20, "calls recorded")
    check_equal(len({c["communicator"] for c in calls}), 1, "identities")


@case
def start_marks_change_nothing(sandbox):
    """NCCLWATCH_GPU=both over splits, threads, groups over devices, non-blocking ones; and where the driver refuses."""
    for refuses in ("0", "1"):
        for mode, count, ranks in (("splits", "20", 2), ("threads", "4", 1), ("init_all", "4", 1), ("non_blocking", "0", 2)):
            job = both(sandbox, [program(sandbox, "many"), mode, count], 0, ranks=ranks,
                       extra={"NCCLWATCH_GPU": "both", "SOFTGPU_NO_MEMOPS": refuses, "SOFTGPU_DEVICES": "4"})
            states = {c["state"] for c in job.calls() if c["op"] == "AllReduce"}
            marked = refuses == "0" and mode != "non_blocking"
            check_equal(states, {"finished" if marked else "returned"}, f"states of the calls ({mode})")


@case
def ten_thousand_communicators_leak_nothing(sandbox):
    """Resident memory over the second 5,000 of 10,000 communicators, beside the same without the library."""
    if sandbox.build.sanitizer:
        raise Skipped("a sanitizer keeps what was freed")
    argv = [program(sandbox, "many"), "churn", "10000"]
    growth = []
    for preload in (False, True):
        job = sandbox.job(argv, preload=preload, timeout=250)
        check_equal(job.statuses(), [0], f"exit status ({job.done})")
        growth.append([int(n) for n in re.findall(r"growth (-?\d+) KiB (-?\d+) files", job.outputs()[0])[0]])
    (plain, plain_files), (watched, files) = growth
    print(f"growth over 5,000 communicators: {plain} KiB without, {watched} KiB with the library")
    check(watched - plain < 1024, f"resident memory grows by {watched - plain} KiB")
    check_equal(files, plain_files, "descriptors left open")
    check_equal(sum(len(c) for c in counts(job).values()) > 1000, True, "the last calls are recorded")
