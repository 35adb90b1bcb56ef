#!/usr/bin/env python3
"""Python stacks read from outside, against what Python says of itself: the system's python3, any python3.N on PATH and
those of NCCLWATCH_TEST_PYTHONS (paths, separated by colons). versions.py fetches the rest."""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from compare import Program, by_tid, differs_if, dump, entries, first_difference, frames_of, sleeping_threads  # noqa: E402
from harness import Failed, Skipped, case, check, check_equal, clean_environment, run_main  # noqa: E402
from pythons import each_python, pythons, version_of  # noqa: E402

PROGRAMS = os.path.join(HERE, "programs")
NESTING = os.path.join(PROGRAMS, "nesting.py")


def started(sandbox, python, *more, script=NESTING, **options):
    return Program(python, script, sandbox.path, more, environment=clean_environment(),
                   sleeping=script == NESTING, **options)


def reader_of(sandbox):
    reader = sandbox.build.program("python_stacks", "read_python")
    sandbox.build.need(reader)
    return reader


@case
def sleeping_threads_exactly(sandbox):
    def test(python):
        with started(sandbox, python) as program:
            stacks = dump(reader_of(sandbox), program.pid)
            sleeping_threads(stacks, program.expected)
            entries(stacks, program.expected)
            check_equal([thread for thread in stacks["threads"] if thread["gil"] == "held"], [], "who holds the lock")
    each_python(test)


@case
def a_stopped_process(sandbox):
    def test(python):
        with started(sandbox, python, "spin", "native") as program:
            os.kill(program.pid, signal.SIGSTOP)
            time.sleep(0.1)
            stacks = dump(reader_of(sandbox), program.pid)
            sleeping_threads(stacks, program.expected)
            check(all(thread["exact"] for thread in stacks["threads"]), "threads of a stopped process are not exact")
            threads = by_tid(stacks)
            check_equal(threads[program.expected["spin"]][0]["frames"][0][0], "spin", "the thread that turns")
            check_equal(threads[program.expected["native"]][0]["frames"][0][0], "native_without_lock", "the other one")
    each_python(test)


@case
def threads_that_run(sandbox):
    """One turns in Python code, one in C without the lock: their functions, while the others stay exact."""
    def test(python):
        with started(sandbox, python, "spin", "native") as program:
            outermost = None
            for _ in range(8):
                stacks = dump(reader_of(sandbox), program.pid)
                sleeping_threads(stacks, program.expected)
                threads = by_tid(stacks)
                for name, function in (("spin", "spin"), ("native", "native_without_lock")):
                    frames = frames_of(threads[program.expected[name]][0])
                    check(frames and frames[0][0] == function, f"the thread in {function}: {frames[:2]}")
                    check_equal([frame[0].rpartition(".")[2] for frame in frames[1:]],
                                ["run", "_bootstrap_inner", "_bootstrap"], "who called it")
                    check(outermost in (None, frames[-1]), f"its outermost frame changes: {frames[-1]}")
                    outermost = frames[-1]
    each_python(test)


@case
def who_holds_the_lock(sandbox):
    def test(python):
        with started(sandbox, python, "hold") as program:
            time.sleep(0.3)
            stacks = dump(reader_of(sandbox), program.pid)
            sleeping_threads(stacks, program.expected)
            check_equal([thread["tid"] for thread in stacks["threads"] if thread["gil"] == "held"], [program.pid],
                        "who holds the lock")
    each_python(test)


@case
def numbers_among_variables(sandbox):
    """Up to 3.10 a variable that an inner function uses lies elsewhere and is left out."""
    def test(python):
        with subprocess.Popen([*python, os.path.join(PROGRAMS, "variables.py")], stdout=subprocess.PIPE, text=True,
                              env=clean_environment()) as program:
            try:
                wanted = json.loads(program.stdout.readline())
                if version_of(python)[1] <= 10:
                    del wanted[0][1]["captured"]
                read = subprocess.run([reader_of(sandbox), "variables", str(program.pid)], capture_output=True, text=True,
                                      check=True)
                check_equal(json.loads(read.stdout), {str(program.pid): wanted}, "the numbers")
            finally:
                program.kill()
    each_python(test)


@case
def a_forked_child(sandbox):
    def test(python):
        with started(sandbox, python, "fork") as program:
            child = program.expected["child"]
            time.sleep(0.3)
            stacks = dump(reader_of(sandbox), child)
            check_equal([thread["tid"] for thread in stacks["threads"]], [child], "its threads")
            frames = frames_of(stacks["threads"][0])
            check_equal([frame[0] for frame in frames], ["wait_for_parent", "main", "<module>"], "its frames")
            with open(NESTING, encoding="utf-8") as file:
                check("asleep in" in file.read().splitlines()[frames[0][2] - 1], f"its line: {frames[0]}")
    each_python(test)


@case
def sub_interpreters(sandbox):
    def test(python):
        with started(sandbox, python, script=os.path.join(PROGRAMS, "sub_interpreter.py")) as program:
            if "none" in program.expected:
                return
            time.sleep(0.3)
            stacks = dump(reader_of(sandbox), program.pid)
            threads = by_tid(stacks)[program.expected["tid"]]
            check_equal(sorted(thread["interpreter"] > 0 for thread in threads), [False, True], "interpreters")
            inner, outer = threads  # the innermost comes first
            check_equal([frame[::2] for frame in frames_of(inner)], program.expected["inner"], "in the sub-interpreter")
            check("called_here" in [frame[0] for frame in frames_of(outer)], f"in the main one: {frames_of(outer)}")
    each_python(test)


@case
def deeper_than_is_kept(sandbox):
    def test(python):
        with started(sandbox, python, script=os.path.join(PROGRAMS, "deep.py")) as program:
            stacks = dump(reader_of(sandbox), program.pid)
            thread = by_tid(stacks)[program.pid][0]
            check(thread["cut"] and thread["exact"], f"cut {thread['cut']}, exact {thread['exact']}")
            check_equal(len(thread["frames"]), 1024, "frames kept")
            check_equal({tuple(frame) for frame in frames_of(thread)[:-1]},
                        {tuple(frame) for frame in program.expected["frames"]}, "the frames")
    each_python(test)


@case
def a_program_that_was_replaced(sandbox):
    """Its file is gone, as after an upgrade: what the process has of it in memory is enough."""
    def test(python):
        real = os.path.realpath(python[0])
        with open(real, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return  # a script that starts it
        copy = os.path.join(sandbox.fresh("gone"), os.path.basename(real))
        shutil.copy(real, copy)
        home = subprocess.run([*python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True,
                              env=clean_environment()).stdout.strip()
        env = {**clean_environment(), "PYTHONHOME": home}
        with Program([copy], NESTING, sandbox.path, environment=env, sleeping=True) as program:
            os.unlink(copy)
            sleeping_threads(dump(reader_of(sandbox), program.pid), program.expected)
    each_python(test)


@case
def another_pid_namespace(sandbox):
    """A container: the process knows its threads by other numbers than we do."""
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0 or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        raise Skipped("no new pid namespace without privilege")

    def test(python):
        with started(sandbox, [*unshare, *python], contained=True) as program:
            check_equal(program.expected["pid"], 1, "its number there")
            stacks = dump(reader_of(sandbox), program.pid)
            seen = {}  # as the process knows its threads -> as we see them
            for task in os.listdir(f"/proc/{program.pid}/task"):
                with open(f"/proc/{program.pid}/task/{task}/status", encoding="utf-8") as file:
                    seen[next(line for line in file if line.startswith("NSpid:")).split()[-1]] = task
            expected = {**program.expected,
                        "threads": {seen[tid]: thread for tid, thread in program.expected["threads"].items()}}
            sleeping_threads(stacks, expected)
    each_python(test)


@case
def no_python(sandbox):
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        check(not dump(reader_of(sandbox), sleeper.pid)["present"], "a Python in sleep")
    finally:
        sleeper.kill()
        sleeper.wait()
    stacks = dump(reader_of(sandbox), sleeper.pid)
    check(not stacks["present"] and not stacks["threads"], "a Python in a process that is gone")


@case
def memory_that_cannot_be_read(sandbox):
    """Not dumpable, and we are somebody else: it says so, as there is a Python."""
    if os.geteuid() != 0:
        raise Skipped("needs another user")

    def test(python):
        with started(sandbox, python) as program:
            libc = ctypes.CDLL(None)
            os.chmod(sandbox.path, 0o755)
            done = subprocess.run([reader_of(sandbox), "dump", str(program.pid)], capture_output=True, text=True,
                                  preexec_fn=lambda: (libc.setgroups(0, None), os.setgid(65534), os.setuid(65534)))
            check_equal(done.returncode, 0, "status")
            check('"threads": []' in done.stdout, done.stdout[:500])
    each_python(test)


@case
def damaged_memory(sandbox):
    """Bits, numbers and pointers of what is read go wrong: it ends, and the process does not notice."""
    def test(python):
        with started(sandbox, python) as program:
            done = subprocess.run([reader_of(sandbox), "corrupt", str(program.pid), "150", "1"], capture_output=True,
                                  text=True)
            check_equal(done.returncode, 0, done.stdout + done.stderr)
            check(json.loads(done.stdout)["frames"] > 0, done.stdout)
            sleeping_threads(dump(reader_of(sandbox), program.pid), program.expected)
    each_python(test)


@case
def line_tables(sandbox):
    """Every instruction of some hundred modules of the standard library, against Python's own decoder."""
    def test(python):
        tables = subprocess.Popen([*python, os.path.join(PROGRAMS, "line_tables.py"), "300"], env=clean_environment(),
                                  stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        minor = version_of(python)[1]
        done = subprocess.run([reader_of(sandbox), "lines", str(minor)], stdin=tables.stdout, capture_output=True,
                              text=True)
        tables.stdout.close()
        check_equal(tables.wait(), 0, "status of line_tables.py")
        check_equal(done.returncode, 0, done.stdout)
    each_python(test)


@case
def layouts_of_the_headers(sandbox):
    """The table of offsets against the headers of the Pythons that have any here."""
    folders = set()
    for python in pythons().values():
        done = subprocess.run([*python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                              capture_output=True, text=True, env=clean_environment())
        folder = done.stdout.strip()
        if os.path.exists(os.path.join(folder, "Python.h")) and os.path.isdir(os.path.join(folder, "internal")):
            folders.add(folder)
    if not folders or not shutil.which("gcc") or not shutil.which("objcopy"):
        raise Skipped("no headers of Python (python3-dev) or no gcc")
    done = subprocess.run([sys.executable, os.path.join(HERE, "layouts.py"), "--check", *sorted(folders)],
                          capture_output=True, text=True)
    check_equal(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    run_main("python_stacks")
