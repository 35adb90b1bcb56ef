"""What root writes in /etc/ncclwatch.conf, and programs that are left alone."""

import os
import shutil
import socket
import sys

from cases_loading import CTYPES
from cases_surroundings import namespace
from common import program
from harness import Process, Skipped, case, check, check_equal


def with_rules(sandbox, text, mode=0o644, owner=0, link=False):
    """A mount namespace whose /etc has this ncclwatch.conf, as a prefix for a command."""
    etc = os.path.join(sandbox.fresh("etc"), "etc")
    shutil.copytree("/etc", etc, symlinks=True, ignore_dangling_symlinks=True,
                    ignore=lambda folder, names: [n for n in names if not os.access(os.path.join(folder, n), os.R_OK)])
    path = os.path.join(etc, "ncclwatch.conf")
    target = os.path.join(etc, "elsewhere") if link else path
    with open(target, "w") as file:
        file.write(text)
    os.chmod(target, mode)
    if owner:
        os.chown(target, owner, owner)
    if link:
        os.symlink("elsewhere", path)
    return namespace(f"mount --bind {etc} /etc")


def job(sandbox, prefix=(), extra=None, ranks=2, argv=None):
    command = list(prefix) + (argv or [program(sandbox, "many"), "splits", "5"])
    done = sandbox.job(command, ranks, extra=extra)
    check_equal(done.statuses(), [0] * ranks, f"exit status ({done.done})")
    return done


def said(done):
    """Lines of all ranks, but the one that says who is watched."""
    return [line for error in done.errors() for line in error.splitlines() if "[ncclwatch" in line and "watching" not in line]


@case
def administrator_switches_off(sandbox):
    done = job(sandbox, with_rules(sandbox, "# maintenance\noff\n"))
    check_equal(done.boxes(), [], "black boxes on a machine that is switched off")
    check_equal("".join(done.errors()), "", "words on a machine that is switched off")


@case
def administrator_forbids(sandbox):
    rules = with_rules(sandbox, "forbid NCCLWATCH_HOOK\nmax NCCLWATCH_RING=1024\nforbd NCCLWATCH_OUT\n")
    done = job(sandbox, rules, {"NCCLWATCH_HOOK": "true", "NCCLWATCH_RING": "65536", "NCCLWATCH_OUT": "/dev/shm/x"})
    check_equal(len(done.boxes()), 2, "black boxes")
    lines = said(done)
    check_equal(len(lines), 4, f"lines of the job: {lines}")
    for part in ("NCCLWATCH_HOOK=true: forbidden by /etc/ncclwatch.conf", "NCCLWATCH_RING=65536: more than",
                 "line 3: forbd NCCLWATCH_OUT: not understood", "NCCLWATCH_OUT=/dev/shm/x: forbidden"):
        check(any(part in line for line in lines), f"{part} is not said: {lines}")
    check(all("rank 0]" in line for line in lines), f"said by another than the first rank: {lines}")


@case
def administrators_file_of_somebody_else(sandbox):
    for how in ({"mode": 0o664}, {"mode": 0o646}, {"link": True}) + (({"owner": 65534},) if os.getuid() == 0 else ()):
        done = job(sandbox, with_rules(sandbox, "off\n", **how))
        check_equal(len(done.boxes()), 2, f"black boxes, rules ignored ({how})")
        lines = said(done)
        check(len(lines) == 1 and "/etc/ncclwatch.conf is ignored: " in lines[0], f"{how}: {lines}")


@case
def administrator_forbids_a_library(sandbox):
    """The variable would bring a library that is no NCCL; the usual search finds the right one."""
    rules = with_rules(sandbox, "forbid NCCLWATCH_NCCL\n")
    wrong = os.path.join(sandbox.fresh("wrong"), "libnccl.so.2")
    code = ("import ctypes, sys; n = ctypes.CDLL(sys.argv[1]); v = ctypes.c_int();"
            "print(n.ncclGetVersion(ctypes.byref(v)), v.value > 0)")
    argv = [shutil.which("python3"), "-c", code, sandbox.build.library]
    env = sandbox.environment(preload=False, extra={"NCCLWATCH_NCCL": wrong})
    tried = sandbox.run(argv, env)
    check("NCCLWATCH_NCCL: " in tried.err, f"without the rule the variable is followed: {tried}")
    done = sandbox.run(rules + argv, env)
    check_equal(done.out, "0 True\n", "the version that the real library tells")
    check("NCCLWATCH_NCCL: " not in done.err, f"the forbidden library was tried: {done}")


@case
def excluded_programs(sandbox):
    for names in ("many", "other, ma*", program(sandbox, "many")):
        done = job(sandbox, extra={"NCCLWATCH_EXCLUDE": names, "NCCLWATCH_RING": "wrong"})
        check_equal(done.boxes(), [], f"black boxes of a program excluded by {names}")
        check_equal("".join(done.errors()), "", f"words in a program excluded by {names}")
    check_equal(len(job(sandbox, extra={"NCCLWATCH_EXCLUDE": "man,any,/many"}).boxes()), 2, "black boxes of another one")
    check_equal(job(sandbox, with_rules(sandbox, "exclude man*\n")).boxes(), [], "black boxes, excluded by root")


@case
def secrets_are_not_kept(sandbox):
    """Neither the black box nor what the stacks quote of a command line tells a secret that its names give away."""
    words = ["--token", "hunter2", "--api-key=hunter2", "redis://me:hunter2@h", "PIN=hunter2", "--lr=1"]
    done = job(sandbox, extra={"NCCLWATCH_REDACT": "pin"}, argv=[sys.executable, CTYPES, "libnccl.so.2"] + words)
    check_equal(len(done.boxes()), 2, "black boxes")
    for path in done.boxes():
        with open(path, "rb") as file:
            content = file.read()
        check(b"hunter2" not in content, "a secret is in the black box")
        check(b"libnccl.so.2 --token *** --api-key=*** redis://***@h PIN=*** --lr=1" in content, "the command is not in it")
    environment = sandbox.environment(preload=False, extra={"NCCLWATCH_REDACT": "pin"})
    sleeper = Process([sys.executable, "-c", "import time; time.sleep(100)"] + words, environment)
    try:
        stacks = sandbox.run([sandbox.build.command, "stacks", "--json", str(sleeper.popen.pid)], environment)
    finally:
        sleeper.kill()
    said = [line for line in (stacks.out + stacks.err).splitlines() if "hunter2" in line]
    check_equal(said, [], "secrets in what the stacks quote")
    check("--token ***" in stacks.out, f"the command is not quoted: {stacks.err}")


def device_folder(sandbox):
    """A /dev with a log that this process reads: its socket, and a mount namespace with it as a prefix."""
    if os.getuid() != 0:
        raise Skipped("needs root, to make devices")
    folder = sandbox.fresh("dev")
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(os.path.join(sandbox.fresh("log"), "log"))
    heard.setblocking(False)
    devices = " ".join(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
    return heard, namespace(f"mount -t tmpfs none {folder} && cp -a {devices} {folder} && "
                            f"ln -s /proc/self/fd {folder}/fd && mkdir {folder}/shm {folder}/pts && touch {folder}/log && "
                            f"mount --bind {heard.getsockname()} {folder}/log && mount --rbind /dev/shm {folder}/shm && "
                            f"mount --rbind {folder} /dev")


@case
def system_log_tells_of_aborts(sandbox):
    """Who is the hub, that the hook starts, that the job is ended, and that the process which cannot end is killed."""
    heard, prefix = device_folder(sandbox)
    frozen = os.path.join(sandbox.build.root, "examples", "frozen")
    sandbox.build.need(frozen, sandbox.build.library)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    extra = {"NCCLWATCH_ON_FAULT": "abort", "NCCLWATCH_TIMEOUT": "2", "NCCLWATCH_HOOK": "true",
             "NCCLWATCH_EXCHANGE": f"tcp://127.0.0.1:{port}", "NCCLWATCH_TOKEN": "hunter2"}
    done = sandbox.job(prefix + [frozen, "--rank", "1", "--step", "20"], 2, extra=extra)
    check(86 in done.statuses() or -9 in done.statuses(), f"the job was not ended: {done.done}")
    lines = []
    try:
        while True:
            lines.append(heard.recv(4096).decode())
    except BlockingIOError:
        pass
    for part in ("is the hub of its job's nodes (tcp://127.0.0.1:", "starts the command of NCCLWATCH_HOOK",
                 "ends its job on this node (NCCLWATCH_ON_FAULT=abort) over frozen_process", "kills process "):
        found = [line for line in lines if part in line]
        most = 2 if "hub" in part else 1  # the frozen rank may have led first
        check(1 <= len(found) <= most, f"lines with {part!r} in {lines}")
        check(found[0].startswith("<29>ncclwatch[") and ", uid 0: " in found[0], found[0])
    check("hunter2" not in "".join(lines), "the secret is in the log")


@case
def wrong_values_are_named_once_a_job(sandbox):
    """By the first rank, also where every rank is the first of its node."""
    done = job(sandbox, extra={"NCCLWATCH_GPU": "some", "NCCLWATCH_TIMEOT": "5", "LOCAL_RANK": "0"})
    lines = said(done)
    check_equal(len(lines), 2, f"lines of the job: {lines}")
    check("NCCLWATCH_GPU=some: not understood" in lines[0], lines)
    check("NCCLWATCH_TIMEOT: there is no such variable; is NCCLWATCH_TIMEOUT meant?" in lines[1], lines)
