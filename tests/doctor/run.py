#!/usr/bin/env python3
"""`ncclwatch doctor`: each check fails by a real cause, or on a machine built in a folder; and passes where all is well."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, run_main  # noqa: E402
from named_hosts import NamedHosts  # noqa: E402

TORCHRUN = os.path.join(HERE, "..", "..", "build", "venv", "bin", "torchrun")


def doctor(sandbox, *words, env=None, wrap=(), preexec=None):
    environment = sandbox.environment(preload=False, extra={"HOME": sandbox.path, **(env or {})})  # where ranks keep their secret
    done = sandbox.run([*wrap, sandbox.build.command, "doctor", "--json", *words], environment, timeout=60, preexec=preexec)
    check(done.out, f"{done}")
    report = json.loads(done.out[done.out.index("{"):])
    return done.status, {one["id"]: one for one in report["checks"]}, report


def check_status(checks, name, status, words=""):
    one = checks[name]
    text = " ".join([one["seen"], one["reason"], one["advice"]])
    check(one["status"] == status and words in text, f"{name}: {status} with '{words}' expected, {one}")
    if status in ("WARN", "FAIL"):
        check(one["reason"] and one["advice"], f"says why and what to do: {one}")
    if status == "SKIP":
        check(one["reason"], f"says why: {one}")


class Root:
    """A machine as a folder: what the healthy one has, and what a test adds."""

    HEALTHY = {
        "/proc/meminfo": "MemTotal: 100000000 kB\nMemAvailable: 90000000 kB\nSwapTotal: 1000000 kB\nSwapFree: 1000000 kB",
        "/proc/loadavg": "0.50 0.40 0.30 1/100 1000", "/proc/uptime": "360000.00 1.00", "/proc/self/cgroup": "0::/job",
        "/proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", "/proc/sys/vm/overcommit_memory": "0",
        "/proc/sys/kernel/core_pattern": "core.%h.%p", "/proc/sys/kernel/yama/ptrace_scope": "1",
        "/proc/sys/kernel/tainted": "0", "/proc/sys/kernel/numa_balancing": "0",
        "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999", "/sys/devices/system/node/online": "0-1",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
        "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/sys/class/net/eth0/operstate": "up", "/sys/class/net/eth0/mtu": "9000", "/sys/class/net/eth0/duplex": "full",
        "/sys/class/net/eth0/statistics/rx_packets": "1000000", "/sys/class/net/eth0/statistics/rx_errors": "0",
        "/sys/class/net/eth0/statistics/tx_errors": "0", "/dev/kmsg": "6,1,1,-;Linux version 6.1", "/dev/shm/here": "", "/tmp/here": "",
    }
    IB = {"/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE", "/sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
          "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "0", "/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": "0"}

    def __init__(self, sandbox, files=None):
        self.path = sandbox.fresh("root")
        for path, text in {**self.HEALTHY, **(files or {})}.items():
            full = self.path + path
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as file:
                file.write(text + "\n")


@case
def this_machine_has_no_failure(sandbox):
    _, checks, _ = doctor(sandbox)
    check_status(checks, "compute", "SKIP", "--active")
    status, checks, report = doctor(sandbox, "--active", "--phase", "long-run")
    check_equal((status, [name for name, one in checks.items() if one["status"] == "FAIL"]), (0, []), "no false alarm")
    _, checks, report = doctor(sandbox, "--active")
    check(len(checks) >= 60, f"{len(checks)} checks")
    check_status(checks, "clock-skew", "SKIP", "one rank alone")
    check_equal((report["ranks"], report["hosts"], report["differences"]), (1, 1, []), "alone")
    for name in ("compute", "memory", "disk", "data-loader"):  # a slow disk is a WARN
        check(checks[name]["status"] in ("PASS", "WARN") and checks[name]["seen"], f"{checks[name]}")


@case
def healthy_machine_passes(sandbox):
    root = Root(sandbox)
    status, checks, _ = doctor(sandbox, "--root", root.path, "--checkpoint", sandbox.fresh("checkpoints"))
    bad = {name: one for name, one in checks.items() if one["status"] in ("WARN", "FAIL") and name not in ("name-resolution", "temporary-space")}
    check_equal((status, bad), (0, {}), "every check passes or is skipped")


# Files of the machine that differ from a healthy one's, what the check then says.
BROKEN_FILES = {
    "mtu": ({"/sys/class/net/eth0/operstate": "down"}, "SKIP", "no interface is up"),
    "nic-errors": ({"/sys/class/net/eth0/statistics/rx_errors": "5000"}, "WARN", "5000 errors"),
    "duplex": ({"/sys/class/net/eth0/duplex": "half"}, "WARN", "eth0"),
    "ports": ({"/proc/sys/net/ipv4/ip_local_port_range": "60000\t60999"}, "WARN", "1000 ports"),
    "ib-links": ({**Root.IB, "/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN"}, "WARN", "mlx5_0:1 1: DOWN"),
    "memory-available": ({"/proc/meminfo": "MemTotal: 100000000 kB\nMemAvailable: 5000000 kB"}, "WARN", "available of"),
    "memory-limit": ({"/sys/fs/cgroup/job/memory.max": "1073741824"}, "WARN", "1 GiB"),
    "swap": ({"/proc/meminfo": "MemTotal: 10 kB\nMemAvailable: 10 kB\nSwapTotal: 1000000 kB\nSwapFree: 100000 kB"}, "WARN", "in use"),
    "memory-pressure": ({"/proc/pressure/memory": "some avg10=40.00 avg60=31.50 avg300=9.00 total=1"}, "WARN", "31.5 %"),
    "overcommit": ({"/proc/sys/vm/overcommit_memory": "2"}, "WARN", "fork"),
    "governor": ({"/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave"}, "WARN", "powersave"),
    "load": ({"/proc/loadavg": "55.00 1 1 1/1 1"}, "WARN", "55.0"),
    "numa-balancing": ({"/proc/sys/kernel/numa_balancing": "1"}, "WARN", "pages move"),
    "processor-quota": ({"/sys/fs/cgroup/cpu.max": "50000 100000"}, "WARN", "0.5 cores"),
    "ptrace-scope": ({"/proc/sys/kernel/yama/ptrace_scope": "3"}, "WARN", "ptrace_scope=3"),
    "kernel-state": ({"/proc/sys/kernel/tainted": "144"}, "WARN", "oops"),
    "kernel-log": ({"/dev/kmsg": "3,9,9,-;NVRM: Xid (PCI:0000:1a:00): 79, pid=1, GPU has fallen off the bus."}, "WARN", "Xid of a GPU"),
    "gpu-visible": ({"/proc/driver/nvidia/version": "NVRM version: 560"}, "FAIL", "libnvidia-ml.so.1"),
    "torch-version": ({"/usr/lib/python3.11/site-packages/torch-2.6.0.dist-info/METADATA": "",
                       "/usr/lib/python3.11/site-packages/nvidia_nccl_cu12-2.21.5.dist-info/METADATA": ""}, "PASS", "torch 2.6.0, NCCL's wheel 2.21.5"),
    "nccl-library": ({"/usr/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2": "cut off"}, "WARN", "does not say a version"),
}


@case
def broken_machine_in_a_folder(sandbox):
    for name, (files, status, words) in BROKEN_FILES.items():
        root = Root(sandbox, files)
        _, checks, _ = doctor(sandbox, "--root", root.path, "--only", name)
        check_status(checks, name, status, words)
        shutil.rmtree(root.path)


# Variables of the job, what a check then says.
RANKS = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": "29500"}
BROKEN_VARIABLES = [
    ("rendezvous", {"MASTER_ADDR": "gpu17"}, "FAIL", "needs both"),
    ("rendezvous", {"MASTER_ADDR": "gpu17", "MASTER_PORT": "many"}, "FAIL", "no port"),
    ("world-size", {"RANK": "8", "WORLD_SIZE": "8"}, "FAIL", "RANK has to be"),
    ("world-size", {"RANK": "0"}, "FAIL", "both RANK and WORLD_SIZE"),
    ("nccl-variables", {"NCCL_DEBUG": "VERBOSE"}, "WARN", "NCCL_DEBUG=VERBOSE"),
    ("nccl-variables", {"NCCL_MIN_NCHANNELS": "8", "NCCL_MAX_NCHANNELS": "4"}, "WARN", "is above"),
    ("nccl-variables", {"NCCL_IB_TIMEOUT": "long"}, "WARN", "a number is expected"),
    ("socket-interface", {"NCCL_SOCKET_IFNAME": "ib7"}, "FAIL", "no such interface"),
    ("socket-interface", {"NCCL_SOCKET_IFNAME": "^docker,lo"}, "PASS", "eth0"),
    ("gloo-interface", {"GLOO_SOCKET_IFNAME": "=eth"}, "FAIL", "no such interface"),
    ("ib-variables", {"NCCL_IB_HCA": "mlx5_9"}, "FAIL", "no such device"),
    ("ib-variables", {"NCCL_IB_DISABLE": "1"}, "WARN", "lie idle"),
    ("torch-variables", {"NCCL_BLOCKING_WAIT": "1"}, "WARN", "is now TORCH_NCCL_BLOCKING_WAIT"),
    ("torch-variables", {"CUDA_LAUNCH_BLOCKING": "1"}, "WARN", "debugging"),
    ("thread-count", {"OMP_NUM_THREADS": "64"}, "WARN", "more threads than cores"),
    ("ncclwatch-variables", {"NCCLWATCH_TIMEOT": "3"}, "WARN", "NCCLWATCH_TIMEOUT"),
    ("preload", {"LD_PRELOAD": "/nowhere/libncclwatch.so"}, "FAIL", "/nowhere/libncclwatch.so"),
    ("temporary-space", {"TMPDIR": "/nowhere"}, "WARN", "no such folder"),
    ("visible-devices", {"CUDA_VISIBLE_DEVICES": "0,0"}, "FAIL", "twice"),
]


@case
def wrong_variables(sandbox):
    root = Root(sandbox, Root.IB)
    for name, variables, status, words in BROKEN_VARIABLES:
        words_of_root = [] if name in ("preload", "ncclwatch-variables") else ["--root", root.path]
        _, checks, _ = doctor(sandbox, *words_of_root, "--only", name, "--wait", "0s", env=variables)
        check_status(checks, name, status, words)


@case
def known_bad_versions(sandbox):
    """Version and symptom have to match."""
    def look(version, variables):
        root = Root(sandbox, {"/usr/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2": f"NCCL version {version}+cuda12.0"})
        return doctor(sandbox, "--root", root.path, "--only", "known-bad-versions", env=variables)[1]
    blocking = {"CUDA_LAUNCH_BLOCKING": "1"}
    check_status(look("2.14.3", blocking), "known-bad-versions", "WARN", "https://github.com/NVIDIA/nccl/issues/750")
    check_status(look("2.14.3", {}), "known-bad-versions", "PASS", "nccl 2.14.3")
    check_status(look("2.18.3", blocking), "known-bad-versions", "PASS", "nccl 2.18.3")


@case
def limits_of_the_shell(sandbox):
    root = Root(sandbox, Root.IB)
    mega = 1 << 20
    for name, limit, value, status in [("locked-memory", resource.RLIMIT_MEMLOCK, mega, "FAIL"), ("open-files", resource.RLIMIT_NOFILE, 256, "WARN"),
                                       ("address-space", resource.RLIMIT_AS, 4096 * mega, "WARN")]:
        _, checks, _ = doctor(sandbox, "--root", root.path, "--only", name, preexec=lambda one=limit, to=value: resource.setrlimit(one, (to, to)))
        check_status(checks, name, status)
    group = Root(sandbox, {"/sys/fs/cgroup/job/pids.max": "64"})
    check_status(doctor(sandbox, "--root", group.path, "--only", "processes")[1], "processes", "WARN", "cgroup 64")


def namespace(*kinds):
    wrap = ["unshare", *kinds]
    if subprocess.run([*wrap, "true"], capture_output=True, check=False).returncode != 0:
        raise Skipped("no namespaces here")
    return wrap


@case
def without_a_network(sandbox):
    ranks = {**RANKS, "MASTER_ADDR": "10.0.0.1"}
    status, checks, _ = doctor(sandbox, "--only", "interfaces,ranks-came", "--wait", "0s", env=ranks, wrap=namespace("-n"))
    check_status(checks, "interfaces", "FAIL", "several hosts")
    check_equal(status, 1, "a FAIL sets the status")


@case
def names_that_mean_nothing(sandbox):
    _, checks, _ = doctor(sandbox, "--only", "name-resolution", "--wait", "0s", env={**RANKS, "MASTER_ADDR": "nowhere.invalid"})
    check_status(checks, "name-resolution", "FAIL", "nowhere.invalid cannot be resolved")
    _, checks, _ = doctor(sandbox, "--only", "rendezvous", "--wait", "0s", env={**RANKS, "MASTER_ADDR": "127.0.0.1"})
    check_status(checks, "rendezvous", "FAIL", "wait for itself")


def on_small_tmpfs(sandbox, folder, size, fill, *words):
    """With a tmpfs of `size` at the folder, of which `fill` bytes are taken."""
    script = f'mount -t tmpfs -o size={size} none {folder} && head -c {fill} /dev/zero >{folder}/full; exec "$@"'
    return doctor(sandbox, *words, wrap=[*namespace("-m"), "sh", "-c", script, "sh"])[1]


@case
def full_file_systems(sandbox):
    check_status(on_small_tmpfs(sandbox, "/dev/shm", "64m", "0", "--only", "shm-size"), "shm-size", "WARN", "64 MiB")
    check_status(on_small_tmpfs(sandbox, "/dev/shm", "8m", "8m", "--only", "shm-size"), "shm-size", "FAIL", "no room")
    folder = sandbox.fresh("checkpoints")
    full = on_small_tmpfs(sandbox, folder, "1m", "1m", "--checkpoint", folder, "--only", "checkpoint-writable,checkpoint-space,checkpoint-age")
    check_status(full, "checkpoint-space", "WARN", "nearly full")
    small = on_small_tmpfs(sandbox, folder, "64m", "0", "--checkpoint", folder, "--parameters", "1e9", "--only", "checkpoint-space")
    check_status(small, "checkpoint-space", "FAIL", "one checkpoint takes about 13")
    check_status(doctor(sandbox, "--checkpoint", "/nowhere", "--only", "checkpoint-writable")[1], "checkpoint-writable", "FAIL", "no such folder")
    _, checks, _ = doctor(sandbox, "--only", "checkpoint-writable,checkpoint-age", env={"CHECKPOINT_DIR": folder})
    check_status(checks, "checkpoint-writable", "PASS")
    check_status(checks, "checkpoint-age", "PASS", "no checkpoint yet")


def compile_c(sandbox, source, name, *flags):
    path = os.path.join(sandbox.fresh("built"), name)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", os.path.join(HERE, source), "-o", path, *flags], check=True)
    return path


@case
def gpus_of_a_double(sandbox):
    folder = os.path.dirname(compile_c(sandbox, "nvml_double.c", "libnvidia-ml.so.1"))

    def look(state="", *words, **more):
        env = {"LD_LIBRARY_PATH": folder, "DOUBLE_STATE": state, **more}
        return doctor(sandbox, *words, env=env)[1]

    healthy = look()
    for name in ("gpu-visible", "driver", "gpu-health", "gpu-throttle", "gpu-memory", "pcie-width", "visible-devices"):
        check_status(healthy, name, "PASS")
    check_status(healthy, "driver", "PASS", "driver 560.35.03, up to CUDA 12.6")
    check_status(look("ecc"), "gpu-health", "WARN", "00000000:02:00.0: 3 uncorrected ECC errors")
    check_status(look("nvlink"), "gpu-health", "WARN", "NVLink links down")
    check_status(look("heat"), "gpu-throttle", "WARN", "00000000:01:00.0 (heat)")
    check_status(look("memory"), "gpu-memory", "WARN", "50 GiB free of 80 GiB")
    check_status(look("width"), "pcie-width", "WARN", "x4 of x16")
    check_status(look(CUDA_VISIBLE_DEVICES="0,7"), "visible-devices", "FAIL", "no device 7")
    check_status(look("no-answer"), "gpu-visible", "SKIP", "no driver that answers")
    check_status(look(DOUBLE_GPUS="0"), "gpu-visible", "WARN", "no GPU")
    _, checks, _ = doctor(sandbox, "--only", "gpu-visible", "--wait", "0s", env={**RANKS, "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "LD_LIBRARY_PATH": folder})
    check_status(checks, "gpu-visible", "FAIL", "4 ranks")
    # 7e9 parameters: 2 + 2 + 12 bytes each, of eight shards; 79 GiB are free.
    check_status(look("", "--parameters", "7e9", "--shards", "8", "--activations", "20G"), "memory-budget", "PASS", "a rank needs 33")
    check_status(look("", "--parameters", "7e9"), "memory-budget", "FAIL", "does not fit")


@case
def program_with_nccl_inside(sandbox):
    folder = sandbox.fresh("program")
    source = os.path.join(folder, "main.c")
    for text, status, words in [('const char text[] = "NCCL version 2.21.5+cuda12.4";', "WARN", "linked into the program"), ("", "PASS", "no NCCL of its own")]:
        with open(source, "w") as file:
            file.write(text + " int main(void) { return 0; }\n")
        program = os.path.join(folder, "program")
        subprocess.run(["gcc", source, "-o", program], check=True)
        check_status(doctor(sandbox, "--only", "nccl-static", "--", program)[1], "nccl-static", status, words)
    check_status(doctor(sandbox, "--only", "nccl-static", "--", "no-such-program")[1], "nccl-static", "FAIL", "no such program")


OWN_CHECKS = """
[[check]]
id = "answer"
command = "echo 42 GB"
least = {least}
severity = "fail"
advice = "add some"
[[check]]
id = "slow"
command = "sleep 100 & sleep 100"
timeout = "0.2s"
advice = "hurry"
[[check]]
id = "text"
command = "echo mounted"
output = "^mounted$"
phases = ["long-run"]
"""


@case
def checks_of_users(sandbox):
    path = os.path.join(sandbox.fresh("checks"), "checks.toml")
    for least, status in [(40, "PASS"), (50, "FAIL")]:
        with open(path, "w") as file:
            file.write(OWN_CHECKS.format(least=least))
        exit_status, checks, _ = doctor(sandbox, "--checks", path, "--only", "answer,slow,text")
        check_status(checks, "answer", status, "42 GB")
        check_status(checks, "slow", "WARN", "does not end in 200")
        check_status(checks, "text", "PASS")
        check_equal(exit_status, 1 if status == "FAIL" else 0, "status")
    _, checks, _ = doctor(sandbox, "--checks", path, "--phase", "first-run")
    check("text" not in checks and checks["manual-loss"]["status"] == "MANUAL", "phases choose")
    with open(path, "w") as file:
        file.write('[[check]]\nid = "a"\ncomand = "true"\n')
    done = sandbox.run([sandbox.build.command, "doctor", "--checks", path], sandbox.environment(preload=False), timeout=60)
    check(done.status == 3 and "comand" in done.err, f"{done}")


MPI = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], "mpich": ["mpirun.mpich"]}


@case
def one_report_under_launchers(sandbox):
    launchers = [[*MPI[mpi], "-n", "4"] for mpi in MPI if shutil.which(MPI[mpi][0])]
    if os.path.exists(TORCHRUN):
        launchers.append([TORCHRUN, "--no-python", "--nproc-per-node", "4"])
    if not launchers:
        raise Skipped("no launcher here")
    for wrap in launchers:
        status, checks, report = doctor(sandbox, wrap=wrap)
        check_equal((status, report["ranks"], report["hosts"]), (0, 4, 1), wrap[0])
        check_status(checks, "ranks-came", "PASS", "4 of 4 ranks")
        check_equal(checks["shm-size"]["ranks"], [0, 1, 2, 3], "of all ranks")


@case
def one_rank_with_another_variable(sandbox):
    if not shutil.which("mpirun.openmpi"):
        raise Skipped("no Open MPI here")
    script = 'test "$OMPI_COMM_WORLD_RANK" = 2 && export NCCL_ALGO=Tree; exec "$@"'
    _, checks, report = doctor(sandbox, wrap=[*MPI["openmpi"], "-n", "4", "sh", "-c", script, "sh"])
    check_status(checks, "variable-skew", "WARN", "NCCL_ALGO: nothing on ranks 0-1,3, Tree on rank 2")
    check_equal(checks["variable-skew"]["ranks"], [2], "the one that differs")
    check_equal(report["differences"], [{"what": "NCCL_ALGO", "values": [{"value": "", "ranks": [0, 1, 3]}, {"value": "Tree", "ranks": [2]}]}], "differences")


class HostsWithDoctor(NamedHosts):
    def start(self, rank, env, words):
        pid = self.holders[rank + 1].pid
        ranks = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.78.0.1", "MASTER_PORT": "29400"}
        environment = self.sandbox.environment(preload=False, extra={"HOME": self.sandbox.path, **ranks, **env.get(rank, {})})
        argv = ["nsenter", "-t", str(pid), "-n", "-u", self.sandbox.build.command, "doctor", "--json", *words]
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def doctor(self, *words, env=None, ranks=(0, 1, 2)):
        running = [self.start(rank, env or {}, words) for rank in ranks]
        said = [one.communicate(timeout=60) for one in running]
        report = json.loads(said[0][0])
        return running[0].returncode, {one["id"]: one for one in report["checks"]}, report


@case
def hosts_with_networks_of_their_own(sandbox):
    with HostsWithDoctor(sandbox) as hosts:
        status, checks, report = hosts.doctor("--active")
        check_equal((status, report["ranks"], report["hosts"]), (0, 3, 3), f"{checks['ranks-came']}")
        for name in ("reachability", "clock-skew", "version-skew"):
            check_status(checks, name, "PASS")
        check_status(checks, "reachability", "PASS", "6 of 6 pairs")
        for name, unit in (("latency", " us"), ("pair-bandwidth", "MB/s")):  # other tests may run beside this one
            check(checks[name]["status"] in ("PASS", "WARN") and unit in checks[name]["seen"], f"{checks[name]}")
        late = compile_c(sandbox, "clock_ahead.c", "clock_ahead.so")
        _, checks, _ = hosts.doctor(env={2: {"LD_PRELOAD": late, "CLOCK_AHEAD": "5"}})
        check_status(checks, "clock-skew", "WARN", "host2 is 5.0")
        check_equal(checks["clock-skew"]["ranks"], [2], "whose clock it is")
        status, checks, _ = hosts.doctor("--wait", "1s", ranks=(0, 2))
        check_status(checks, "ranks-came", "FAIL", "rank 1 did not come")
        hosts.at(hosts.holders[2].pid, "ip", "link", "set", "eth0", "mtu", "1400")
        check_status(hosts.doctor()[1], "version-skew", "WARN", "MTU of eth0")
        hosts.at(hosts.holders[2].pid, "ip", "route", "add", "blackhole", "10.78.0.3/32")
        status, checks, _ = hosts.doctor()
        check_status(checks, "reachability", "FAIL", "host1 to host2")
        check_equal(status, 1, "a FAIL sets the status")


@case
def slow_pair(sandbox):
    with HostsWithDoctor(sandbox) as hosts:
        try:
            hosts.narrow(2, "100mbit")
        except subprocess.CalledProcessError:
            raise Skipped("this kernel has no tbf for tc") from None
        _, checks, _ = hosts.doctor("--active")
        check_status(checks, "pair-bandwidth", "WARN", "host0 to host2")
        check(2 in checks["pair-bandwidth"]["ranks"], f"{checks['pair-bandwidth']}")


@case
def stranger_at_the_port(sandbox):
    """Somebody else listens where the ranks would meet: the next port is taken."""
    listener = socket.socket()
    listener.bind(("0.0.0.0", 0))
    listener.listen()
    done = sandbox.run([sandbox.build.command, "doctor", "--meet", f"127.0.0.1:{listener.getsockname()[1]}", "--wait", "1s"],
                       sandbox.environment(preload=False, extra={**RANKS, "MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": "2"}), timeout=60)
    check(done.status == 1 and "cannot listen" in done.out, f"{done}")


if __name__ == "__main__":
    run_main("doctor")
