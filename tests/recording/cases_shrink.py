"""Recorded faults shrunk to a program, which the command builds and runs: it stops in the call in which the model has
it, and with ncclwatch it has the verdict of the recording. `shrunk_faults.py` does that with 200 of them."""

import json
import os
import sys

from cases_replay import recorded_in
from common import ROOT, Recorded
from harness import Skipped, case, check, check_equal

def launch(longest_s=15):
    return [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--timeout", str(longest_s), "--"]


MPIRUN = {"openmpi": "mpirun.openmpi --allow-run-as-root --oversubscribe", "mpich": "mpirun.mpich"}
MOST_LINES = 180


class Shrunk:
    def __init__(self, sandbox, argv, extra=None):
        build = sandbox.build
        self.scratch, recording = recorded_in(sandbox, argv, extra)
        program = os.path.join(self.scratch, "repro")
        plain = sandbox.environment(preload=False, extra={"TMPDIR": self.scratch})
        plain.pop("LD_LIBRARY_PATH")
        done = sandbox.run([build.command, "replay", recording, "--shrink", "-o", program, "--json"], plain, timeout=90)
        check(done.out.startswith("{"), f"{done}")
        self.status, self.told = done.status, json.loads(done.out)
        self.run = self.told["run"]
        if not self.run["done"] and "nccl.h" in self.run["why"]:
            raise Skipped(self.run["why"])
        self.source = open(self.told["program"]).read()
        check(self.source.count("\n") <= MOST_LINES, f"{self.source.count(chr(10))} lines:\n{self.source}")

    def check(self, kind, culprits, stopped=None):
        """culprits: ranks of the recording. stopped: by rank of the program, the function in which it stands."""
        what = f"{self.told}\n{self.source}"
        check_equal((self.told["kind"], self.told["culprits"]), (kind, culprits), what)
        check_equal((self.run["done"], self.run["differs"], self.run["same"], self.status), (True, [], True, 0), what)
        check_equal(self.run["certainty"], self.told["certainty"], what)
        if stopped is None:
            return
        check_equal({one["rank"]: one["in"].split("(")[0] for one in self.run["stopped"]}, stopped, what)
        check(self.run["status"] != 0, f"make says that the run was stopped: {what}")


def example(sandbox, name, extra=None, longest_s=15):
    path = os.path.join(sandbox.build.root, "examples", name)
    sandbox.build.need(path)
    return Shrunk(sandbox, [*launch(longest_s), path], extra)


def mpi(sandbox, program, argument, kind="openmpi", ranks=4):
    path = os.path.join(sandbox.build.root, "mpi", f"mpi_{program}.{kind}")
    if not os.path.exists(path):
        raise Skipped(f"the programs for {kind} are not built")
    return Shrunk(sandbox, [*MPIRUN[kind].split(), "-n", str(ranks), path, argument], {"LD_LIBRARY_PATH": ""})


@case
def program_of_calls_that_differ(sandbox):
    example(sandbox, "skipped_collective").check("order_mismatch", [2])


@case
def program_of_a_dead_rank(sandbox):
    example(sandbox, "killed").check("dead_rank", [2])


@case
def program_of_a_ring(sandbox):
    """Each rank sends before it receives. A part of the ring is no deadlock, so that nothing of it can be left out."""
    path = sandbox.build.program("recording", "ring")
    sandbox.build.need(path)
    ring = Shrunk(sandbox, [*launch(), path, "3"], {"HOST_ID_DIR": sandbox.fresh("ids")})
    ring.check("deadlock", [0, 1, 2, 3], {rank: "ncclSend" for rank in range(4)})
    check_equal((ring.told["was_rank"], ring.told["calls"]), ([0, 1, 2, 3], 12), f"{ring.told}")


@case
def program_of_a_ring_of_mpi(sandbox):
    ring = mpi(sandbox, "messages", "ssend_ring")
    ring.check("deadlock", [0, 1, 2, 3], {rank: "MPI_Ssend" for rank in range(4)})


@case
def program_with_ranks_that_stay(sandbox):
    """A rank that is merely late must be there: if it ended, that would be the fault."""
    late = example(sandbox, "stuck_data_loader")
    late.check("missing_participant", [2])
    check("Stay();  // part of the fault: if it left, this would be early_exit" in late.source, late.source)


@case
def program_of_a_rank_that_never_began(sandbox):
    """It calls nothing of NCCL, so that ncclwatch does not end it: the launcher's limit does, after the verdict."""
    example(sandbox, "missing_at_start", longest_s=8).check("initialization_hang", [2])


@case
def program_of_a_stuck_gpu(sandbox):
    example(sandbox, "stuck_stream", {"NCCLWATCH_GPU": "both"}).check("device_stall", [2])


@case
def program_of_mpi_calls_that_differ(sandbox):
    mpi(sandbox, "collectives", "reduction").check("argument_mismatch", [2])


@case
def time_limit_of_the_search(sandbox):
    """What is left by then is written, and shows the fault."""
    path = os.path.join(sandbox.build.root, "examples", "skipped_collective")
    sandbox.build.need(path)
    scratch, recording = recorded_in(sandbox, [*launch(), path])
    program = os.path.join(scratch, "repro")
    plain = sandbox.environment(preload=False, extra={"TMPDIR": scratch, "PATH": "/nowhere"})  # no compiler: it is not run
    done = sandbox.run([sandbox.build.command, "replay", recording, "--shrink", "-o", program, "--json", "--time-limit", "1ms"], plain)
    told = json.loads(done.out)
    check_equal((told["ended_early"], told["kind"], told["culprits"]), (True, "order_mismatch", [2]), f"{told}")
    check(told["calls"] == told["calls_before"] and os.path.exists(told["program"]), f"{told}")


@case
def what_cannot_be_shrunk(sandbox):
    job = Recorded(sandbox, ranks=2, steps=20)
    healthy = job.command("replay", "--shrink", "-o", os.path.join(job.scratch, "repro"))
    check_equal(healthy.status, 3, f"{healthy}")
    check("nothing to show" in healthy.err, healthy.err)
    for words in (("--shrink",), ("--shrink", "-o", "x", "--ranks", "0"), ("--shrink", "-o", "x", "--on", "nccl"),
                  ("--shrink", "-o", "x", "--scale", "4")):
        check_equal(job.command("replay", *words).status, 2, f"{words}")
