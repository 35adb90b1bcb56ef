"""Programs to be read, and the command that reads them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import sanitizer  # noqa: E402
from harness import Failed, Skipped, case, check, check_equal, clean_environment, run_main, until  # noqa: E402,F401


class Target:
    """A program that said "ready PID" and waits for the end of its standard input."""

    def __init__(self, argv, env=None):
        self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**clean_environment(), **(env or {})})
        line = self.popen.stdout.readline()
        check(line.startswith("ready "), f"{argv} said {line!r}")
        self.pid = int(line.split()[1])

    def settle(self):
        """Until a thread of it, or the child that it waits for without being interruptible, reads its input."""
        until(self.waits, f"{self.popen.args} waits for its end")
        return self

    def rest(self, awake):
        """Until all threads sleep but those of that name, which never do."""
        until(lambda: all(name == awake or state in "SD" for name, state in threads_of(self.pid)), "they sleep")

    def waits(self):
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            if reads_its_input(self.pid, tid) or state_of(self.pid, tid) == "D":
                return True
        return False

    def end(self):
        """What it says at its end."""
        self.popen.stdin.close()
        said = self.popen.stdout.read()
        self.popen.wait(20)
        return said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        self.popen.stdin.close()
        self.popen.stdout.close()


class Bench:
    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.build = sandbox.build
        self.command = self.build.command
        self.build.need(self.command)

    def start_at(self, path, *words):
        return Target([path, *words]).settle()

    def start(self, name, *words):
        program = self.build.program("stacks", name)
        self.build.need(program)
        return Target([program, *words]).settle()

    def python(self, source, *words):
        path = os.path.join(self.sandbox.fresh("python"), "train.py")
        with open(path, "w") as file:
            file.write(source)
        return Target([sys.executable, path, *words])

    def run(self, *words, prefix=(), timeout=60):
        env = {**clean_environment(), **sanitizer.OPTIONS}
        return subprocess.run([*prefix, self.command, "stacks", *map(str, words)], env=env, capture_output=True,
                              text=True, timeout=timeout, stdin=subprocess.DEVNULL)

    def read(self, *words, status=0, **options):
        """The processes, as JSON has them."""
        patience = () if "--limit" in words else ("--limit", 30)  # beside other tests
        done = self.run("--json", *patience, *words, **options)
        check_equal(done.returncode, status, f"stacks {words}: {done}: status")
        whole = json.loads(done.stdout)
        check_equal(whole["schema"], "ncclwatch.stacks/1", "schema")
        return whole["processes"]

    def one(self, pid, *words, **options):
        processes = self.read(pid, *words, **options)
        check_equal([process["pid"] for process in processes], [pid], "processes")
        return processes[0]


def functions(thread):
    return [frame["function"] for frame in thread["frames"]]


def short(name):
    """A function's own name: of gdb's and of ours alike."""
    return re.sub(r"\(anonymous namespace\)::", "", name or "").split("(")[0]


def thread_named(process, name):
    found = [thread for thread in process["threads"] if thread["name"] == name]
    check(found, f"no thread {name}: {[thread['name'] for thread in process['threads']]}")
    return found[0]


def state_of(pid, tid=None):
    try:
        with open(f"/proc/{pid}/task/{tid or pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def reads_its_input(pid, tid=None):
    """It is in read(0, ...)."""
    number = {"x86_64": "0", "aarch64": "63"}[os.uname().machine]
    try:
        with open(f"/proc/{pid}/task/{tid or pid}/syscall") as file:
            return file.read().split()[:2] == [number, "0x0"]
    except (FileNotFoundError, ProcessLookupError):
        return False


def threads_of(pid):
    """(name, state) of each."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/stat") as file:
                name, rest = file.read().rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.append((name.split("(", 1)[1], rest.split()[0]))
    return found


GDB_WALK = """
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            print("FRAME", thread.ptid[1], hex(frame.pc()), frame.name())
        frame = frame.older()
"""


def gdb_stacks(sandbox, pid):
    """{tid: [(pc, name)]} of all threads, innermost first."""
    if not shutil.which("gdb"):
        raise Skipped("no gdb")
    script = os.path.join(sandbox.fresh("gdb"), "walk.py")
    with open(script, "w") as file:
        file.write(GDB_WALK)
    done = subprocess.run(["gdb", "-nx", "-p", str(pid), "-batch", "-ex", "set backtrace past-main on", "-ex",
                           "set backtrace past-entry on", "-ex", f"source {script}"], env=clean_environment(),
                          capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL)
    stacks = {}
    for line in done.stdout.splitlines():
        words = line.split(None, 3)
        if words and words[0] == "FRAME":
            stacks.setdefault(int(words[1]), []).append((int(words[2], 16), words[3]))
    check(stacks, f"gdb read nothing: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return stacks


def bench_case(function):
    def run(sandbox):
        function(Bench(sandbox))

    run.__name__ = function.__name__
    return case(run)


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "it is stopped")
