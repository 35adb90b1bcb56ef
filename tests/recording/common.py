"""A recorded job, what it says that it called, and the commands that read it."""

import glob
import json
import os
import sys
import time

from harness import Process, Skipped, check, check_equal

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COLLECTIVES = ("AllReduce", "AllGather", "Broadcast")


class Recorded:
    """`loop` of some ranks under `ncclwatch run --record`."""

    def __init__(self, sandbox, ranks=2, steps=200, pause_us=500, options=(), to=None, extra=None, during=None,
                 limit_kib=None):
        self.sandbox, self.ranks = sandbox, ranks
        build = sandbox.build
        loop = build.program("recording", "loop")
        build.need(loop, build.command, build.library, build.nccl)
        self.scratch = sandbox.fresh("job")
        self.directory = to or os.path.join(self.scratch, "recording")
        # Times are those of the host, which plain arithmetic can check; those of kernels have tests of their own.
        env = sandbox.environment(preload=False, extra={"HOST_ID_DIR": self.scratch, "TMPDIR": self.scratch,
                                                        "NCCLWATCH_PROFILER": "off", **(extra or {})})
        log = os.path.join(self.scratch, "log.")
        job = ["sh", "-c", f'exec "{loop}" {steps} {pause_us} "{log}$RANK"']
        launch = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", str(ranks), "--"]
        argv = [build.command, "run", "--record", self.directory, "--dir", os.path.join(self.scratch, "run"), *options, "--",
                *launch, *job]
        if limit_kib:
            argv = ["sh", "-c", f'ulimit -f {limit_kib * 2} && exec "$@"', "sh", *argv]
        process = Process(argv, env, cwd=self.scratch)
        if during:
            during(self, process)
        self.done = process.wait(time.monotonic() + 90)
        check_equal(self.done.status, 0, f"the job's status: {self.done}")
        check_equal(self.done.out.split(), [str(steps * 5)] * ranks, "what the job printed")

    def called(self, rank):
        """[(op, count)], by the program's own log."""
        with open(os.path.join(self.scratch, f"log.{rank}")) as file:
            return [(op, int(count)) for op, count in (line.split() for line in file)]

    def command(self, *words, directory=None):
        env = self.sandbox.environment(preload=False, extra={"TMPDIR": self.scratch})
        return self.sandbox.run([self.sandbox.build.command, *words, directory or self.directory], env, timeout=60)

    def json(self, *words, status=0, directory=None):
        done = self.command(*words, "--json", directory=directory)
        check_equal(done.status, status, f"{words}: {done}: status")
        return json.loads(done.out)

    def calls(self, *words, status=0, directory=None):
        done = self.command("trace", "--json", *words, directory=directory)
        check_equal(done.status, status, f"trace {words}: {done}: status")
        return [json.loads(line) for line in done.out.splitlines()]

    def segments(self):
        return sorted(glob.glob(os.path.join(self.directory, "*.segments")))

    def without_boxes(self):
        for box in glob.glob(os.path.join(self.directory, "*.box")):
            os.unlink(box)


def made(calls, rank):
    return [(call["op"], call["count"]) for call in calls if call["rank"] == rank and call["op"] in COLLECTIVES]


def need_root():
    if os.geteuid() != 0:
        raise Skipped("only root may mount")
