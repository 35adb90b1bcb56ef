"""Recorded faults shrunk to a program: it hangs without ncclwatch, and with ncclwatch it has the same verdict."""

import json
import os
import sys

from cases_replay import recorded_in
from common import ROOT, Recorded
from harness import Skipped, case, check, check_equal, soak_case

LAUNCH = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--timeout", "15", "--"]
MPIRUN = {"openmpi": "mpirun.openmpi --allow-run-as-root --oversubscribe", "mpich": "mpirun.mpich"}
MOST_LINES = 60


def cuda_include():
    for folder in (os.environ.get("CUDA_HOME", "/usr/local/cuda"), os.path.join(ROOT, "build", "cuda-headers"), "/usr"):
        if os.path.exists(os.path.join(folder, "include", "nccl.h")):
            return os.path.join(folder, "include")
    raise Skipped("no headers of NCCL")


class Shrunk:
    def __init__(self, sandbox, argv, extra=None, mpi=None):
        self.sandbox, self.mpi, self.extra = sandbox, mpi, dict(extra or {})
        build = sandbox.build
        self.scratch, recording = recorded_in(sandbox, argv, extra)
        self.program = os.path.join(self.scratch, "repro")
        plain = sandbox.environment(preload=False)
        done = sandbox.run([build.command, "replay", recording, "--shrink", "-o", self.program, "--json"], plain, timeout=60)
        check_equal(done.status, 0, f"{done}")
        self.told = json.loads(done.out)
        self.source = open(self.told["program"]).read()
        check(self.source.count("\n") <= MOST_LINES, f"{self.source.count(chr(10))} lines:\n{self.source}")

    def make(self, *words):
        env = self.sandbox.environment(preload=False, extra=self.extra)
        words = [*words, f"MPICC=mpicc.{self.mpi}", f"MPIRUN={MPIRUN[self.mpi]}"] if self.mpi else [
            *words, f"CPPFLAGS=-I{cuda_include()}", f"LDFLAGS=-L{os.path.join(self.sandbox.build.root, 'softgpu')}"]
        return self.sandbox.run(["make", "-C", self.program, *words], env, timeout=60)

    def check(self, kind, culprits, hangs=True):
        """culprits: ranks of the recording."""
        check_equal(self.told["kind"], kind, f"{self.told}")
        built = self.make("repro")
        check_equal((built.status, "warning" in built.err), (0, False), f"{built}\n{self.source}")
        alone = self.make("run", "TIMEOUT=3")
        check("Error 124" in alone.err or not hangs, f"it hangs without ncclwatch: {alone}\n{self.source}")
        directory = os.path.join(self.scratch, "watched")
        watch = f"{self.sandbox.build.command} run --timeout 3 --on-fault abort --dir {directory} --"
        watched = self.make("run", "TIMEOUT=40", f"WATCH={watch}")
        with open(os.path.join(directory, "diagnosis.json")) as file:
            finding = json.load(file)["findings"][0]
        check_equal((finding["kind"], finding["certainty"]), (kind, self.told["certainty"]), f"{watched}\n{self.source}")
        check_equal([self.told["was_rank"][rank] for rank in finding["culprits"]], culprits, f"{finding}\n{self.source}")


def example(sandbox, name, extra=None):
    path = os.path.join(sandbox.build.root, "examples", name)
    sandbox.build.need(path)
    return Shrunk(sandbox, [*LAUNCH, path], extra)


def mpi(sandbox, program, argument, kind="openmpi", ranks=4):
    path = os.path.join(sandbox.build.root, "mpi", f"mpi_{program}.{kind}")
    if not os.path.exists(path):
        raise Skipped(f"the programs for {kind} are not built")
    return Shrunk(sandbox, [*MPIRUN[kind].split(), "-n", str(ranks), path, argument], {"LD_LIBRARY_PATH": ""}, kind)


@case
def program_of_calls_that_differ(sandbox):
    example(sandbox, "skipped_collective").check("order_mismatch", [2])


@case
def program_of_a_dead_rank(sandbox):
    example(sandbox, "killed").check("dead_rank", [2])


@soak_case
def program_of_a_rank_that_never_began(sandbox):
    example(sandbox, "missing_at_start").check("initialization_hang", [2])


@case
def program_of_a_stuck_gpu(sandbox):
    example(sandbox, "stuck_stream", {"NCCLWATCH_GPU": "both"}).check("device_stall", [2])


@case
def programs_of_mpi(sandbox):
    mpi(sandbox, "collectives", "reduction").check("argument_mismatch", [2], hangs=False)
    mpi(sandbox, "messages", "receive_receive").check("deadlock", [1, 2])


@case
def what_cannot_be_shrunk(sandbox):
    job = Recorded(sandbox, ranks=2, steps=20)
    healthy = job.command("replay", "--shrink", "-o", os.path.join(job.scratch, "repro"))
    check_equal(healthy.status, 3, f"{healthy}")
    check("nothing to show" in healthy.err, healthy.err)
    for words in (("--shrink",), ("--shrink", "-o", "x", "--ranks", "0"), ("--shrink", "-o", "x", "--on", "nccl"),
                  ("--shrink", "-o", "x", "--scale", "4")):
        check_equal(job.command("replay", *words).status, 2, f"{words}")
