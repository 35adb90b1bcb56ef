"""What ranks and machines differ in, and what machines count of their own errors, beside what a job does."""

import json
import os
import shlex
import subprocess
import time

from harness import case, check, check_equal, soak_case
from job import LAUNCH, LAUNCHERS, ROOT, Job, mpi_program
from named_hosts import NamedHosts

RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}


def only_on(rank, variable, of, program):
    """A shell's words: the program, with these variables on one rank alone."""
    return ["sh", "-c", f'if [ "${variable}" = {rank} ]; then export {of}; fi; exec "$@"', "sh", *program]


def skew(findings):
    return [(finding["kind"], finding["certainty"], finding["culprits"]) for finding in findings]


def check_skew(job, certainty, culprits, words):
    """Beside it there may be a straggler: a rank that other tests slow is one."""
    status, findings = job.diagnose()
    findings = [finding for finding in findings if finding["kind"] != "straggler"]
    check_equal((status, skew(findings)), (1, [("environment_skew", certainty, culprits)]), "afterwards")
    for word in words:
        check(any(word in line for line in findings[0]["evidence"]), f"{word}: {findings[0]['evidence']}")
    said = [line for line in job.done.err.splitlines() if line.startswith("[ncclwatch rank") and "environment_skew" in line]
    check_equal(len(said), 1, f"it is said once while the job runs: {job.done.err}")
    check(findings[0]["summary"] in said[0], said[0])
    check_equal([e["event_type"] for e in job.events() if e["event_type"] != "straggler"], ["environment_skew"], "events")


@soak_case
def variable_of_one_rank(sandbox):
    """The same as of one host, which the quick suite shows; and what may differ."""
    program = mpi_program(sandbox, "steps")
    words = only_on(2, RANK["openmpi"], "UCX_TLS=tcp UCX_NET_DEVICES=eth7", [program, "1100", "15000", "0", "100000", "0", "sleep"])
    job = Job(sandbox, ["mpirun.openmpi", *LAUNCHERS["openmpi"], "-n", "4", *words], {"LD_LIBRARY_PATH": ""})
    check_skew(job, "suspected", [2], ["UCX_TLS: unset on ranks 0-1,3, 'tcp' on rank 2"])
    # Hosts, and ranks, may use different adapters.
    check("eth7" not in json.dumps(job.diagnose()[1]), "UCX_NET_DEVICES")


@case
def other_version_of_nccl_on_one_rank(sandbox):
    path = os.path.join(sandbox.build.root, "examples", "straggler")
    sandbox.build.need(path, sandbox.build.command)
    words = only_on(1, "RANK", "SOFTGPU_NCCL_VERSION=2.21.5 NCCL_ALGO=Tree", [path, "--step", "100000", "--steps", "700"])
    job = Job(sandbox, [*LAUNCH, *words], {"NCCL_ALGO": "Ring"})
    check_skew(job, "likely", [1], ["NCCL_ALGO: 'Ring' on ranks 0,2-3, 'Tree' on rank 1", "the version of NCCL: ", "'2.21.5' on rank 1"])


@case
def variable_of_one_host_of_three(sandbox):
    """The hub tells it, of ranks whose boxes it does not see."""
    program = mpi_program(sandbox, "steps")
    with NamedHosts(sandbox) as hosts:
        words = only_on(1, RANK["openmpi"], "UCX_TLS=tcp", [program, "1100", "15000", "0", "100000", "0", "sleep"])
        argv = ["mpirun.openmpi", *LAUNCHERS["openmpi"], "--mca", "plm_rsh_agent", hosts.agent, "--mca", "btl_tcp_if_include", "eth0",
                "--mca", "oob_tcp_if_include", "eth0", "-H", "host0,host1,host2", "-n", "3", *words]
        agent = ["nsenter", "-t", str(hosts.holders[1].pid), "-n", "-u"]
        scratch = sandbox.fresh("job")
        env = sandbox.environment(preload=False, extra={"TMPDIR": scratch, "LD_LIBRARY_PATH": "", "NCCLWATCH_OUT": scratch + "/out"})
        done = sandbox.run([*agent, sandbox.build.command, "run", "--", *argv], env, timeout=100)
    check_equal(done.status, 0, f"{done}")
    said = [line for line in done.err.splitlines() if "environment_skew" in line]
    check_equal(len(said), 1, f"it is said once: {done.err}")
    check("Rank 1 runs in another environment than most: UCX_TLS: unset on ranks 0,2, 'tcp' on rank 1." in said[0], said[0])


class Machine:
    """The files of a machine, and the command that looks at them in place of this machine's."""

    def __init__(self, sandbox):
        self.root = sandbox.fresh("machine")
        self.command = os.path.join(sandbox.fresh("bin"), "ncclwatch")
        with open(self.command, "w") as file:
            file.write(f'#!/bin/sh\nif [ "$1" = doctor ]; then set -- "$@" --root {shlex.quote(self.root)}; fi\n'
                       f'exec {shlex.quote(sandbox.build.command)} "$@"\n')
        os.chmod(self.command, 0o700)
        self.write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
        self.write("/sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)")
        self.count(0)
        self.write("/dev/kmsg", "")

    def write(self, path, text):
        whole = self.root + path
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole + ".new", "w") as file:
            file.write(text + "\n")
        os.rename(whole + ".new", whole)

    def count(self, errors):
        self.write("/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", str(errors))


def look(sandbox, machine, path):
    done = sandbox.run([machine.command, "doctor", "--counters", path], sandbox.environment(preload=False))
    check_equal((done.status, done.out, done.err), (0, "", ""), f"{done}")
    with open(path) as file:
        return [line.partition(" ")[2] for line in file.read().splitlines() if line.startswith("words ")]


def log_line(text, seconds_ago):
    now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    return f"3,17,{now_us - seconds_ago * 1000000},-;{text}"


@case
def counters_from_one_look_to_the_next(sandbox):
    machine, path = Machine(sandbox), os.path.join(sandbox.fresh("looks"), "machine.here.txt")
    machine.write("/dev/kmsg", log_line("NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.", 60) + "\n" +
                  log_line("NVRM: Xid (PCI:0000:3b:00): 31, pid=1, of yesterday", 90000) + "\n" + log_line("eth0: entered promiscuous mode", 50) + "\n" +
                  log_line("Memory cgroup out of memory: Killed process 12 (another job's)", 150) + "\n" +
                  log_line("Memory cgroup out of memory: Killed process 4712 (pt_data_worker)", 20))
    machine.count(7)
    first = look(sandbox, machine, path)
    check_equal(first, ["kernel log: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
                        "kernel log: Memory cgroup out of memory: Killed process 4712 (pt_data_worker)"], "the first look")
    check_equal(look(sandbox, machine, path), first, "nothing has changed")
    machine.count(127)
    machine.write("/sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (1X NDR)")
    machine.write("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    check_equal(sorted(look(sandbox, machine, path)[2:]),
                ["mlx5_0 port 1: rate: 100 Gb/sec (1X NDR), was 400 Gb/sec (4X NDR)", "mlx5_0 port 1: state: 1: DOWN, was 4: ACTIVE",
                 "mlx5_0 port 1: symbol_error rose by 120 to 127"], "what has changed")
    machine.count(3)  # the driver was loaded anew
    check_equal(len(look(sandbox, machine, path)), 5, "a counter that begins anew")
    with open(path, "w") as file:
        file.write("ncclwatch.machine/1\nlooked first x last \x1b host h\ncounter 99999999999999999999999 a\nevent since\nis\nwords\n")
    check_equal(len(look(sandbox, machine, path)), 3, "a damaged file: bad states and the log, as at the first look")


@case
def gpus_of_a_double_from_one_look_to_the_next(sandbox):
    folder = sandbox.fresh("double")
    source = os.path.join(ROOT, "tests", "doctor", "nvml_double.c")
    built = subprocess.run(["gcc", "-shared", "-fPIC", "-O1", source, "-o", os.path.join(folder, "libnvidia-ml.so.1")], check=False)
    check_equal(built.returncode, 0, "gcc")
    path = os.path.join(folder, "machine.here.txt")

    def words(state):
        env = sandbox.environment(preload=False, extra={"LD_LIBRARY_PATH": folder, "DOUBLE_STATE": state})
        done = sandbox.run([sandbox.build.command, "doctor", "--counters", path, "--root", sandbox.fresh("nothing")], env)
        check_equal((done.status, done.err), (0, ""), f"{done}")
        with open(path) as file:
            return [line.partition(" ")[2] for line in file.read().splitlines() if line.startswith("words ")]

    check_equal(words(""), [], "healthy")
    check_equal(words("ecc"), ["GPU 00000000:02:00.0: uncorrected ECC errors rose by 3 to 3"], "errors of memory")
    check_equal(words("ecc,heat")[1:], [], "a state that the double does not know")
    check_equal(words("heat")[1:], ["GPU 00000000:01:00.0: clocks: held down by heat, was as asked for"], "heat")
    check_equal(words("")[2:], ["GPU 00000000:01:00.0: clocks: as asked for, was held down by heat"], "it is over")


@soak_case
def errors_of_a_machine_beside_its_straggler(sandbox):
    """Live and afterwards: the counter that rose on the straggler's machine is quoted with the time."""
    machine = Machine(sandbox)
    path = os.path.join(sandbox.build.root, "examples", "straggler")
    sandbox.build.need(path, sandbox.build.command)
    rising = subprocess.Popen(["sh", "-c", f"i=0; while sleep 1; do i=$((i+5)); echo $i > {machine.root}/new && mv {machine.root}/new "
                               f"{machine.root}/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error; done"])
    try:
        job = Job(sandbox, [*LAUNCH, path, "--step", "200", "--steps", "900"], {"NCCLWATCH_COMMAND": machine.command})
    finally:
        rising.kill()
        rising.wait()
    status, findings = job.diagnose()
    check_equal((status, [(f["kind"], f["culprits"]) for f in findings]), (1, [("straggler", [2])]), "afterwards")
    quoted = [line for line in findings[0]["evidence"] if line.startswith("the machine: ")]
    check(any("mlx5_0 port 1: symbol_error rose by " in line and " UTC" in line for line in quoted), f"{findings[0]['evidence']}")
    out = [name for _, _, names in os.walk(job.out) for name in names if name.startswith("machine.")]
    check(len(out) <= 1, f"{out}")
