#!/usr/bin/env python3
"""`ncclwatch attach` on jobs of real MPI and real torch that run without ncclwatch."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, run_main, soak_case, until  # noqa: E402
from named_hosts import NamedHosts  # noqa: E402

PROGRAMS = os.path.join(HERE, "programs")
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"],
             "mpich": ["mpirun.mpich", "-n", "4"]}


def line_of(program, mark):
    with open(os.path.join(PROGRAMS, program)) as file:
        return next(number for number, text in enumerate(file, 1) if text.rstrip().endswith(mark))


@contextlib.contextmanager
def running(sandbox, argv, stderr=None, **extra):
    """A job in a session of its own; `pids` are its ranks, by their environment."""
    environment = sandbox.environment(preload=False, extra={"OMP_NUM_THREADS": "1", **extra})
    job = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True,
                           start_new_session=True, cwd=sandbox.fresh("job"))
    try:
        yield job
    finally:
        for pid in family(job.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.wait()


def family(pid):
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children") as file:
                    found += [int(word) for word in file.read().split()]
    return found


def ranks_of(job, variable):
    ranks = {}
    for pid in family(job.pid):
        with contextlib.suppress(OSError, StopIteration):
            with open(f"/proc/{pid}/environ") as file:
                words = file.read().split("\0")
            rank = next(word.partition("=")[2] for word in words if word.startswith(variable + "="))
            ranks.setdefault(int(rank), pid)
    return ranks


def attach(sandbox, *words):
    return sandbox.run([sandbox.build.command, "attach", *map(str, words)], sandbox.environment(preload=False), timeout=60)


def mpi_job(sandbox, mpi, how):
    compiler, launcher = shutil.which(f"mpicc.{mpi}"), shutil.which(LAUNCHERS[mpi][0])
    if not compiler or not launcher:
        raise Skipped(f"no {mpi}")
    program = os.path.join(sandbox.fresh("program"), "steps")
    subprocess.run([compiler, "-O2", "-g", os.path.join(PROGRAMS, "steps.c"), "-o", program], check=True)
    return running(sandbox, [*LAUNCHERS[mpi], program, how])


VARIABLES = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK", "torch": "RANK"}


def verdict(sandbox, pid, wanted):
    """Of the first roll call that finds something, if something is to be found: a rank may still be on its way."""
    said = []

    def look():
        done = attach(sandbox, "--json", pid)
        if done.status == 3:
            return False  # it is still starting
        said[:] = [json.loads(done.out), done.status]
        check_equal(done.status, 1 if said[0]["findings"] else 0, f"{done}: status")
        return not wanted or said[0]["findings"]
    until(look, "something was to be found", 120)
    return said[0]


def check_found(said, kinds, culprits, place, moves=False):
    check(said["findings"], f"nothing found: {said['roll_call']}")
    first = said["findings"][0]
    check(first["kind"] in kinds and first["culprits"] == culprits, f"{first['kind']} of {first['culprits']}: {said}")
    check(first["certainty"] in ("suspected", "likely"), f"{first['certainty']}: never more certain")
    row = next(row for row in said["roll_call"] if culprits[0] in row["ranks"])
    check(place in (row["python_site"] or row["site"]), f"{place} in {row}")
    check(moves or not row["moving"], f"{row}")


def one_mpi_job(sandbox, mpi, how, kinds=None, culprits=None, mark=None):
    with mpi_job(sandbox, mpi, how) as job:
        check_equal(job.stdout.readline(), "step 50\n", "the fault")
        said = verdict(sandbox, ranks_of(job, VARIABLES[mpi])[0], kinds)
        check_equal(sorted(rank for row in said["roll_call"] for rank in row["ranks"]), [0, 1, 2, 3], "all are called")
        if kinds is None:
            check_equal(said["findings"], [], "healthy")
            check(any(row["moving"] for row in said["roll_call"]), f"it moves: {said['roll_call']}")
        elif mark is None:
            check_found(said, kinds, culprits, "", moves=True)  # in its loop
        else:
            check_found(said, kinds, culprits, f"(steps.c:{line_of('steps.c', mark)})")
            for row in said["roll_call"]:
                check_equal((row["step"], row["group"]), (50, "MPI_COMM_WORLD" if row["in"] else None), f"step and communicator of {row}")


def mpi_cases():
    cases = {"healthy": (), "exchange": (), "slow": (), "sleeps": (["missing_participant"], [2], "// SLEEPS"),
             "computes": (["missing_participant"], [2], None), "another": (["missing_participant"], [2], "// ANOTHER"),
             "ring": (["deadlock"], [0, 1, 2, 3], "// RING")}
    for mpi in LAUNCHERS:
        for how, wanted in cases.items():
            def one(sandbox, mpi=mpi, how=how, wanted=wanted):
                one_mpi_job(sandbox, mpi, how, *wanted)
            one.__name__ = f"{mpi}_{how}"
            (case if mpi == "openmpi" or how in ("healthy", "ring") else soak_case)(one)


mpi_cases()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def python_with_torch(sandbox):
    python = os.path.join(sandbox.build.root, "..", "venv", "bin", "python3")
    if not os.access(python, os.X_OK):
        raise Skipped("no torch")
    return python


def one_torch_job(sandbox, how, culprits=None, mark=None, program="train.py", step=20):
    argv = [python_with_torch(sandbox), "-m", "torch.distributed.run", "--nproc-per-node", "4", "--master-addr", "127.0.0.1", "--master-port",
            str(free_port()), os.path.join(PROGRAMS, program), how]
    with running(sandbox, argv) as job:
        until(lambda: len(ranks_of(job, "RANK")) == 4, "four ranks", 60)
        pids = ranks_of(job, "RANK")
        if not mark:
            check_equal(job.stdout.readline(), "step 20\n", "it trains")
        said = verdict(sandbox, pids[0], mark)
        check_equal(sorted(rank for row in said["roll_call"] for rank in row["ranks"]), [0, 1, 2, 3],
                    "all are called, and no data loader")
        if mark:
            check_found(said, ["missing_participant"], culprits, f"({program}:{line_of(program, mark)})")
            row = next(row for row in said["roll_call"] if culprits[0] in row["ranks"])
            check_equal((row["step"], row["loop"]), (step, f"step {step}"), "the step")
        else:
            check_equal(said["findings"], [], "healthy")


def torch_cases():
    for how, wanted in {"healthy": (), "loader": ([2], "# LOADER"), "handler": ([3], "# HANDLER"),
                        "skips": ([1], "dist.barrier()"), "groups": ([1], "# GROUPS"),
                        "checkpoint": ([0], "# CHECKPOINT")}.items():
        def one(sandbox, how=how, wanted=wanted):
            one_torch_job(sandbox, how, *wanted)
        one.__name__ = f"torch_{how}"
        (case if how in ("healthy", "loader") else soak_case)(one)


torch_cases()


def more_torch_cases():
    for how in ("pipeline", "fsdp"):
        for fault in ("loader", "handler", "checkpoint", "skipped"):
            mark = "# EXTRA" if (how, fault) == ("fsdp", "skipped") else f"# {fault.upper()}"

            def one(sandbox, how=f"{how}-{fault}", mark=mark):
                one_torch_job(sandbox, how, [1], mark, "pipeline.py", 6)
            one.__name__ = f"torch_{how}_{fault}"
            soak_case(one)


more_torch_cases()


def check_workers(sandbox, how):
    argv = [python_with_torch(sandbox), os.path.join(PROGRAMS, "workers.py"), how, str(free_port())]
    with running(sandbox, argv) as job:
        engine = int(job.stdout.readline())

        def workers():
            return [pid for pid in family(engine)[1:] if b"::" in open(f"/proc/{pid}/cmdline", "rb").read()]
        until(lambda: len(workers()) == 4, "four workers", 90)
        said = {}

        def look():
            done = attach(sandbox, "--json", workers()[0])
            said.update(json.loads(done.out) if done.out else {"findings": []})
            return said["findings"] and said["findings"][0]["victims"] == [0, 2, 3]
        until(look, "something was to be found", 120)
        check_found(said, ["missing_participant"], [1], f"(workers.py:{line_of('workers.py', '# ELSEWHERE')})")
        check_equal(next(row["step"] for row in said["roll_call"] if row["ranks"] == [1]), 7, "the step")
        check("numbered by start time" not in str(said), "their ranks are known")


@soak_case
def workers_with_titles(sandbox):
    check_workers(sandbox, "titles")


@soak_case
def workers_without_ranks(sandbox):
    check_workers(sandbox, "actors")


@contextlib.contextmanager
def many(sandbox, count, elsewhere, stderr=None, others="waits"):
    """Processes of 50 threads that sleep, in order; they need no MPI."""
    compiler = shutil.which("cc")
    if not compiler:
        raise Skipped("no C compiler")
    program = os.path.join(sandbox.fresh("program"), "many")
    subprocess.run([compiler, "-O1", "-g", "-pthread", os.path.join(PROGRAMS, "many.c"), "-o", program], check=True)
    with contextlib.ExitStack() as stack:
        jobs = []
        for rank in range(count):
            jobs.append(stack.enter_context(running(sandbox, [program, "elsewhere" if rank == elsewhere else others], stderr)))
            check_equal(jobs[-1].stdout.readline(), "ready\n", "its threads")
        yield jobs


@soak_case
def many_processes(sandbox):
    """64 with 50 threads each: below 10 s, and no call of theirs is ended by it."""
    with many(sandbox, 64, 17) as jobs:
        began, before = time.monotonic(), os.times()
        done = attach(sandbox, "--json", *[job.pid for job in jobs])
        took, used = time.monotonic() - began, sum(os.times()[2:4]) - sum(before[2:4])
        first = json.loads(done.out)["findings"][0]
        check_equal((first["kind"], first["culprits"]), ("missing_participant", [17]), "the verdict")
        for job in jobs:
            job.kill()
        check_equal([line for job in jobs for line in job.stdout], [], "calls that were ended")
        print(f"{took:.1f} s, {used:.1f} s of a processor")
        check(took < 10, f"it took {took:.1f} s")


@soak_case
def many_that_spin(sandbox):
    """The main threads of 64 processes never sleep: each is stopped for less than 5 ms."""
    folder = sandbox.fresh("stops")
    clock, times = os.path.join(folder, "stop_times.so"), os.path.join(folder, "times")
    with many(sandbox, 64, 17, others="spins") as jobs:
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", os.path.join(PROGRAMS, "stop_times.c"), "-o", clock], check=True)
        environment = sandbox.environment(preload=False, extra={"LD_PRELOAD": clock, "STOP_TIMES": times})
        began = time.monotonic()
        sandbox.run([sandbox.build.command, "attach", "--json", *[str(job.pid) for job in jobs]], environment, timeout=90)
        took = time.monotonic() - began
    with open(times) as file:
        stops, longest_us, longest_asked_us = map(int, file.read().split())
    print(f"{took:.1f} s, {stops} stops, at most {longest_us} us; {longest_asked_us} us with the wait for a processor")
    check(stops > 0 and longest_us < 5000, f"{stops} stops, {longest_us} us")


@case
def under_seccomp(sandbox):
    """A container's filter forbids ptrace and process_vm_readv: threads that sleep are read all the same."""
    forbidden = sandbox.build.program("stacks", "forbidden")
    sandbox.build.need(forbidden)
    with many(sandbox, 3, 1) as jobs:
        done = sandbox.run([forbidden, "ptrace,process_vm_readv", sandbox.build.command, "attach", "--json",
                            *[str(job.pid) for job in jobs]], sandbox.environment(preload=False), timeout=60)
        first = json.loads(done.out)["findings"][0]
        check_equal((first["kind"], first["culprits"]), ("missing_participant", [1]), "the verdict")


@case
def a_stopped_rank(sandbox):
    with mpi_job(sandbox, "openmpi", "healthy") as job:
        check_equal(job.stdout.readline(), "step 50\n", "it goes on")
        pid = ranks_of(job, "OMPI_COMM_WORLD_RANK")[3]
        os.kill(pid, signal.SIGSTOP)
        said = verdict(sandbox, pid, True)
        check_found(said, ["frozen_process"], [3], "")
        check(f"kill -CONT {pid}" in said["findings"][0]["next_steps"][0], f"{said['findings'][0]['next_steps']}")


@case
def text_and_report(sandbox):
    with mpi_job(sandbox, "openmpi", "sleeps") as job:
        check_equal(job.stdout.readline(), "step 50\n", "the fault")
        pids = ranks_of(job, "OMPI_COMM_WORLD_RANK")
        verdict(sandbox, pids[0], True)
        folder = sandbox.fresh("report")
        page, bundle = os.path.join(folder, "report.html"), os.path.join(folder, "attach.tar.zst")
        done = attach(sandbox, pids[0], "--report", page, "--bundle", bundle)
        line = line_of("steps.c", "// SLEEPS")
        for words in ("missing_participant (likely): rank 2", f"(steps.c:{line})", "MPI_Allreduce", "next",
                      f"`ncclwatch stacks --each {pids[2]}`", "without black boxes"):
            check(words in done.out, f"no `{words}` in {done.out}")
        check("run directory" not in done.out, f"there is none: {done.out}")
        with open(page) as file:
            text = file.read()
        check(text.lower().startswith("<!doctype html>") and "missing_participant" in text and "clock_nanosleep" in text, text[:500])
        listed = subprocess.run(["tar", "--zstd", "-tf", bundle], capture_output=True, text=True, check=True).stdout
        check_equal(listed.split(), [f"attach/{name}" for name in ("diagnosis.json", "diagnosis.txt", "stacks.txt", "report.html")],
                    "the bundle")
        attach(sandbox, pids[0], "--bundle", bundle, "--redact")
        hidden = subprocess.run(["tar", "--zstd", "-xOf", bundle], capture_output=True, text=True, check=True).stdout
        check(f":{line})" in hidden and "clock_nanosleep" in hidden, f"what is to be seen: {hidden}")
        for secret in (os.uname().nodename, sandbox.path):
            check(secret not in hidden, f"`{secret}` in {hidden}")


@case
def logs_of_the_ranks(sandbox):
    """Their files are found through /proc, and the first cause there is part of the verdict."""
    log = os.path.join(sandbox.fresh("logs"), "train.log")
    with open(log, "w") as file:
        file.write('step 1 loss 2.0\n[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 3, in <module>\n'
                   "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
        file.flush()
        with many(sandbox, 3, 1, stderr=file) as jobs:
            said = json.loads(attach(sandbox, "--json", *[job.pid for job in jobs]).out)
    check_equal(said["logs"]["files"], 1, "files")
    check(said["logs"]["cause"].startswith("out_of_memory: ") and said["logs"]["cause"].endswith("(" + log + ":4)"), f"{said['logs']}")
    check(said["logs"]["cause"] in " ".join(said["findings"][0]["evidence"]), f"{said['findings'][0]['evidence']}")


@case
def which_job(sandbox):
    """Without a PID only one job may run; a process that is no rank is looked at by itself."""
    done = attach(sandbox, 2 ** 22 - 1)
    check_equal((done.status, done.out), (3, ""), f"{done}")
    with mpi_job(sandbox, "openmpi", "slow") as one, mpi_job(sandbox, "openmpi", "slow") as other:
        for job in (one, other):
            check_equal(job.stdout.readline(), "step 50\n", "it goes on")
        first, second = (ranks_of(job, "OMPI_COMM_WORLD_RANK") for job in (one, other))
        done = attach(sandbox, first[0], second[0])
        check(done.status == 2 and f"attach {first[0]}" in done.err and f"attach {second[0]}" in done.err, f"{done}")


@case
def nodes_that_meet(sandbox):
    """Each knows its own ranks; one of them prints the verdict on all."""
    if not shutil.which("mpicc.mpich"):
        raise Skipped("no mpich")
    program = os.path.join(sandbox.fresh("program"), "alone")
    subprocess.run(["mpicc.mpich", "-g", os.path.join(PROGRAMS, "alone.c"), "-o", program], check=True)
    with contextlib.ExitStack() as stack:
        nodes = []
        for rank, how in enumerate(("waits", "elsewhere", "waits")):
            # A shell of its own starts each rank, as on a node of its own.
            job = stack.enter_context(running(sandbox, ["sh", "-c", f"RANK={rank} WORLD_SIZE=3 {program} {how}; :"]))
            check_equal(job.stdout.readline(), "ready\n", how)
            nodes.append(next(pid for pid in family(job.pid) if os.readlink(f"/proc/{pid}/exe") == program))
        meet = f"127.0.0.1:{free_port()}"
        argv = [sandbox.build.command, "attach", "--json", "--meet", meet]
        looks = [subprocess.Popen([*argv, str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=sandbox.environment(preload=False)) for pid in nodes]
        said = [(*look.communicate(timeout=60), look.returncode) for look in looks]
    verdicts = [json.loads(out) for out, _, _ in said if out]
    check_equal((len(verdicts), sorted(status for _, _, status in said)), (1, [0, 0, 1]), f"{said}")
    first = verdicts[0]["findings"][0]
    check_equal((first["kind"], first["culprits"], verdicts[0]["coverage"]["watched"]), ("missing_participant", [1], 3), "verdict")
    check(sum(f"told to {meet}" in err for _, err, _ in said) == 2, f"{said}")


# In place of ssh: whoever serves the folder starts the command, as no process of one node reaches another node's.
ORDER = """#!/bin/sh
order=$(mktemp {folder}/XXXXXX)
printf '%s\\0' "$@" > $order.part
mv $order.part $order.ready
while [ ! -e $order.ended ]; do sleep 0.05; done
"""


class Nodes(NamedHosts):
    """Hosts that do not see one another's processes."""

    inside = None

    def __enter__(self):
        super().__enter__()
        self.inside = {f"host{number}": family(holder.pid)[1] for number, holder in enumerate(self.holders[1:])}
        self.folder, self.server = self.sandbox.fresh("orders"), threading.Thread(target=self.serve)
        with open(self.agent, "w") as file:
            file.write(ORDER.format(folder=self.folder))
        self.ended = threading.Event()
        self.server.start()
        return self

    def __exit__(self, *error):
        if self.inside:
            self.ended.set()
            self.server.join()
        super().__exit__(*error)

    def namespaces(self):
        return [*super().namespaces(), "--pid", "--mount", "--mount-proc", "--fork", "--kill-child"]

    def at_node(self, host, *words):
        return ["nsenter", "-t", str(self.inside[host]), "-n", "-u", "-m", "-p", *words]

    def serve(self):
        while not self.ended.wait(0.05):
            for name in os.listdir(self.folder):
                order = os.path.join(self.folder, name)
                if not name.endswith(".ready"):
                    continue
                with open(order) as file:
                    host, *words = file.read().split("\0")[:-1]
                os.rename(order, order.replace(".ready", ".ended"))
                subprocess.Popen(self.at_node(host, "sh", "-c", " ".join(words)), env=self.sandbox.environment(preload=False))

    def mpirun(self, *words):
        tcp = {"plm_rsh_agent": self.agent, "btl": "tcp,self", "pml": "ob1", "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0"}
        settings = [word for name, value in tcp.items() for word in ("--mca", name, value)]
        return self.at_node("host0", *LAUNCHERS["openmpi"][:-2], *settings, *words)


@soak_case
def hosts_of_mpirun(sandbox):
    """`mpirun ncclwatch attach` with a task on each host of the job prints one verdict."""
    if os.getuid() != 0 or not shutil.which("mpirun.openmpi"):
        raise Skipped("needs root and Open MPI")
    program = os.path.join(sandbox.fresh("program"), "steps")
    subprocess.run(["mpicc.openmpi", "-O2", "-g", os.path.join(PROGRAMS, "steps.c"), "-o", program], check=True)
    with Nodes(sandbox) as nodes, running(sandbox, nodes.mpirun("--host", "host0:2,host1:2", "-n", "4", program, "sleeps")) as job:
        check_equal(job.stdout.readline(), "step 50\n", "the fault")

        def look():
            done = sandbox.run(nodes.mpirun("--host", "host0,host1", "-n", "2", sandbox.build.command, "attach", "--json"),
                               sandbox.environment(preload=False), timeout=90)
            said = json.loads(done.out)
            check_equal((said["coverage"]["watched"], said["job"]["hosts"]), (4, ["host0", "host1"]), f"one verdict: {done}")
            return said["findings"]
        first = until(look, "something was to be found", 120)[0]
        check_equal((first["kind"], first["culprits"], first["culprit_details"][0]["host"]), ("missing_participant", [2], "host1"),
                    "the verdict")


@case
def of_another_user(sandbox):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("needs root and setpriv")
    folder = sandbox.fresh("other")
    for path in (sandbox.path, folder):
        os.chmod(path, 0o755)
    command = shutil.copy(sandbox.build.command, folder)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with mpi_job(sandbox, "openmpi", "sleeps") as job:
        check_equal(job.stdout.readline(), "step 50\n", "the fault")
        pid = ranks_of(job, "OMPI_COMM_WORLD_RANK")[0]
        done = sandbox.run([*nobody, command, "attach", "--user", "root"], sandbox.environment(preload=False))
        check(done.status == 2 and "only root" in done.err, f"{done}")
        with running(sandbox, [*nobody, "sleep", "1000"]) as other:
            done = attach(sandbox, other.pid)
            check(done.status == 2 and "--user must name" in done.err, f"root must name the user: {done}")
        done = sandbox.run([*nobody, command, "attach", str(pid)], sandbox.environment(preload=False), timeout=30)
        check(done.status == 3 and "it belongs to another user (uid 0)" in done.out + done.err, f"{done}")


if __name__ == "__main__":
    run_main("attach")
