"""Files of the run directory that are cut short, or whose file system is full, under a live job: it goes on."""

import os
import signal

from cases_surroundings import namespace
from common import program
from harness import case, check, check_equal

LOST = "recording has stopped"


def run(sandbox, mode, status, ranks=2, said=None, prefix=(), run_directory=None, times=1):
    """Returns the last watched job."""
    command = list(prefix) + [program(sandbox, "cut"), mode]
    plain = sandbox.job(command, ranks, preload=False, extra={"NCCLWATCH_DIR": None})
    check_equal(plain.statuses(), [status] * ranks, f"exit status without the library ({plain.done})")
    for _ in range(times):
        job = sandbox.job(command, ranks, run_directory=run_directory)
        check_equal(job.statuses(), [status] * ranks, f"exit status ({job.done})")
        check_equal(job.outputs(), plain.outputs(), "standard output")
        lines = [[line for line in error.splitlines() if "ncclwatch" in line and "watching" not in line]
                 for error in job.errors()]
        if said is not None:
            check_equal([sum(said in line for line in own) for own in lines], [1] * ranks, f"lines that say so: {lines}")
            check_equal([len(own) for own in lines], [1] * ranks, f"lines: {lines}")
    return job


@case
def own_box_cut_short(sandbox):
    run(sandbox, "own", 44, said=LOST)


@case
def own_box_cut_short_then_a_crash(sandbox):
    run(sandbox, "crash", -signal.SIGSEGV, ranks=1)


@case
def lease_cut_short(sandbox):
    job = run(sandbox, "lease", 44)
    for error in job.errors():
        check("not watched" in error, f"not said: {error}")
    counts = [call["count"] for call in job.calls() if call["op"] == "AllReduce"]
    check_equal(sorted(counts), [51] * 40 + [52] * 120, "calls are recorded all the same")


@case
def all_boxes_cut_short_by_one(sandbox):
    """Also while the others are in the middle of a call, and their leader reads them."""
    run(sandbox, "all", 44, ranks=3, said=LOST, times=2)


@case
def file_system_of_the_box_is_full(sandbox):
    place = sandbox.fresh("place")
    prefix = namespace(f"mount -t tmpfs -o size=16m none {place}")
    run(sandbox, "full", 44, ranks=1, said=LOST, prefix=prefix, run_directory=os.path.join(place, "run"))


@case
def own_box_cut_short_again_and_again(sandbox):
    """From outside and at any moment, the watchdog's own looks included."""
    run(sandbox, "own", 44, ranks=2, said=LOST, times=4)
