"""What read_python says of a process against what the program itself said (programs/nesting.py)."""
import glob
import json
import os
import subprocess
import time


class Differs(Exception):
    pass


def differs_if(condition, message):
    if condition:
        raise Differs(message)


# clock_nanosleep, nanosleep, and what time.sleep() was before 3.11: select, pselect6.
SLEEPS = {"x86_64": {"230", "35", "23", "270"}, "aarch64": {"115", "101", "72"}}


def sleeps(pid):
    """Its main thread is in time.sleep(), not on its way there or waiting for Python's lock."""
    with open(f"/proc/{pid}/syscall", encoding="utf-8") as file:
        return file.read().split()[0] in SLEEPS[os.uname().machine]


def only_child(pid):
    def parent_of(path):
        try:
            with open(path, encoding="utf-8") as file:
                return int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return 0
    pids = [int(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*/stat") if parent_of(path) == pid]
    differs_if(len(pids) != 1, f"children of process {pid}: {pids}")
    return pids[0]


class Program:
    """A Python program that writes a file when it is ready, and then sleeps in its main thread if `sleeping`; ended with
    all its children. `contained`: its command makes a pid namespace and is the parent of Python, which is process 1
    there; `pid` is its number here."""

    def __init__(self, python, script, folder, arguments=(), seconds=120, environment=None, sleeping=False,
                 contained=False):
        self.sleeping = sleeping
        self.contained = contained
        self.path = os.path.join(folder, f"ready.{time.monotonic_ns()}.json")
        self.popen = subprocess.Popen([*python, script, self.path, str(seconds), *arguments], env=environment,
                                      stdin=subprocess.DEVNULL, start_new_session=True)
        self.python = python

    def __enter__(self):
        deadline = time.monotonic() + 90
        while not os.path.exists(self.path):
            if self.popen.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise Differs(f"{' '.join(self.python)} did not get ready, status {self.popen.returncode}")
            time.sleep(0.02)
        with open(self.path, encoding="utf-8") as file:
            self.expected = json.load(file)
        self.pid = only_child(self.popen.pid) if self.contained else self.expected["pid"]
        while self.sleeping and not sleeps(self.pid):
            if time.monotonic() > deadline:
                self.__exit__()
                raise Differs(f"{' '.join(self.python)} is not in its sleep")
            time.sleep(0.002)
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.popen.pid, 9)
        except ProcessLookupError:
            pass
        self.popen.wait()


def dump(reader, pid):
    done = subprocess.run([reader, "dump", str(pid)], capture_output=True, text=True, timeout=60)
    differs_if(done.returncode != 0, f"read_python: status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def frames_of(thread):
    return [frame[:3] for frame in thread["frames"]]


def by_tid(stacks):
    threads = {}
    for thread in stacks["threads"]:
        threads.setdefault(thread["tid"], []).append(thread)
    return threads


def first_difference(got, expected):
    for depth, (a, b) in enumerate(zip(got, expected)):
        if a != b:
            return f"frame {depth}: read {a}, Python says {b}"
    return f"{len(got)} frames read, Python says {len(expected)}"


def sleeping_threads(stacks, expected):
    """Every thread of the file: number, function, file and line of every frame, and known to be exact."""
    differs_if(not stacks["present"] or stacks["trouble"], f"trouble: {stacks['trouble'] or 'no Python found'}")
    version = stacks["version"]
    differs_if(not expected["version"].startswith(version), f"version {version}, Python says {expected['version']}")
    threads = by_tid(stacks)
    for tid, wanted in expected["threads"].items():
        found = threads.get(int(tid))
        differs_if(not found, f"thread {wanted['name']} is missing")
        frames = frames_of(found[0])
        differs_if(frames != wanted["frames"], f"{wanted['name']}: {first_difference(frames, wanted['frames'])}")
        differs_if(not found[0]["exact"] or found[0]["trouble"], f"{wanted['name']} is not exact: {found[0]['trouble']}")
        # The outermost frame was called from C, whatever version: its thread's beginning.
        differs_if(not found[0]["frames"][-1][3], f"{wanted['name']}: its outermost frame is no entry")
    return len(expected["threads"]), sum(len(thread["frames"]) for thread in expected["threads"].values())


def entries(stacks, expected):
    """Frames that C code called: the sort's key, the callback of qsort, __del__, but no plain call from 3.11 on."""
    inlined = not stacks["version"].startswith(("3.9", "3.10"))
    for thread in stacks["threads"]:
        names = [(frame[0].rpartition(".")[2], frame[3]) for frame in thread["frames"]]
        for name, entry in names:
            if name == "compare":
                differs_if(not entry, "the callback of qsort is no entry")
            if name == "recursion":
                differs_if(entry == inlined, f"recursion in {stacks['version']}: entry is {entry}")
