"""What the host tests share: the same job without and with the library, and what must be equal."""

import subprocess

from harness import check, check_equal
from words import Box


def program(sandbox, name):
    path = sandbox.build.program("hosts", name)
    sandbox.build.need(path, sandbox.build.library, sandbox.build.command, sandbox.build.nccl)
    return path


def both(sandbox, argv, expected=None, boxes=None, quiet=True, **options):
    """Runs the job without, then with the library. Statuses and outputs must be equal, and statuses as expected.

    boxes: how many black boxes the watched job must have left (default: one a rank). Returns the watched job.
    """
    ranks = options.get("ranks", 1)
    plain = sandbox.job(argv, preload=False, **options)
    watched = sandbox.job(argv, preload=True, **options)
    if expected is not None:
        check_equal(plain.statuses(), [expected] * ranks, f"exit status without the library ({plain.done})")
    check_equal(watched.statuses(), plain.statuses(), f"exit status with and without the library ({watched.done})")
    check_equal(watched.outputs(), plain.outputs(), "standard output with and without the library")
    check_equal(plain.boxes(), [], "black boxes without the library")
    check_equal(len(watched.boxes()), ranks if boxes is None else boxes, f"black boxes ({watched.done})")
    if quiet:
        for done in watched.done:
            for line in done.err.splitlines():
                check("ncclwatch" not in line or "watching" in line, f"unexpected words: {line}")
    return watched


def counts(job, op="AllReduce", **wanted):
    """Counts of all recorded calls of `op`, by process id, in order."""
    found = {}
    for call in job.calls():
        if call["op"] == op and all(call[k] == v for k, v in wanted.items()):
            found.setdefault(call["pid"], []).append(call["count"])
    return found


def check_recorded(job, expected, op="AllReduce"):
    """Every process of the job recorded exactly these counts, each call as returned."""
    by_process = counts(job, op)
    check_equal(len(by_process), len(job.done), f"processes that recorded {op}")
    for pid, found in by_process.items():
        check_equal(found, expected, f"counts of {op} recorded by process {pid}")


def unwind(sandbox, path, status=0):
    """As a leader or `ncclwatch run` does right after a death."""
    done = subprocess.run([sandbox.build.command, "stacks", "--crash", path], capture_output=True, text=True)
    check_equal(done.returncode, status, f"status of the command ({done.stderr})")
    return Box(path)
