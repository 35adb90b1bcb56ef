#!/usr/bin/env python3
"""Dumps that the real torch wrote, and torch's own analyzer on what ours wrote, and beside it on the same faults."""

import json
import os
import pickle
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from common import Skipped, bench_case, check, check_equal, run_main  # noqa: E402
from flight import Job  # noqa: E402

VENV = os.path.join(HERE, "..", "..", "..", "build", "venv", "bin")
TIMEOUT = 100


def run_python(bench, script, *words):
    """What it prints."""
    python = os.path.join(VENV, "python")
    if not os.path.exists(os.path.join(VENV, "torchfrtrace")):
        raise Skipped("no torch in build/venv")
    done = subprocess.run([python, os.path.join(HERE, script), *words], env=bench.environment(TORCH_FR_BUFFER_SIZE="100"),
                          capture_output=True, text=True, timeout=TIMEOUT)
    check_equal(done.returncode, 0, f"{script} {words}: {done.stdout}{done.stderr}: status")
    return done.stdout


def torch_dumps(bench, *cases):
    """A folder for each, in which pickle/ and json/ hold what the recorders of three ranks wrote."""
    place = bench.sandbox.fresh("dumps")
    run_python(bench, "gloo_jobs.py", "3", place, *cases)
    return [os.path.join(place, case) for case in cases]


def torchfrtrace(bench, *directories):
    """(exit status, output) for each."""
    return json.loads(run_python(bench, "frtrace.py", *directories))


def verdict(bench, directory, older_by=0):
    """Kinds, certainties and culprits of diagnose, for files that are so many seconds younger."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        at = os.stat(path).st_mtime + older_by
        os.utime(path, (at, at))
    diagnosis, _ = bench.diagnose(directory)
    return [(finding["kind"], finding["certainty"], finding["culprits"]) for finding in diagnosis["findings"]]


@bench_case
def real_dumps_of_a_healthy_job(bench):
    folder, = torch_dumps(bench, "healthy")
    for form in ("pickle", "json", "active", "active_json"):
        check_equal(verdict(bench, f"{folder}/{form}", 90), [], f"findings, {form}")
    # Every entry that Python sees is a call that ncclwatch sees.
    listed = bench.calls(f"{folder}/pickle")
    for rank in range(3):
        with open(f"{folder}/pickle/nccl_trace_rank_{rank}", "rb") as file:
            dump = pickle.load(file)
        check_equal(dump["version"], "2.10", "version that torch writes")
        own = [call for call in listed if call["rank"] == rank]
        check_equal(len(own), len(dump["entries"]), f"calls of rank {rank}")
    check_equal(len(listed), len(bench.calls(f"{folder}/json")), "calls in JSON")
    check({"AllReduce", "Broadcast", "AllGather", "Reduce", "AlltoAll", "Gather", "Scatter"} <=
          {call["op"] for call in listed}, f"operations: {listed}")


@bench_case
def real_dumps_of_faults(bench):
    expected = {"missing": [("missing_participant", "likely", [1])], "order": [("order_mismatch", "certain", [0])]}
    folders = torch_dumps(bench, *expected)
    for folder, findings in zip(folders, expected.values()):
        for form in ("pickle", "json", "active", "active_json"):
            check_equal(verdict(bench, f"{folder}/{form}", 90), findings, f"{folder}/{form}")
    page_of_the_debug_server(bench, folders[1])


def page_of_the_debug_server(bench, folder):
    """All ranks in one page, as torch's own templates make it; the server had no answer of one rank."""
    dumps = [f"{folder}/json/nccl_trace_rank_{rank}.json" for rank in range(3)]
    into = bench.sandbox.fresh("page")
    with open(f"{into}/fr_trace.html", "w", encoding="utf-8") as page:
        page.write(run_python(bench, "debug_page.py", *dumps))
    for where in (into, f"{into}/fr_trace.html"):
        diagnosis, done = bench.diagnose(where, statuses=(3,))
        check_equal([(one["kind"], one["culprits"]) for one in diagnosis["findings"]], [("order_mismatch", [0])], where)
        check("rank 3: " in done.err, f"the rank without an answer is named: {done.err}")


@bench_case
def torchfrtrace_takes_what_export_writes(bench):
    directory = bench.place("exported")
    for rank in range(4):
        bench.write(directory, rank, 4, "calls=6", *(["skip=1"] if rank == 2 else ["pending=1"]))
    healthy = bench.dead_job(bench.place("healthy"), 4, "calls=6")
    into = []
    for job in (directory, healthy):
        into.append(os.path.join(bench.sandbox.fresh("into"), "dumps"))
        check_equal(bench.command("export", job, "--to", "torch-fr", "-o", into[-1]).status, 0, "export: status")
    (status, said), (healthy_status, of_healthy) = torchfrtrace(bench, *into)
    check_equal(status, 0, f"torchfrtrace: {said}: status")
    check("Not all ranks joining collective, sequence number: 6" in said and "missing ranks: {2}" in said, said)
    check_equal((healthy_status, "ranks joining" in of_healthy or "errors" in of_healthy), (0, False), f"healthy: {of_healthy}")
    with open(os.path.join(into[1], "nccl_trace_rank_0"), "rb") as file:
        ours = pickle.load(file)
    folder, = torch_dumps(bench, "missing")
    with open(f"{folder}/pickle/nccl_trace_rank_0", "rb") as file:
        theirs = pickle.load(file)
    check_equal(set(ours), set(theirs), "keys of a dump")
    check_equal(set(ours["entries"][0]), set(theirs["entries"][0]), "keys of an entry")
    check_equal({key: type(value) for key, value in ours["entries"][0].items()},
                {key: type(value) for key, value in theirs["entries"][0].items()}, "types of an entry")


def training():
    job = Job(4)
    for step in range(5):
        job.all(range(4), "all_reduce", at=step)
    return job


@bench_case
def both_analyzers_on_one_fault_each(bench):
    """Where torchfrtrace is right both are; where it is wrong (its first rank innocent, no dump no verdict, messages in
    both directions) only one is. A torch that does better makes this fail, and the documentation must follow."""
    job = training()
    job.all([0, 1, 3], "all_reduce", at=5, state="started")
    missing = job.write(bench.sandbox.fresh("missing"))
    check_equal(verdict(bench, missing), [("missing_participant", "likely", [2])], "missing call")

    job = training()
    job.all([0, 1, 3], "all_reduce", (16,), at=5, state="started")
    job.all([2], "all_reduce", (8,), at=5, state="started")
    size = job.write(bench.sandbox.fresh("size"))
    check_equal(verdict(bench, size), [("argument_mismatch", "certain", [2])], "another size")

    first = training().write(bench.sandbox.fresh("first"))
    guilty = int(next(os.walk(first))[2][0].rpartition("_")[2])  # the first that it reads
    others = [rank for rank in range(4) if rank != guilty]
    job = training()
    job.all([guilty], "broadcast", at=5, state="started")
    job.all(others, "all_reduce", at=5, state="started")
    job.write(first)
    check_equal(verdict(bench, first), [("order_mismatch", "certain", [guilty])], "guilty first rank")

    job = training()
    job.all(range(3), "all_reduce", at=5, state="started")
    absent = job.write(bench.sandbox.fresh("absent"), ranks=[0, 1, 2])
    check_equal(verdict(bench, absent), [("missing_participant", "suspected", [3])], "missing dump")

    job = training()
    for micro in range(3):
        for rank in range(4):
            for peer in (rank + 1, rank - 1):
                if 0 <= peer < 4:
                    job.ranks[rank].send(peer, 6 + micro)
                    job.ranks[rank].recv(peer, 6 + micro)
    both = job.write(bench.sandbox.fresh("both"))
    check_equal(verdict(bench, both), [], "a healthy pipeline in both directions")

    theirs = torchfrtrace(bench, missing, size, first, absent, both)
    (_, of_missing), (_, of_size), (_, of_first), (status, of_absent), (_, of_both) = theirs
    check("missing ranks: {2}" in of_missing, of_missing)
    check("Culprit rank 2;" in of_size, of_size)
    check(all(f"Culprit rank {rank};" in of_first for rank in others) and f"Culprit rank {guilty};" not in of_first, of_first)
    check(status != 0 and "Missing dump files from ranks {3}" in of_absent, of_absent)
    check("Not all ranks joining collective" in of_both or "has errors" in of_both, of_both)


if __name__ == "__main__":
    run_main("torch_dumps")
