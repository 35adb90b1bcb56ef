#!/usr/bin/env python3
"""A rank that crashes: what the MPI library itself says of it stays, and the death is told.

Status 77 where that MPI is not installed.
"""

import argparse
import sys

from cases import CASES
from mpi_job import Build, Failure, MpiJob, installed

ENDED_S = 60
RANKS = 3
SKIP = 77
CRASH = CASES["endings.null_pointer"]
# Open MPI's own handler of signals, and UCX's, which MPICH loads.
REPORTS = {"openmpi": ("*** Process received signal ***", "Signal: Segmentation fault"),
           "mpich": ("Caught signal 11 (Segmentation fault",)}


def output(build, mpi, watched):
    with MpiJob(build, mpi, CRASH, RANKS, watched=watched) as job:
        job.wait(ENDED_S)
        return job.output(), job.offline()[1] if watched else None


def check(build, mpi):
    plain, _ = output(build, mpi, False)
    watched, verdict = output(build, mpi, True)
    for line in REPORTS[mpi]:
        if (line in plain) != (line in watched):
            raise Failure(f"{line!r}: without the library\n{plain}\nwith it\n{watched}")
    if mpi == "openmpi" and not all(line in plain for line in REPORTS[mpi]):
        raise Failure(f"Open MPI reports no signal any more: this test proves nothing\n{plain}")
    first = verdict["findings"][0] if verdict["findings"] else None
    if not first or (first["kind"], first["culprits"]) != ("dead_rank", [RANKS // 2]) or "SIGSEGV" not in first["summary"]:
        raise Failure(f"{first}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--mpi", required=True, choices=("openmpi", "mpich"))
    arguments = parser.parse_args()
    if not installed(arguments.mpi):
        return SKIP
    check(Build(arguments.build), arguments.mpi)
    return 0


if __name__ == "__main__":
    sys.exit(main())
