"""What a job leaves under plain preload, in the default place: nothing, if it ended well."""

import os
import shutil
import signal
import sys

from cases_surroundings import namespace
from common import program
from harness import case, check, check_equal

PLACE = f"/dev/shm/ncclwatch-{os.geteuid()}"
HERE = os.path.dirname(os.path.abspath(__file__))


def default_place(**more):
    return {"NCCLWATCH_DIR": None, **more}


def left(job_name):
    """Everything in the default places that a job of this name has left."""
    found = []
    for folder, folders, names in os.walk(PLACE):
        found += [os.path.join(folder, name) for name in folders + names]
    return sorted(path for path in found if job_name in path)


def cleared(name):
    for path in left(name):
        shutil.rmtree(path, ignore_errors=True)


@case
def healthy_job_leaves_nothing(sandbox):
    name = f"leaves-{os.getpid()}"
    for ranks in (1, 4):
        job = sandbox.job([program(sandbox, "many"), "splits", "5"], ranks, extra=default_place(NCCLWATCH_JOB=name))
        check_equal(job.statuses(), [0] * ranks, f"exit status ({job.done})")
        check_equal(left(name), [], f"left by {ranks} ranks")
        check_equal(job.errors(), [error for error in job.errors() if "nobody looks" not in error], "words at the end")


@case
def keep_all_keeps_a_healthy_job(sandbox):
    name = f"kept-{os.getpid()}"
    try:
        job = sandbox.job([program(sandbox, "many"), "splits", "5"], 2,
                          extra=default_place(NCCLWATCH_JOB=name, NCCLWATCH_KEEP="all"))
        check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
        check_equal(len([path for path in left(name) if path.endswith(".box")]), 2, "black boxes")
    finally:
        cleared(name)


@case
def failed_job_leaves_its_boxes(sandbox):
    """By a status that is not 0, or by a signal: all stays, for diagnosis."""
    name = f"failed-{os.getpid()}"
    for ending, status in (("return", 21), ("kill", -signal.SIGKILL)):
        try:
            job = sandbox.job([program(sandbox, "endings"), ending], 2, extra=default_place(NCCLWATCH_JOB=name))
            check_equal(job.statuses(), [status] * 2, f"exit status ({job.done})")
            check_equal(len([path for path in left(name) if path.endswith(".box")]), 2, f"black boxes after {ending}")
        finally:
            cleared(name)


@case
def directory_named_by_the_user_stays(sandbox):
    job = sandbox.job([program(sandbox, "many"), "splits", "5"], 2)
    check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
    check_equal(len(job.boxes()), 2, "black boxes in NCCLWATCH_DIR")


@case
def many_jobs_leave_nothing_in_a_small_place(sandbox):
    """20 healthy jobs of 4 ranks, one after the other, where /dev/shm has 64 MiB: without removal 16 ranks fill it."""
    prefix = namespace("mount -t tmpfs -o size=64m none /dev/shm")
    script = os.path.join(HERE, "many_jobs.py")
    done = sandbox.run(prefix + [sys.executable, script, "--build", sandbox.build.root, "--jobs", "20"],
                       sandbox.environment(preload=False), timeout=240)
    check(done.status == 0, f"{done}")
