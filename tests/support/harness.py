"""Runs programs with and without the library preloaded, each under a deadline, and reads what was recorded.

Standard library only. A test is a function registered with @case; see main() for the command line that ctest uses.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import sanitizer

SKIP = 77


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def until(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise Failed(f"in {seconds} s: {what}")


def check(condition, message):
    if not condition:
        raise Failed(message)


def check_equal(actual, expected, what):
    if actual != expected:
        raise Failed(f"{what}:\n  expected {expected!r}\n  actual   {actual!r}")


class Build:
    """Where a build folder keeps what the tests use."""

    def __init__(self, root):
        self.root = os.path.abspath(root)
        self.library = os.path.join(self.root, "lib", "libncclwatch.so")
        self.command = os.path.join(self.root, "bin", "ncclwatch")
        self.softgpu = os.path.join(self.root, "softgpu")
        self.nccl = os.path.join(self.softgpu, "libnccl.so.2")
        self.sanitizer = sanitizer.RUNTIME

    def program(self, level, name):
        return os.path.join(self.root, "tests", level, name)

    def need(self, *paths):
        for path in paths:
            check(os.path.exists(path), f"{path} is not built")


def clean_environment():
    """The environment without anything that would make this process a rank, or a watched one."""
    drop = ("NCCLWATCH", "SOFTGPU", "NCCL_", "LD_PRELOAD", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC",
            "SLURM_", "OMPI_", "PMI_", "ROLE_", "GROUP_")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


class Done:
    def __init__(self, status, out, err, pid):
        self.status, self.out, self.err, self.pid = status, out, err, pid

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Process:
    """One child in a session of its own, so that a deadline ends it with all its descendants, by id."""

    def __init__(self, argv, env, cwd=None, preexec=None, stdin=subprocess.DEVNULL):
        self.argv = argv
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.popen = subprocess.Popen(argv, env=env, cwd=cwd, stdin=stdin, stdout=self.out, stderr=self.err,
                                      start_new_session=True, preexec_fn=preexec)

    def read(self, stream):
        stream.seek(0)
        return stream.read().decode(errors="replace")

    def kill(self):
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()

    def wait(self, deadline):
        try:
            status = self.popen.wait(max(0.05, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            where = stacks(self.popen.pid)
            self.kill()
            raise Failed(f"hangs: {' '.join(self.argv)}\n--- stdout\n{self.read(self.out)}\n--- stderr\n"
                         f"{self.read(self.err)}\n--- stacks\n{where}")
        done = Done(status, self.read(self.out), self.read(self.err), self.popen.pid)
        for word in ("runtime error:", "AddressSanitizer", "ThreadSanitizer", "LeakSanitizer"):
            check(word not in done.err, f"a sanitizer has something to say of {' '.join(self.argv)}: {done}")
        # Descendants that outlive the program (a daemonised child of a test) must not outlive the test.
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        return done


def stacks(pid):
    if not shutil.which("gdb"):
        return "(no gdb)"
    try:
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 14"], env=clean_environment(),
                              capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
        lines = [line[:200] for line in done.stdout.splitlines() if line.startswith(("Thread", "#"))]
        return "\n".join(line for line in lines if "futex_" not in line and "std::" not in line)
    except (OSError, subprocess.SubprocessError) as error:
        return f"({error})"


class Sandbox:
    """A temporary folder and the ways to run programs in it; nothing of it survives."""

    def __init__(self, build, keep=False):
        self.build = build
        self.keep = keep
        self.path = tempfile.mkdtemp(prefix="ncclwatch-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.counter = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.keep:
            print("kept:", self.path)
        else:
            shutil.rmtree(self.path, ignore_errors=True)

    def fresh(self, name):
        self.counter += 1
        path = os.path.join(self.path, f"{name}.{self.counter}")
        os.makedirs(path)
        return path

    def environment(self, preload=True, run_directory=None, extra=None, before=(), after=()):
        env = clean_environment()
        env["LD_LIBRARY_PATH"] = self.build.softgpu
        objects = list(before) + ([self.build.library] if preload else []) + list(after)
        # Without the library too: libnccl needs it, and is opened when it is too late to be first.
        if self.build.sanitizer:
            objects.insert(0, self.build.sanitizer)
        if objects:
            env["LD_PRELOAD"] = ":".join(objects)
        env.update(sanitizer.OPTIONS)
        if run_directory:
            env["NCCLWATCH_DIR"] = run_directory
        env.update(extra or {})
        return env

    def run(self, argv, env=None, timeout=30, **options):
        process = Process(argv, env if env is not None else self.environment(), **options)
        return process.wait(time.monotonic() + timeout)

    def job(self, argv, ranks=1, preload=True, timeout=45, extra=None, before=(), after=(), run_directory=None,
            preexec=None, port=None):
        """Runs `ranks` processes as a launcher would. Returns a Job: one Done a rank, and the run directory."""
        scratch = self.fresh("job")
        directory = run_directory if run_directory is not None else os.path.join(scratch, "run")
        processes = []
        try:
            for rank in range(ranks):
                env = self.environment(preload, directory, None, before, after)
                env.update({"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                            "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                            "MASTER_PORT": str(port or 20000 + os.getpid() % 20000 + self.counter),
                            "HOST_ID_DIR": scratch})
                env.update(extra or {})
                env = {k: v for k, v in env.items() if v is not None}
                command = [a.replace("{rank}", str(rank)) for a in argv]
                processes.append(Process(command, env, cwd=scratch, preexec=preexec))
            deadline = time.monotonic() + timeout
            done = [process.wait(deadline) for process in processes]
        finally:
            for process in processes:
                if process.popen.poll() is None:
                    process.kill()
        return Job(self, done, directory, scratch)


class Job:
    def __init__(self, sandbox, done, directory, scratch):
        self.sandbox, self.done, self.directory, self.scratch = sandbox, done, directory, scratch

    def statuses(self):
        return [d.status for d in self.done]

    def outputs(self):
        return [d.out for d in self.done]

    def errors(self):
        return [d.err for d in self.done]

    def boxes(self):
        found = []
        for folder, _, names in os.walk(self.directory):
            found += [os.path.join(folder, name) for name in names if name.endswith(".box")]
        return sorted(found)

    def calls(self):
        return trace(self.sandbox, self.directory)

    def diagnosis(self):
        return diagnosis(self.sandbox, self.directory)


def trace(sandbox, directory):
    """The recorded calls of a run directory, through the command: by process, then in the order of entry."""
    done = sandbox.run([sandbox.build.command, "trace", "--json", directory], sandbox.environment(preload=False),
                       timeout=120)
    check(done.status == 0, f"ncclwatch trace --json {directory}: {done}")
    calls = [json.loads(line) for line in done.out.splitlines()]
    return sorted(calls, key=lambda call: (call["pid"], call["slot"]))


def diagnosis(sandbox, directory):
    done = sandbox.run([sandbox.build.command, "diagnose", "--json", directory], sandbox.environment(preload=False))
    check(done.status in (0, 1), f"ncclwatch diagnose --json {directory}: {done}")
    return json.loads(done.out)


CASES = {}
SOAKED = set()


def case(function):
    CASES[function.__name__] = function
    return function


def soak_case(function):
    """One that takes long, or whose outcome depends on the machine's speed: `./dev soak` runs it, the quick suite does not."""
    SOAKED.add(function.__name__)
    return case(function)


def main(level):
    parser = argparse.ArgumentParser(description=f"{level} tests; each name is one ctest entry {level}.NAME")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--build", help="build folder")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    parser.add_argument("names", nargs="*", help="tests to run, default all")
    options = parser.parse_args()
    if options.list:
        print("\n".join(name + (" soak" if name in SOAKED else "") for name in CASES))
        return 0
    if not options.build:
        parser.error("--build is needed")
    build = Build(options.build)
    worst = 0
    for name in options.names or CASES:
        started = time.monotonic()
        try:
            with Sandbox(build, options.keep) as sandbox:
                CASES[name](sandbox)
            word = "ok"
        except Skipped as reason:
            word, worst = f"skipped: {reason}", worst or SKIP
        except Failed as failure:
            word, worst = f"FAILED: {failure}", 1
        except Exception:  # a bug of the test: its name and place
            word, worst = f"FAILED: {traceback.format_exc()}", 1
        print(f"{level}.{name} ({time.monotonic() - started:.1f} s) {word}", flush=True)
    return worst if len(options.names) == 1 or worst != SKIP else 0


def run_main(level):
    sys.exit(main(level))
