"""What cannot be recorded is counted, exactly, and the job never notices."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess

from common import Recorded, made, need_root
from harness import case, check, check_equal, until


def check_counted(job, ranks, some=True):
    """Calls and losses together are what the program made, and every reader says so."""
    done = job.command("trace", "--json")
    calls = job.calls()
    stats = job.json("stats")
    lost_in_all = 0
    for rank in range(ranks):
        seen, own = made(calls, rank), job.called(rank)
        others = sum(c["rank"] == rank for c in calls) - len(seen)
        lost = stats["lost"][str(rank)]
        lost_in_all += lost
        check_equal(len(seen) + lost, len(own) + 2 - others, f"rank {rank}: calls ({len(seen)}), lost {lost}, others {others}")
        if lost:
            check(f"rank {rank}: {lost} calls are missing" in done.err, f"trace says it: {done.err}")
    check((lost_in_all > 0) == some, f"{lost_in_all} lost")
    refused = job.command("replay")
    check_equal(refused.status, 3 if some else 0, f"replay: {refused}")
    if some:
        check("calls are missing" in refused.err, f"replay says why: {refused}")
    return lost_in_all


def collector_of(job):
    """The collector's process id, once there is one alone: others come, find that out and end."""
    def find():
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                words = open(path, "rb").read().split(b"\0")
            except OSError:
                continue
            if b"collect" in words and job.directory.encode() in words:
                found.append(int(path.split("/")[2]))
        return found[0] if len(found) == 1 else None
    return until(find, "a collector")


@case
def faster_than_the_collector(sandbox):
    """It is stopped while the smallest ring wraps."""
    def during(job, process):
        os.kill(collector_of(job), signal.SIGSTOP)
        until(lambda: all(os.path.exists(f"{job.scratch}/log.{rank}") for rank in range(2)), "the job begins")
        until(lambda: sum(map(len, (open(f"{job.scratch}/log.{rank}").readlines() for rank in range(2)))) > 4000, "calls")
        os.kill(collector_of(job), signal.SIGCONT)
    job = Recorded(sandbox, ranks=2, steps=1000, pause_us=300, options=("--ring", "256"), during=during)
    check_counted(job, 2)


@case
def killed_again_and_again(sandbox):
    """Each time another one goes on where it was; what the rings still hold is not lost."""
    def during(job, process):
        for _ in range(10):
            pid = collector_of(job)
            os.kill(pid, signal.SIGKILL)
            until(lambda: process.popen.poll() is not None or collector_of(job) != pid, "another collector")
            if process.popen.poll() is not None:
                return
    job = Recorded(sandbox, ranks=2, steps=2000, pause_us=500, during=during)
    check_counted(job, 2, some=False)
    job.without_boxes()
    for rank in (0, 1):
        check_equal(made(job.calls(), rank), job.called(rank), f"calls of rank {rank}, of segments alone")


@case
def full_disk(sandbox):
    need_root()
    place = sandbox.fresh("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
    try:
        job = Recorded(sandbox, ranks=2, steps=4000, pause_us=100, options=("--ring", "256"),
                       to=os.path.join(place, "recording"))
        said = [line for line in job.done.err.splitlines() if "No space left" in line or "cannot be written" in line]
        check(said, f"one line says why: {job.done.err}")
        check(len([line for line in said if "calls are lost" in line]) <= 1, f"... and one only: {job.done.err}")
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@case
def full_disk_has_room_again(sandbox):
    """What the rings still hold is written then, and no empty file is left of the time before."""
    need_root()
    place = sandbox.fresh("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", place], check=True)
    try:
        def during(job, process):
            filler = os.path.join(place, "filler")
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            until(lambda: "No space left" in process.read(process.err), "a write fails")
            check_equal([path for path in job.segments() if os.path.getsize(path) == 0], [], "empty files")
            os.unlink(filler)
        # So few bytes that segments are written often; the file system has room for all of them.
        job = Recorded(sandbox, ranks=2, steps=2500, pause_us=800, to=os.path.join(place, "recording"), during=during,
                       extra={"NCCLWATCH_TRACE_MAX": "300K"})
        check_counted(job, 2, some=False)
        job.without_boxes()
        for rank in (0, 1):
            check_equal(made(job.calls(), rank), job.called(rank), f"calls of rank {rank}, of segments alone")
        check_equal([path for path in job.segments() if os.path.getsize(path) == 0], [], "empty files")
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@case
def a_limit_on_the_size_of_files(sandbox):
    """`ulimit -f` binds the collector too: its files are shorter, and nothing is lost."""
    job = Recorded(sandbox, ranks=2, steps=3000, pause_us=100, limit_kib=3000, options=("--ring", "1024"))
    check(len(job.segments()) > 0 and "killed" not in job.done.err, f"segments: {job.done.err}")
    job.without_boxes()
    check(all(os.path.getsize(path) <= 3000 << 10 for path in job.segments()), "no file is longer than the limit")


@case
def directory_removed(sandbox):
    def during(job, process):
        until(lambda: job.segments(), "the first segment")
        shutil.rmtree(job.directory)
    job = Recorded(sandbox, ranks=2, steps=14000, pause_us=200, during=during)
    check("calls are lost" in job.done.err or "removed" in job.done.err, f"it says so: {job.done.err}")


@case
def oldest_go_first(sandbox):
    job = Recorded(sandbox, ranks=2, steps=9000, pause_us=50, extra={"NCCLWATCH_TRACE_MAX": "200K"}, options=("--ring", "4096"))
    size = sum(os.path.getsize(path) for path in job.segments())
    print(f"{size} bytes of segments")
    check(size <= 200 << 10, f"{size} bytes")
    job.without_boxes()
    newest = job.calls()
    check_equal(made(newest, 0)[-50:], job.called(0)[-50:], "the newest calls")
