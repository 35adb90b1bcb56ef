#!/usr/bin/env python3
"""The verdict of `ncclwatch attach` on jobs that hang without ncclwatch: MPI programs of tests/mpi on Open MPI and MPICH,
and the examples on softgpu. Prints a table; status 1 if fewer than 90 % are right, or if a `likely` one is wrong.

    tests/attach/table.py --build build/release [--ranks 4] [--only openmpi|mpich|examples] [NAME...]

Right: the culprits are those of tests/mpi/cases.py, or the example's rank 2. Five attempts of each, as a rank may be on
its way when the first roll is called, and is not missed before the job is ten seconds old."""

import argparse
import dataclasses
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("mpi", "scenarios", "support")]

from cases import CASES, HANGS, culprits  # noqa: E402
from job import LAUNCH, Build, Failure, Job, processes_marked  # noqa: E402
from mpi_job import MpiJob, installed  # noqa: E402

FAMILIES = ("collectives", "messages", "requests", "endings")
# Ends by itself (exception, killed and uneven_last_batch under torchrun) or goes on with wrong numbers.
EXAMPLES = {"stuck_data_loader": [2], "skipped_collective": [2], "rank0_logging": [0], "frozen": [2], "stuck_stream": [2],
            "missing_at_start": [2], "wrong_world_size": [2], "uneven_last_batch": [2], "killed": [2]}
HEALTHY = ("healthy_training", "straggler")
RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK", "examples": "RANK"}


@dataclasses.dataclass
class Row:
    name: str
    on: str
    said: str
    right: bool
    likely: bool


def a_rank(job, variable):
    for pid in sorted(processes_marked(job.root)):
        try:
            with open(f"/proc/{pid}/environ") as file:
                if any(word.startswith(variable + "=") for word in file.read().split("\0")):
                    return pid
        except OSError:
            continue
    return None


def verdict(job, variable, wanted):
    document = None
    for _ in range(5):
        pid = job.wait_until(lambda: a_rank(job, variable), 60, "a rank was to run")
        done = subprocess.run([job.build.command, "attach", "--json", str(pid)], capture_output=True, text=True, timeout=90)
        document = json.loads(done.stdout) if done.stdout else {"findings": [], "roll_call": done.stderr}
        if not wanted or document["findings"]:
            break
    return document


def row_of(name, where, document, who):
    """who: None where nothing is wrong."""
    first = document["findings"][0] if document["findings"] else None
    if not first:
        moving = sum(len(row["ranks"]) for row in document["roll_call"] if row["moving"])
        return Row(name, where, f"nothing found, {moving} ranks move", not who, False)
    said = f"{first['certainty']} {first['kind']} of {first['culprits']}"
    return Row(name, where, said, bool(who) and who.hold(first["culprits"]), first["certainty"] == "likely")


def mpi_row(build, mpi, case, ranks):
    with MpiJob(build, mpi, case, ranks, watched=False) as job:
        job.until_fault()
        return row_of(case.name, mpi, verdict(job, RANK[mpi], True), case.who(ranks))


def example_row(build, name, ranks):
    program = [os.path.join(build.folder, "examples", "demo_job"), name]
    steps = ["--steps", "1000000"] if name == "healthy_training" else ["--step", "20000" if name in HEALTHY else "20"]
    words = [] if name in ("missing_at_start", "wrong_world_size") else steps
    with Job(build, [sys.executable, LAUNCH, "-n", str(ranks), "--", *program, *words], mode="bare", directory=False) as job:
        if name in EXAMPLES:
            job.wait_until(lambda: job.fault_ns() or os.path.exists(job.culprit_file), 60, "the fault was to be planted")
        who = culprits(EXAMPLES[name]) if name in EXAMPLES else None
        return row_of(name, "examples", verdict(job, RANK["examples"], who), who)


def rows(build, options):
    wanted = lambda name: not options.names or name in options.names  # noqa: E731
    for mpi in ("openmpi", "mpich"):
        if options.only in (None, mpi) and installed(mpi):
            for case in CASES.values():
                if case.name.split(".")[0] in FAMILIES and case.endings(mpi) == (HANGS,) and mpi in case.mpis and wanted(case.name):
                    yield lambda mpi=mpi, case=case: mpi_row(build, mpi, case, options.ranks)
    if options.only in (None, "examples"):
        for name in (*EXAMPLES, *HEALTHY):
            if wanted(name):
                yield lambda name=name: example_row(build, name, options.ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--only", choices=("openmpi", "mpich", "examples"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    build, done = Build(options.build), []
    for one in rows(build, options):
        try:
            row = one()
        except Failure as failure:
            print(f"not judged: {failure}", flush=True)
            continue
        done.append(row)
        print(f"{'right' if row.right else 'WRONG':<6} {row.on:<9} {row.name:<38} {row.said}", flush=True)
    right, false = sum(row.right for row in done), sum(row.likely and not row.right for row in done)
    print(f"{right} of {len(done)} right; {false} wrong ones called likely")
    return 0 if done and right >= 0.9 * len(done) and not false else 1


if __name__ == "__main__":
    sys.exit(main())
