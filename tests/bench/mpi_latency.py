#!/usr/bin/env python3
"""What watching adds to messages between two ranks: runs of mpi_latency in pairs, with the library and without.

Prints the median of the plain runs, the median difference of the pairs, and the upper 95 % bound of it (bootstrap);
then what a bare record of each call, with two stamps, adds to the latency of the plain runs: less cannot be.
Two ranks need two processors for themselves: on a busy machine a pair is as wide as a time slice.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile

RESAMPLES = 10000
LIMIT_S = 300  # of one run
SHARED = "/dev/shm"  # where black boxes lie by default; a mapping of a disk's file costs its file system's bookkeeping
FLOOR = "recorded"  # the latency with a bare record of each call


def command(build, mpi, preload, directory):
    program = os.path.join(build, "bench", f"mpi_latency.{mpi}")
    library = os.path.join(build, "lib", f"libncclwatch-{mpi}.so")
    watch = {"LD_PRELOAD": library, "NCCLWATCH_DIR": os.path.join(directory, "watched"), "NCCLWATCH_LOG": "error"}
    if mpi == "openmpi":
        words = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "--mca", "btl_vader_backing_directory",
                 directory, "-n", "2"]
        option = [word for name, value in watch.items() for word in ("-x", f"{name}={value}")]
    else:
        words = ["mpirun.mpich", "-n", "2"]
        option = [word for name, value in watch.items() for word in ("-genv", name, value)]
    return words + (option if preload else []) + [program]


def run(build, mpi, preload):
    """Nanoseconds by the name of the figure."""
    with tempfile.TemporaryDirectory(dir=SHARED if os.path.isdir(SHARED) else None) as directory:
        done = subprocess.run(command(build, mpi, preload, directory), capture_output=True, text=True,
                              timeout=LIMIT_S, check=True)
    return {name: float(ns) for name, ns in (line.split() for line in done.stdout.splitlines())}


def upper_bound(differences):
    medians = sorted(statistics.median(random.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return medians[int(0.95 * RESAMPLES)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--limit", type=float, default=0, help="status 1 if an upper bound is above so many ns")
    arguments = parser.parse_args()
    random.seed(1)
    plain, watched = [], []
    for pair in range(arguments.pairs):
        # Either goes first in turn: what drifts does not add to one of them.
        for preload in (False, True) if pair % 2 == 0 else (True, False):
            (watched if preload else plain).append(run(os.path.abspath(arguments.build), arguments.mpi, preload))
    over = False
    for name in (name for name in plain[0] if name != FLOOR):
        differences = [with_it[name] - without[name] for without, with_it in zip(plain, watched)]
        bound = upper_bound(differences)
        over = over or bound > arguments.limit > 0
        print(f"{name:13} {statistics.median(one[name] for one in plain):8.1f} ns a message, "
              f"added {statistics.median(differences):6.1f}, 95 % bound {bound:6.1f} ({arguments.pairs} pairs)")
    floor = [one[FLOOR] - one["latency"] for one in plain]
    print(f"a bare record of each call adds {statistics.median(floor):.1f} to the latency, "
          f"95 % bound {upper_bound(floor):.1f}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
