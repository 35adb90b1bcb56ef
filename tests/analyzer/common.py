"""Run directories made of box_writer's boxes, and the command on them."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import sanitizer  # noqa: E402
from harness import Failed, Sandbox, Skipped, case, check, check_equal, clean_environment, run_main, until  # noqa: E402,F401

HERE = os.path.dirname(os.path.abspath(__file__))
COMMANDS = ["run", "demo", "diagnose", "report", "trace", "stats", "replay", "collect", "metrics", "top", "export", "import", "bundle", "doctor", "compare", "bisect",
            "correlate", "investigate", "triage", "ls", "clean", "dump", "stacks", "off", "on"]
COMMUNICATOR = "8f3c09d2a1b45e77"  # of box_writer


class Bench:
    """One sandbox with defaults of its own: no run directory outside of it is seen or touched."""

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.build = sandbox.build
        self.writer = self.build.program("analyzer", "box_writer")
        self.counter = self.build.program("analyzer", "signal_counter")
        self.temporary = sandbox.fresh("tmp")
        self.held = []

    def __enter__(self):
        self.build.need(self.build.command, self.writer, self.counter)
        return self

    def __exit__(self, *_):
        for process in self.held:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def environment(self, **extra):
        env = clean_environment()
        env.update(sanitizer.OPTIONS)
        env["TMPDIR"] = self.temporary
        env.update(extra)
        return env

    def base(self):
        """Where this user's run directories lie below TMPDIR."""
        path = os.path.join(self.temporary, f"ncclwatch-{os.geteuid()}")
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def place(self, name="job-a"):
        return os.path.join(self.base(), name)

    def write(self, directory, rank, world, *words):
        """A rank that has ended; its pid."""
        done = subprocess.run([self.writer, directory, f"rank={rank}", f"world={world}", *words],
                              env=self.environment(), stdout=subprocess.PIPE, text=True, timeout=30)
        return int(done.stdout)

    def hold(self, directory, rank, world, *words):
        """A rank that lives until the bench ends."""
        process = subprocess.Popen([self.writer, directory, f"rank={rank}", f"world={world}", "end=hold", *words],
                                   env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.held.append(process)
        check_equal(int(process.stdout.readline()), process.pid, "pid of box_writer")
        return process

    def release(self, process):
        process.stdin.close()
        process.wait(20)
        process.stdin = open(os.devnull)

    def dead_job(self, directory=None, ranks=2, *words):
        directory = directory or self.place()
        for rank in range(ranks):
            self.write(directory, rank, ranks, *words)
        return directory

    def boxes(self, directory):
        return sorted(os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".box"))

    def command(self, *words, timeout=60, **extra):
        return self.sandbox.run([self.build.command, *words], self.environment(**extra), timeout=timeout)

    def diagnose(self, *words, statuses=(0, 1)):
        done = self.command("diagnose", "--json", *words)
        check(done.status in statuses, f"diagnose {words}: {done}")
        return json.loads(done.out), done

    def calls(self, *words):
        done = self.command("trace", "--json", *words)
        check_equal(done.status, 0, f"trace {words}: {done}: status")
        return [json.loads(line) for line in done.out.splitlines()]


def bench_case(function):
    """A case that gets a Bench instead of a Sandbox."""

    def run(sandbox):
        with Bench(sandbox) as bench:
            function(bench)

    run.__name__ = function.__name__
    return case(run)
