"""What a preloaded library must leave alone: permissions, handlers, files, locks and endings of the host's."""

import os
import shutil
import sys
import tempfile
import time

from cases_surroundings import namespace
from common import both, check_recorded, program
from harness import Process, Skipped, case, check, check_equal


def under_yama(scope):
    """A prefix for commands that see kernel.yama.ptrace_scope with this value, whatever the kernel has."""
    return namespace("id=$(cat /proc/sys/kernel/random/boot_id) && mount -t tmpfs none /proc/sys/kernel"
                     " && mkdir /proc/sys/kernel/random /proc/sys/kernel/yama"
                     " && echo $id > /proc/sys/kernel/random/boot_id"
                     f" && echo {scope} > /proc/sys/kernel/yama/ptrace_scope")


@case
def no_tracer_is_named(sandbox):
    """There is room for one, and Open MPI's vader and UCX put "anybody" there for their copies between processes."""
    argv = under_yama(1) + [program(sandbox, "witness"), "tracer"]
    job = both(sandbox, argv, 0, ranks=2)
    check_equal(job.outputs(), ["named no tracer\n"] * 2, "what PR_SET_PTRACER was used for")


@case
def a_tracer_is_named_where_it_is_allowed(sandbox):
    argv = [program(sandbox, "witness"), "tracer"]
    allowed = {"NCCLWATCH_PTRACE": "on"}
    job = sandbox.job(under_yama(1) + argv, 2, extra={**allowed, "LEAST_TRACERS": "1"})
    check_equal(job.outputs(), ["named a tracer\n"] * 2, f"what PR_SET_PTRACER was used for ({job.done})")
    job = sandbox.job(under_yama(0) + argv, 2, extra=allowed)
    check_equal(job.outputs(), ["named no tracer\n"] * 2, f"where nobody needs to be named ({job.done})")


@case
def a_handled_signal_waits_for_nobody(sandbox):
    """Virtual machines handle SIGSEGV in many threads at once."""
    plain = sandbox.job([program(sandbox, "witness"), "handled"], preload=False)
    check_equal(plain.statuses(), [0], f"exit status without the library ({plain.done})")
    job = sandbox.job([program(sandbox, "witness"), "handled"])
    check_equal(job.statuses(), [0], f"exit status ({job.done})")
    check_equal(job.outputs(), ["the second handler ran first\nslept 0\n"], "what the threads did")


MPIS = ("openmpi", "mpich")


def register_leaving(mpi, mode, status):
    def test(sandbox):
        library = os.path.join(os.path.dirname(sandbox.build.library), f"libncclwatch-{mpi}.so")
        if not os.path.exists(library):
            raise Skipped(f"no library for {mpi}")
        argv = [program(sandbox, "leaving"), mode]
        if mode == "mpi":
            argv += [sandbox.build.program("hosts", name) for name in ("libmpi_ends.so", "libconstructor.so")]
        for preloads in ([], [library]):
            job = sandbox.job(argv, preload=False, after=preloads, timeout=10)
            check_equal((job.statuses(), job.errors()), ([status], [""]), f"end with {preloads}")

    test.__name__ = f"underscore_exit_of_{mode}_beside_a_held_loader_{mpi}"
    case(test)


for an_mpi in MPIS:
    for who, ends_with in (("child", 7), ("self", 9), ("mpi", 5)):
        register_leaving(an_mpi, who, ends_with)


@case
def no_line_goes_into_a_file_of_the_hosts(sandbox):
    """A program without a standard error, whose next file gets its number: the log of the run directory has the lines."""
    argv = [program(sandbox, "checkpoint")]
    without = ["sh", "-c", 'exec "$@" 0<&- 1<&- 2<&-', "sh"]
    for command in (argv + ["closes"], without + argv + ["finds-closed"]):
        job = sandbox.job(command, extra={"NCCLWATCH_RING": "many"})
        check_equal(job.statuses(), [0], f"exit status ({job.done})")
        check_equal(job.errors(), [""], "standard error")
        with open(os.path.join(job.scratch, "checkpoint")) as file:
            check_equal(file.read(), "weights", "content of the program's file")
        with open(os.path.join(job.directory, "ncclwatch.log")) as file:
            log = file.read()
        check("[ncclwatch rank 0] watching 1/1 ranks" in log, f"the log: {log!r}")
        check_recorded(job, [141])


# Mounts a file system whose server never answers over two files of its own in /proc, and starts the command.
UNREADABLE_PARENT = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
held = []
for name in ("environ", "cmdline"):
    held.append(os.open("/dev/fuse", os.O_RDWR))
    where, how = f"/proc/{os.getpid()}/{name}", f"fd={held[-1]},rootmode=100000,user_id=0,group_id=0"
    if libc.mount(b"none", where.encode(), b"fuse", 0, how.encode()) != 0:
        sys.exit(77)
sys.exit(subprocess.call(sys.argv[1:]))
"""


@case
def first_call_below_a_process_that_cannot_be_read(sandbox):
    """As where a lock of a parent's memory is held for ever: /proc/PID/environ and cmdline wait for it."""
    prefix = namespace("true") + [sys.executable, "-c", UNREADABLE_PARENT]
    if sandbox.run(prefix + ["true"], sandbox.environment(preload=False)).status != 0:
        raise Skipped("no FUSE here")
    for launcher in ({}, {"TORCHELASTIC_RUN_ID": "x"}):
        check_recorded(both(sandbox, prefix + [program(sandbox, "many"), "splits", "3"], 0, extra=launcher), [9] * 3 + [10])


@case
def more_rights_than_the_caller(sandbox):
    """A set-user-id program that has the library in the place of libnccl: no variable of its caller's decides anything."""
    plain, chosen = program(sandbox, "privileged"), sandbox.build.program("hosts", "21003/libnccl.so.2")
    if os.getuid() != 0 or sandbox.build.sanitizer:
        raise Skipped("needs root, for a program with its rights; a sanitizer would have to be preloaded")
    folder = tempfile.mkdtemp(prefix="ncclwatch-test-")  # /dev/shm knows no set-user-id bits
    try:
        os.chmod(folder, 0o755)
        copy = os.path.join(folder, "privileged")
        shutil.copy(plain, copy)
        os.chmod(copy, 0o4755)

        def run(who, *opened):
            place = os.path.join(folder, f"run{who}.{len(opened)}")
            env = {**sandbox.environment(preload=False), "NCCLWATCH_DIR": place, "NCCLWATCH_NCCL": chosen}
            done = Process([copy, *opened], env, cwd=folder, preexec=lambda: os.setuid(who)).wait(time.monotonic() + 30)
            return done.out.splitlines(), os.path.exists(place)

        check_equal(run(0), (["with the same rights", "NCCL 21003"], False), "what NCCLWATCH_NCCL does for root itself")
        lines, watched = run(0, sandbox.build.nccl)
        check_equal((lines[2:], watched), (["done"], True), "root itself is watched")
        lines, watched = run(65534)
        if lines[:1] != ["with more rights"]:
            raise Skipped(f"no set-user-id programs here: {lines}")
        check(lines[1] != "NCCL 21003", "NCCLWATCH_NCCL brings a library into a program with more rights")
        lines, watched = run(65534, sandbox.build.nccl)
        check_equal((lines[2:], watched), (["done"], False), "with more rights: works, and makes no directory")
    finally:
        shutil.rmtree(folder)
