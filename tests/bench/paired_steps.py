#!/usr/bin/env python3
"""What watching adds to a step of a training: runs in pairs, with the library and without, on softgpu.

Prints the median step of the plain runs, the median difference of the pairs, and its 95 % interval (bootstrap). With
--realtime the ranks run before everybody else's processes, so that a busy machine does not widen it; they mostly sleep.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESAMPLES = 10000
SHARED = "/dev/shm"


def step_s(build, options, watched, number):
    """Seconds of a step: from rank 0's line of the first one to that of the last one."""
    with tempfile.TemporaryDirectory(dir=SHARED) as folder:
        environment = {**os.environ, "LD_LIBRARY_PATH": os.path.join(build, "softgpu"), "TMPDIR": folder}
        if watched:
            environment.update(LD_PRELOAD=os.path.join(build, "lib", "libncclwatch.so"), NCCLWATCH_LOG="error",
                               NCCLWATCH_DIR=os.path.join(folder, "watched"), NCCLWATCH_JOB=f"pair{number}")
        words = [sys.executable, os.path.join(HERE, "..", "..", "examples", "launch.py"), "-n", str(options.ranks), "--"]
        words += ["chrt", "--fifo", "1"] if options.realtime else []
        words += [os.path.join(build, "examples", "straggler"), "--step", "1000000000", "--steps", str(options.steps + 1),
                  "--step-ms", str(options.step_ms), "--seed", str(number)]
        job = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
        seen = {}
        for line in job.stderr:
            seen[line.strip()] = time.monotonic()
        if job.wait() != 0:
            raise SystemExit("a run has failed")
        # Lines may bear the prefix of the launcher.
        at = {int(line.split()[-1]): when for line, when in seen.items() if "step " in line}
        return (at[options.steps] - at[0]) / options.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200, help="of a run, a multiple of 10")
    parser.add_argument("--step-ms", type=int, default=20)
    parser.add_argument("--realtime", action="store_true", help="as root: the ranks under SCHED_FIFO")
    options = parser.parse_args()
    random.seed(1)
    build = os.path.abspath(options.build)
    plain, differences = [], []
    for pair in range(options.pairs):
        taken = {}
        for watched in (pair % 2 == 0, pair % 2 != 0):
            taken[watched] = step_s(build, options, watched, pair)
        plain.append(taken[False])
        differences.append((taken[True] - taken[False]) / taken[False])
        print(f"{1e3 * taken[False]:.3f} ms, {100 * differences[-1]:+.3f} %", file=sys.stderr, flush=True)
    medians = sorted(statistics.median(random.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]
    print(f"a step takes {1e3 * statistics.median(plain):.2f} ms; watched {100 * statistics.median(differences):+.3f} % "
          f"({100 * low:+.3f} to {100 * high:+.3f} %), {options.pairs} pairs of {options.steps} steps, {options.ranks} ranks")


if __name__ == "__main__":
    main()
