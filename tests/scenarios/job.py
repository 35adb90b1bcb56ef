"""One job under watch: starts it, reads what it and ncclwatch say, and leaves nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import sanitizer  # noqa: E402

SOURCE = os.path.dirname(os.path.dirname(HERE))
LAUNCH = os.path.join(SOURCE, "examples", "launch.py")
MARK = "TEST_SCENARIO"  # in the environment of every process of a job: how its leftovers are found
PREFIX = re.compile(r"^\[ncclwatch[^\]]*\] ?", re.MULTILINE)


class Failure(Exception):
    """What a scenario must show and did not; the text is what a person needs to look into it."""


class Build:
    """Where `./dev build` left things."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.command = os.path.join(self.folder, "bin", "ncclwatch")
        self.library = os.path.join(self.folder, "lib", "libncclwatch.so")
        self.softgpu = os.path.join(self.folder, "softgpu")
        self.python = os.path.join(SOURCE, "build", "venv", "bin", "python")

    def example(self, name):
        return os.path.join(self.folder, "examples", name)

    def program(self, name):
        return os.path.join(self.folder, "scenarios", name)


def processes_marked(root):
    """Process ids whose environment carries this job's mark (zombies have none)."""
    mark = f"{MARK}={root}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass
    return found


def fault_ns(path):
    """CLOCK_REALTIME of the planted fault, which the program at fault writes there; None before."""
    try:
        with open(path) as file:
            return int(file.readline().split()[0])
    except (FileNotFoundError, IndexError):
        return None


class Job:
    """mode: "preload" (LD_PRELOAD), "run" (`ncclwatch run --`), or "bare" (nothing of ncclwatch)."""

    def __init__(self, build, command, mode="preload", environment=None, cores=None, directory=True, wrapper=(),
                 shm="/dev/shm"):
        self.build, self.mode = build, mode
        self.root = tempfile.mkdtemp(prefix="ncclwatch-scenario-", dir=shm)
        self.run_directory = os.path.join(self.root, "run")
        self.fault_file = os.path.join(self.root, "fault")
        self.culprit_file = os.path.join(self.root, "culprit")
        os.mkdir(os.path.join(self.root, "softgpu"))
        env = {name: value for name, value in os.environ.items() if not name.startswith("NCCLWATCH")}
        env.update({
            MARK: self.root, "LD_LIBRARY_PATH": build.softgpu, "SOFTGPU_NCCL_DIR": os.path.join(self.root, "softgpu"),
            "EXAMPLES_FAULT_FILE": self.fault_file, "EXAMPLES_CULPRIT_FILE": self.culprit_file})
        env.update(sanitizer.OPTIONS)
        if sanitizer.RUNTIME and mode != "bare":
            env["LD_PRELOAD"] = sanitizer.RUNTIME
        if directory:
            env["NCCLWATCH_DIR"] = self.run_directory
        if mode == "run":
            command = [build.command, "run", "--", *command]
        elif mode == "preload":
            env["LD_PRELOAD"] = " ".join(filter(None, [sanitizer.RUNTIME, build.library]))
        for name, value in (environment or {}).items():
            env[name] = value.replace("{root}", self.root)
        self.output_path = os.path.join(self.root, "output")
        self.started = time.monotonic()
        with open(self.output_path, "wb") as output:
            self.process = subprocess.Popen(
                [*wrapper, *command], env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
        self.seen = []  # (time it was written, document) of every diagnosis.json that stood there
        self._stamp = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        shutil.rmtree(self.root, ignore_errors=True)

    # ---- what it says --------------------------------------------------------------------------------------------

    def output(self):
        with open(self.output_path, errors="replace") as file:
            return file.read()

    def look(self):
        """Takes in diagnosis.json if it changed; returns the latest document or None."""
        path = os.path.join(self.run_directory, "diagnosis.json")
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._stamp:
                with open(path) as file:
                    self.seen.append((status.st_mtime_ns, json.load(file)))
                self._stamp = stamp
        except FileNotFoundError:
            pass
        return self.seen[-1][1] if self.seen else None

    def printed(self, sentence):
        """How often a sentence stands in the output, however it was wrapped and prefixed."""
        flat = " ".join(PREFIX.sub("", self.output()).split())
        return flat.count(" ".join(sentence.split()))

    def offline(self, *places):
        """`ncclwatch diagnose --json` of a directory or of box files: its exit status and document."""
        done = subprocess.run([self.build.command, "diagnose", "--json", *(places or [self.run_directory])],
                              capture_output=True, text=True, timeout=60)
        try:
            return done.returncode, json.loads(done.stdout)
        except json.JSONDecodeError:
            raise Failure(f"diagnose --json wrote no JSON, status {done.returncode}: {done.stdout}{done.stderr}") from None

    def fault_ns(self):
        return fault_ns(self.fault_file)

    def ranks(self):
        """pid of each living rank (the process that the launcher started, not its forked children)."""
        ranks = {}
        for pid in processes_marked(self.root):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    env = dict(item.split(b"=", 1) for item in file.read().split(b"\0") if b"=" in item)
                with open(f"/proc/{pid}/stat", "rb") as file:
                    parent = int(file.read().rsplit(b")", 1)[1].split()[1])
            except OSError:
                continue
            if b"RANK" in env:
                ranks.setdefault(int(env[b"RANK"]), []).append((pid, parent))
        return {rank: next((pid for pid, parent in pids if parent not in {p for p, _ in pids}), pids[0][0])
                for rank, pids in ranks.items()}

    def leader_pid(self):
        """Who holds the lease, from the run directory's small lease file; None before there is one."""
        try:
            with open(os.path.join(self.run_directory, "lease"), "rb") as file:
                file.seek(16)
                return int.from_bytes(file.read(4), sys.byteorder) or None
        except FileNotFoundError:
            return None

    # ---- waiting -------------------------------------------------------------------------------------------------

    def wait_until(self, condition, seconds, what):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.004)
        raise Failure(f"{what}: not within {seconds:.1f} s; the output ends\n{self.output()[-3000:]}")

    def wait(self, seconds):
        """The job's own end; its status as a shell shows it."""
        def ended():
            self.look()
            return self.process.poll() is not None
        self.wait_until(ended, seconds, "the job was to end")
        code = self.process.returncode
        return 128 - code if code < 0 else code

    # ---- the end -------------------------------------------------------------------------------------------------

    def end(self):
        """Kills what is left of the job, whoever its parent is by now, and reaps it."""
        for _ in range(100):
            left = processes_marked(self.root)
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left and self.process.poll() is not None:
                return
            time.sleep(0.01)
        raise Failure(f"processes {processes_marked(self.root)} of the job cannot be killed")

    def check_nothing_left(self, seconds=1.0):
        """After a job that ended by itself: no process, no shared memory of the communicators."""
        self.wait_until(lambda: not processes_marked(self.root), seconds,
                        f"processes {processes_marked(self.root)} were to be gone")
        left = os.listdir(os.path.join(self.root, "softgpu"))
        if left:
            raise Failure(f"shared memory left behind: {left}")


def launched(program, ranks, *options, launcher=()):
    """The command line of an example or scenario program under examples/launch.py."""
    return [sys.executable, LAUNCH, "-n", str(ranks), *launcher, "--", program, *map(str, options)]
