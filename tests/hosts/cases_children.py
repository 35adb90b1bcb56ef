"""Children of a process that uses NCCL, and NCCL used only by children."""

import os

from common import both, check_recorded, counts, program
from harness import case, check, check_equal, trace

MODES = ["fork_exec", "fork_exit", "fork_quick", "fork_killed", "fork_aborts", "vfork_exec", "vfork_exit", "raw_clone",
         "raw_clone_exit"]


def register(mode):
    def test(sandbox):
        job = both(sandbox, [program(sandbox, "children"), mode], 0, ranks=2)
        # Neither the child's calls nor its end are its parent's.
        check_recorded(job, [11, 21])
        check(job.diagnosis()["healthy"], f"a finding on a healthy job: {job.diagnosis()}")

    test.__name__ = mode
    case(test)


for name in MODES:
    register(name)


@case
def many_children(sandbox):
    job = both(sandbox, [program(sandbox, "children")] + MODES * 3, 0, ranks=2, timeout=60)
    check_recorded(job, [11] + list(range(21, 21 + 3 * len(MODES))))


@case
def forked_ranks(sandbox):
    """The parent never uses NCCL; its forked children are the ranks, each with a black box of its own."""
    job = both(sandbox, [program(sandbox, "late"), "ranks"], 0, boxes=3)
    by_process = counts(job)
    check_equal(sorted(by_process.values()), [[101] * 5] * 3, "counts recorded by the children")
    check_equal(sorted({call["rank"] for call in job.calls()}), [0, 1, 2], "ranks of the children")


@case
def forked_by_a_rank(sandbox):
    """The parent is a rank as well, which it says only after its start: one job, in one directory."""
    nobody = {name: None for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")}
    job = both(sandbox, [program(sandbox, "late"), "among"], 0, boxes=3, extra=nobody)
    check_equal({os.path.dirname(box) for box in job.boxes()}, {job.directory}, "directories of the boxes")
    check_equal(sorted({call["rank"] for call in job.calls()}), [0, 1, 2], "ranks")
    # Once more, from the same parent and with the same variables: nothing but its time tells it from the first.
    again = sandbox.job([program(sandbox, "late"), "among"], run_directory=job.directory, extra=nobody)
    check_equal(again.statuses(), [0], f"exit status of the second job ({again.done})")
    places = sorted(os.path.relpath(os.path.dirname(box), job.directory) for box in again.boxes())
    check_equal(places, [".", ".", ".", "run-1", "run-1", "run-1"], "where the boxes of both jobs are")


@case
def child_calls_after_fork(sandbox):
    """A child that makes NCCL calls of its own after its parent's: its parent's box stays its parent's."""
    job = both(sandbox, [program(sandbox, "late"), "after"], 0, boxes=2)
    # An attempt of its own would be the newest, and hide its parent's job.
    check_equal({os.path.dirname(box) for box in job.boxes()}, {job.directory}, "directories of the boxes")
    boxes = [[(call["op"], call["count"]) for call in trace(sandbox, box)] for box in job.boxes()]
    parents = [calls for calls in boxes if ("AllReduce", 102) in calls]
    check_equal(len(parents), 1, "boxes with the parent's calls")
    check_equal([count for op, count in parents[0] if op == "AllReduce"], [102, 103], "the parent's counts in its box")
    check_equal([op for op, _ in parents[0] if op.startswith("Group")], [], "the child's calls in its parent's box")
    # The child's environment says that it is the rank that its parent is.
    verdict = job.diagnosis()
    check(verdict["healthy"], f"a finding on a healthy job: {verdict}")
    check_equal(sum(call["rank"] == 0 and call["op"].startswith("Group") for call in job.calls()), 0,
                "calls of the child that are said to be rank 0's")


@case
def waitpid_sees_no_strangers(sandbox):
    """The host reaps any child there is while the leader collects evidence for a fault."""
    argv = [program(sandbox, "reaper"), "4000"]
    job = sandbox.job(argv, ranks=2, extra={"NCCLWATCH_TIMEOUT": "1", "NCCLWATCH_ON_FAULT": "dump"})
    check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
    check_equal(job.outputs(), ["strangers 0\n"] * 2, "children that are not the host's")
    check(any("missing_participant" in e or "missing" in e for e in job.errors()),
          f"the late rank was to be noticed, or this test proves nothing: {job.errors()}")
