#!/usr/bin/env python3
"""Jobs that go on while a rank of them, or a link, is really slowed: by its own program, a slow file system, limits on its
processor, a narrow network. Each is run several times; a table says how often the finding was right. Needs root, takes
long, and is no part of ctest:

    python3 tests/slow/real.py --build build/release --runs 20            # all; --list: names; names: only those
"""

import argparse
import collections
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import job as jobs  # noqa: E402
from harness import SKIP, Build, Failed, Sandbox, Skipped  # noqa: E402
from named_hosts import NamedHosts  # noqa: E402
from slow_file import slow_file  # noqa: E402

FAULTS = {}  # name -> function(sandbox) -> (expected, told)
# What a job needs at least: two looks of the leader, 5 s apart, and samples in between.
STEPS, STEP_US, LATE_US = 140, 40000, 60000
LIMITED = (2 * STEPS, STEP_US // 2, -1, 0, 12000, "cpu")  # all ranks need 12 of 32 ms of a processor
RECORDS = 2  # of a batch, as the program reads it


def fault(function):
    FAULTS[function.__name__] = function
    return function


def told(job, words=""):
    """The first finding: kind, ranks, whether it says the words, and whether the same was said while the job ran."""
    findings = job.diagnose()[1]
    if not findings:
        return ("nothing", [], True, not job.lines)
    first = findings[0]
    text = " ".join([first["summary"], *first["evidence"]])
    live = any(first["kind"] + " (" in line for line in job.lines)
    return (first["kind"], first["culprits"], words in text, live)


def stopped_now_and_then(pid):
    """As cpulimit does it, 8 of 28 ms."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.008)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)


def expect(kind, ranks):
    return (kind, ranks, True, True)


QUIET = ("nothing", [], True, True)


def pid_of_rank(name, rank, folder, seconds=20):
    """Of the youngest process of a program in this folder with `name`=`rank` in its environment."""
    wanted = f"{name}={rank}".encode()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pid in sorted((int(entry) for entry in os.listdir("/proc") if entry.isdigit()), reverse=True):
            with contextlib.suppress(OSError):
                if not os.path.realpath(f"/proc/{pid}/exe").startswith(folder + "/"):
                    continue
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    if wanted in environ.read().split(b"\0"):
                        return pid
        time.sleep(0.01)
    raise Failed(f"no process of {folder} has {wanted.decode()}")


@contextlib.contextmanager
def alongside(act):
    """Runs act() in a thread; its error counts."""
    errors = []

    def guarded():
        try:
            act()
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    yield
    thread.join()
    if errors:
        raise errors[0]


def limited_by_cpulimit(pid):
    """Stops and continues the process, so that it gets 15 % of a processor."""
    if not shutil.which("cpulimit"):
        raise Skipped("no cpulimit here (package cpulimit)")
    subprocess.run(["cpulimit", "-z", "-p", str(pid), "-l", "15"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def limited_by_group(pid):
    """A control group gets 15 % of a processor."""
    group = f"/sys/fs/cgroup/cpu/ncclwatch-test-{os.getpid()}"
    try:
        os.makedirs(group, exist_ok=True)
        for name, value in (("cpu.cfs_period_us", 50000), ("cpu.cfs_quota_us", 7500), ("cgroup.procs", pid)):
            with open(os.path.join(group, name), "w") as file:
                file.write(str(value))
    except OSError as error:
        raise Skipped(f"no control group can be made: {error}") from None
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.1)
    os.rmdir(group)


@fault
def mpi_sleeps(sandbox):
    job = jobs.mpi_steps(sandbox, STEPS, STEP_US, 1, 0, LATE_US, "sleep")
    return expect("straggler", [1]), told(job, "Meanwhile it sleeps")


@fault
def mpi_computes(sandbox):
    job = jobs.mpi_steps(sandbox, STEPS, STEP_US, 3, 0, LATE_US, "busy")
    return expect("straggler", [3]), told(job, "comput")


@fault
def mpi_reads_a_slow_file(sandbox):
    with slow_file(sandbox, LATE_US // RECORDS) as mount:
        job = jobs.mpi_steps(sandbox, STEPS, STEP_US, 2, 0, 0, "read", mount + "/data")
        return expect("starved_input", [2]), told(job, f"in read of {mount}/data (fuse.slow_file, mounted on {mount})")


@fault
def mpi_writes_a_slow_file(sandbox):
    with slow_file(sandbox, LATE_US // RECORDS) as mount:
        job = jobs.mpi_steps(sandbox, STEPS, STEP_US, 0, 0, LATE_US, "write", mount + "/data")
        return expect("blocking_checkpoint", [0]), told(job, f" of {mount}/data (fuse.slow_file, mounted on {mount})")


def torch_job(sandbox, *words):
    python = os.path.join(jobs.ROOT, "build", "venv", "bin", "python")
    env = {"PYTHONPATH": "/usr/lib/python3/dist-packages", "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": ""}
    probe = subprocess.run([python, "-c", "import torch; from mpi4py import MPI"], env={**os.environ, **env}, capture_output=True)
    if probe.returncode != 0:
        raise Skipped("no torch in build/venv, or no mpi4py (package python3-mpi4py)")
    argv = ["mpirun.openmpi", *jobs.LAUNCHERS["openmpi"], "-n", "3", python, os.path.join(HERE, "programs", "torch_steps.py")]
    return jobs.Job(sandbox, [*argv, *map(str, words)], env)


@fault
def torch_data_loader(sandbox):
    """Its worker process reads the slow file."""
    with slow_file(sandbox, LATE_US // RECORDS) as mount:
        job = torch_job(sandbox, 150, "input", 1, mount + "/data")
        return expect("starved_input", [1]), told(job, f"in read of {mount}/data (fuse.slow_file, mounted on {mount})")


@fault
def torch_save(sandbox):
    with slow_file(sandbox, LATE_US // RECORDS) as mount:
        job = torch_job(sandbox, 150, "checkpoint", 0, mount + "/data")
        return expect("blocking_checkpoint", [0]), told(job, "save (serialization.py")


@fault
def mpi_under_cpulimit(sandbox):
    with alongside(lambda: limited_by_cpulimit(pid_of_rank("OMPI_COMM_WORLD_RANK", 2, sandbox.path))):
        job = jobs.mpi_steps(sandbox, *LIMITED)
    return expect("straggler", [2]), told(job, "is stopped by a signal")


@fault
def mpi_under_a_limit_of_its_group(sandbox):
    with alongside(lambda: limited_by_group(pid_of_rank("OMPI_COMM_WORLD_RANK", 1, sandbox.path))):
        job = jobs.mpi_steps(sandbox, *LIMITED)
    return expect("straggler", [1]), told(job, "by the limit of its control group")


@fault
def mpi_healthy(sandbox):
    return QUIET, told(jobs.mpi_steps(sandbox, STEPS, STEP_US, 0, 100000, 0, "sleep"))


@fault
def mpi_all_read_a_slow_file(sandbox):
    with slow_file(sandbox, LATE_US // RECORDS) as mount:
        return QUIET, told(jobs.mpi_steps(sandbox, STEPS, STEP_US, -1, 0, 0, "read", mount + "/data"))


@fault
def mpich_sleeps(sandbox):
    job = jobs.mpi_steps(sandbox, STEPS, STEP_US, 1, 0, LATE_US, "sleep", flavour="mpich", ranks=2)
    return expect("straggler", [1]), told(job, "Meanwhile it sleeps")


@fault
def mpich_reads_a_slow_file(sandbox):
    with slow_file(sandbox, LATE_US // RECORDS) as mount:
        job = jobs.mpi_steps(sandbox, STEPS, STEP_US, 0, 0, 0, "read", mount + "/data", flavour="mpich", ranks=2)
        return expect("starved_input", [0]), told(job, f"in read of {mount}/data (fuse.slow_file, mounted on {mount})")


@fault
def mpich_healthy(sandbox):
    return QUIET, told(jobs.mpi_steps(sandbox, STEPS, STEP_US, 0, 100000, 0, "sleep", flavour="mpich", ranks=2))


@fault
def nccl_sleeps(sandbox):
    job = jobs.example(sandbox, "straggler", "--step", "0", "--steps", "420")
    return expect("straggler", [2]), told(job, "Meanwhile it sleeps")


@fault
def nccl_stopped_now_and_then(sandbox):
    examples = os.path.join(os.path.realpath(sandbox.build.root), "examples")
    with alongside(lambda: stopped_now_and_then(pid_of_rank("RANK", 1, examples))):
        job = jobs.example(sandbox, "straggler", "--step", "100000", "--steps", "420")
    return expect("straggler", [1]), told(job, "Meanwhile it is stopped by a signal")


@fault
def nccl_healthy(sandbox):
    return QUIET, told(jobs.example(sandbox, "straggler", "--step", "100000", "--steps", "420"))


class Hosts(NamedHosts):
    def job(self, program, *words):
        launcher = ["nsenter", "-t", str(self.holders[1].pid), "-n", "-u", "mpirun.openmpi", "--allow-run-as-root", "--mca",
                    "plm_rsh_agent", self.agent, "--mca", "mpi_yield_when_idle", "1", "--mca", "btl_tcp_if_include", "eth0",
                    "--mca", "oob_tcp_if_include", "eth0", "--host", "host0,host1,host2", "-n", "3"]
        return jobs.Job(self.sandbox, [*launcher, program, *map(str, words)], {"LD_LIBRARY_PATH": ""})


def pairs(sandbox, narrow):
    with Hosts(sandbox) as hosts:
        program = jobs.mpi_program(sandbox, "pairs")

        def narrow_later():
            pid_of_rank("OMPI_COMM_WORLD_RANK", 0, sandbox.path)
            time.sleep(4)
            hosts.narrow(1, "400mbit")

        with alongside(narrow_later) if narrow else contextlib.nullcontext():
            return hosts.job(program, 300, STEP_US, 1 << 18)


@fault
def mpi_narrow_link(sandbox):
    job = pairs(sandbox, narrow=True)
    kind, _, _, live = told(job)
    findings = job.diagnose()[1]
    hosts = findings[0].get("shared_by", {}).get("hosts") if findings else None
    return ("slow_communication", ["host1"], True, True), (kind, hosts, True, live)


@fault
def mpi_wide_links(sandbox):
    return QUIET, told(pairs(sandbox, narrow=False))


def once(name, options, build):
    with Sandbox(build, options.keep) as sandbox:
        try:
            expected, got = FAULTS[name](sandbox)
        except Failed as error:
            return f"the job failed: {str(error).splitlines()[0]}"
    return "" if got == expected else f"{got}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave what was recorded")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.list:
        print("\n".join(FAULTS))
        return 0
    if os.geteuid() != 0:
        print("this needs root: file systems, control groups and networks are made")
        return SKIP
    build = Build(options.build)
    all_right = True
    print(f"{'fault':34} {'right':>5} {'runs':>4}  else (kind, who, in words, said live too)", flush=True)
    for name in options.names or FAULTS:
        wrong = collections.Counter()
        try:
            for _ in range(options.runs):
                wrong[once(name, options, build)] += 1
        except Skipped as reason:
            print(f"{name:34} skipped: {reason}", flush=True)
            continue
        others = "; ".join(f"{count} x {text}" for text, count in wrong.items() if text)
        print(f"{name:34} {wrong['']:5} {options.runs:4}  {others}", flush=True)
        all_right &= wrong[""] >= 0.95 * options.runs
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
