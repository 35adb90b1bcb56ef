"""Segments that are cut, changed, foreign or of another version: said with file and place, and nothing else is lost."""

import os
import shutil
import struct

from common import Recorded
from harness import case, check, check_equal

READERS = (("trace",), ("stats",), ("replay",))


def damaged(job, change):
    """Its largest segment, which has calls: the last one of a process may have none."""
    directory = job.sandbox.fresh("damaged")
    source = max(job.segments(), key=os.path.getsize)
    path = os.path.join(directory, os.path.basename(source))
    with open(source, "rb") as file:
        content = bytearray(file.read())
    content = change(content) or content
    with open(path, "wb") as file:
        file.write(content)
    return directory, path


def check_said(job, change, what):
    directory, path = damaged(job, change)
    for reader in READERS:
        done = job.command(*reader, directory=directory)
        check_equal(done.status, 3, f"{reader}, {what}: {done}")
        check(path in done.err and "at byte " in done.err, f"{reader} names file and place: {done.err}")
        check("terminate" not in done.err and len(done.err.splitlines()) < 6, f"{reader}: {done.err}")


@case
def damaged_segments(sandbox):
    job = Recorded(sandbox, ranks=2, steps=3000)  # long enough for the collector to come
    job.without_boxes()

    def flip(at):
        def change(content):
            content[at % len(content)] ^= 0x10
        return change

    check_said(job, lambda content: content[:-1], "cut by a byte")
    check_said(job, lambda content: content[:50], "cut in the header")
    check_said(job, lambda content: b"not a segment at all" * 20, "foreign")
    check_said(job, lambda content: content[:8] + struct.pack("=I", 99) + content[12:], "another version")
    for at in (20, 30, 60, 100, 200, 500, -20):
        check_said(job, flip(at), f"a bit at {at}")


@case
def the_rest_is_read(sandbox):
    """Of two processes' segments the second one is cut: the first is there."""
    job = Recorded(sandbox, ranks=2, steps=3000)  # long enough for the collector to come
    job.without_boxes()
    whole, left = len(job.calls()), []
    for tenths in range(9, 0, -1):  # where one part ends and the next begins depends on when the collector came
        directory, _ = damaged(job, lambda content, tenths=tenths: content[:len(content) * tenths // 10])
        left.append(len(job.calls(status=3, directory=directory)))
    check_equal(left, sorted(left, reverse=True), "calls: the less is left of the file the fewer")
    check(any(0 < calls < whole for calls in left), f"{left} of {whole} calls")


@case
def a_living_job_is_no_recording_yet(sandbox):
    """Its rings are read as far as they go."""
    from harness import Process
    build = sandbox.build
    scratch = sandbox.fresh("living")
    run = os.path.join(scratch, "run")
    env = sandbox.environment(True, run, {"RANK": "0", "WORLD_SIZE": "1", "HOST_ID_DIR": scratch})
    process = Process([build.program("recording", "loop"), "100000", "1000", os.path.join(scratch, "log")], env, cwd=scratch)
    try:
        from harness import until
        until(lambda: os.path.isdir(run) and any(name.endswith(".box") for name in os.listdir(run)), "a black box")
        plain = sandbox.environment(preload=False)
        until(lambda: len(sandbox.run([build.command, "trace", "--json", run], plain).out.splitlines()) > 50, "calls")
        done = sandbox.run([build.command, "stats", "--json", run], plain)
        check_equal(done.status, 0, f"{done}")
    finally:
        process.kill()
        shutil.rmtree(scratch, ignore_errors=True)
