#!/usr/bin/env python3
"""Faults of all kinds, shrunk to programs (`replay --shrink`), each built and run: on softgpu, or on Open MPI.

Jobs of NCCL are simulated (`generate_job`), those of MPI are random programs that really run (tests/mpi/random). Each
program has to stop in the call in which the model has it, and under ncclwatch the verdict has to be that of the
recording; or the command refuses, and says why. Status 1 where one does otherwise. In no quick suite: eight minutes.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "mpi"))
sys.path.insert(0, os.path.join(HERE, "..", "mpi", "random"))

import generate  # noqa: E402
from harness import Build, clean_environment  # noqa: E402

TOPOLOGIES = ("data", "tensor", "pipeline", "interleaved", "context", "expert", "sharded", "hierarchical", "mixed")
RANKS = (4, 8)
STEPS = "6"          # rings that have not wrapped are whole recordings
RING = "16384"
LONGEST_S = 240
MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe")


def run(words, environment=None, seconds=LONGEST_S):
    try:
        done = subprocess.run(words, env=environment or clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=seconds)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return 124, "", f"{words[0]}: no end in {seconds} s"


class Fault:
    """One recording of a fault, by its name."""

    def __init__(self, build, name):
        self.build, self.name = build, name

    def shrink(self):
        """(outcome, what it says): same, refused, differs, absent."""
        folder = tempfile.mkdtemp(prefix="ncclwatch-shrunk-", dir="/dev/shm")
        try:
            recording, program = os.path.join(folder, "recording"), os.path.join(folder, "program")
            if not self.record(recording, folder):
                return "absent", "the job is not to be had"
            status, out, err = run([self.build.command, "replay", recording, "--shrink", "-o", program, "--json"])
            if status == 3:
                return "refused", err.strip().split(": ", 1)[-1]
            if not out.startswith("{"):
                return "differs", f"status {status}: {err.strip()}"
            told = json.loads(out)
            seen = told["run"]
            what = f"{told['certainty']} {told['kind']} of {told['culprits']}, {told['calls']} calls"
            if not seen["done"]:
                return "differs", f"{what}: not run: {seen['why']}"
            if seen["same"]:
                return "same", what
            return "differs", f"{what}: {seen['kind']} of {seen['culprits']} (was {told['was_rank']}); {seen['differs']}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Simulated(Fault):
    """On the first topology, from this one on, that can have the fault."""

    def __init__(self, build, fault, topology, ranks, seed):
        super().__init__(build, f"{fault} {TOPOLOGIES[topology]} {ranks} {seed}")
        self.fault, self.topology, self.ranks, self.seed = fault, topology, ranks, seed

    def record(self, recording, _):
        generator = os.path.join(self.build.root, "bin", "generate_job")
        for topology in TOPOLOGIES[self.topology:] + TOPOLOGIES[:self.topology]:
            self.name = f"{self.fault} {topology} {self.ranks} {self.seed}"
            words = ["--fault", self.fault, "--topology", topology, "--ranks", str(self.ranks), "--seed", str(self.seed)]
            if run([generator, *words, "--steps", STEPS, "--ring", RING, "--out", recording])[0] == 0:
                return True
        return False


class RandomMpi(Fault):
    def __init__(self, build, seed):
        super().__init__(build, f"mpi {seed}")
        self.program, truth = generate.faulty(seed)
        self.name += f" {truth.sort}"

    def record(self, recording, folder):
        script = os.path.join(folder, "script")
        with open(script, "w") as file:
            file.write(self.program.text(checks=False))
        player = os.path.join(self.build.root, "mpi", "mpi_player.openmpi")
        run([self.build.command, "run", "--timeout", "3", "--on-fault", "abort", "--record", recording, "--", *MPIRUN, "-n",
             str(self.program.ranks), player, script], seconds=60)
        return os.path.isdir(recording)


def simulated(build, number):
    status, out, err = run([os.path.join(build.root, "bin", "generate_job"), "--list"])
    if status != 0:
        raise SystemExit(f"generate_job: {err}")
    names = [line.split()[1] for line in out.splitlines() if line.startswith("fault ") and line != "fault healthy"]
    for i in range(number):
        seed, fault = divmod(i, len(names))
        yield Simulated(build, names[fault], i % len(TOPOLOGIES), RANKS[i // 3 % len(RANKS)], seed + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--simulated", type=int, default=150, metavar="N")
    parser.add_argument("--mpi", type=int, default=50, metavar="N", help="random programs of Open MPI")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at once")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults whose name contains this")
    options = parser.parse_args()
    build = Build(options.build)
    faults = [*simulated(build, options.simulated), *(RandomMpi(build, seed) for seed in range(options.mpi))]
    faults = [fault for fault in faults if options.only in fault.name]
    counts, reasons = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for fault, (outcome, text) in zip(faults, pool.map(Fault.shrink, faults)):
            counts[outcome] += 1
            if outcome == "refused":
                reasons[text] += 1
            print(f"{outcome:8} {fault.name}: {text}", flush=True)
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.most_common()))
    for text, number in reasons.most_common():
        print(f"  refused {number}: {text}")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
