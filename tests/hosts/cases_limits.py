"""Healthy jobs under limits and in confined places: status and output are those of the job without the library.

Each place is one function (sandbox) -> options of Sandbox.job. Each is tried with two jobs."""

import os
import resource
import shutil
import subprocess

from cases_surroundings import namespace
from common import program
from harness import CASES, Skipped, check, check_equal

KIB, MIB = 1 << 10, 1 << 20
JOBS = {"communicators": ("many", "splits", "5"), "calls": ("limits", "calls", "0")}


def limit(which, most):
    """A soft and hard limit of each process."""
    return lambda sandbox, job: {"preexec": lambda: resource.setrlimit(which, (most, most))}


def address_space(above):
    """As much address space as the job needs by itself, and so much more."""

    def place(sandbox, job):
        if sandbox.build.sanitizer:
            raise Skipped("sanitizers need terabytes of address space")
        most = smallest(lambda value: runs(sandbox, job, resource.RLIMIT_AS, value * MIB), 8, 4096) * MIB
        return {"preexec": lambda: resource.setrlimit(resource.RLIMIT_AS, (most + above, most + above))}

    return place


def descriptors(above):
    def place(sandbox, job):
        least = smallest(lambda value: runs(sandbox, job, resource.RLIMIT_NOFILE, value), 3, 256)
        return {"preexec": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (least + above, least + above))}

    return place


def processes(above):
    """An ordinary user, since the limit does not bind root. The kernel counts by user: each test is another one."""
    user = 20000 + os.getpid() % 40000

    def place(sandbox, job):
        if os.getuid() != 0:
            raise Skipped("needs root, to become another user")
        os.chmod(sandbox.path, 0o777)

        def confine():
            resource.setrlimit(resource.RLIMIT_NPROC, (1 + above, 1 + above))
            os.umask(0)
            os.setuid(user)

        return {"preexec": confine, "user": user}

    return place


def mounted(commands):
    return lambda sandbox, job: {"prefix": namespace(commands.replace("SANDBOX", sandbox.path))}


def profile(name):
    def place(sandbox, job):
        confined = program(sandbox, "confined")
        if subprocess.run([confined, name, "true"], capture_output=True).returncode != 0:
            raise Skipped("no seccomp filters here")
        return {"prefix": [confined, name]}

    return place


def runs(sandbox, job, which, most):
    preexec = lambda: resource.setrlimit(which, (most, most))  # noqa: E731
    return start(sandbox, job, False, preexec=preexec).statuses() == [0]


def smallest(fits, low, high):
    check(fits(high), f"the job does not run with {high} either")
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return high


def start(sandbox, job, preload, prefix=(), user=None, extra=None, **options):
    """One rank. Everything that the program writes lies in the sandbox."""
    scratch = sandbox.fresh("place")
    if user:
        os.chmod(scratch, 0o777)
    extra = {"SOFTGPU_NCCL_DIR": scratch, "HOST_ID_DIR": scratch, "TMPDIR": scratch, "NCCLWATCH_DIR": None, **(extra or {})}
    name, *arguments = job
    return sandbox.job([*prefix, program(sandbox, name), *arguments], 1, preload=preload, extra=extra, **options)


# A mount over /dev/shm hides the sandbox, which lies in it: it is mounted there again.
OVER = "mkdir -p /tmp/ncclwatch-limits && mount --bind SANDBOX /tmp/ncclwatch-limits && {} && mkdir -p SANDBOX && mount --bind /tmp/ncclwatch-limits SANDBOX"
PLACES = {
    **{f"file_size_{size}": limit(resource.RLIMIT_FSIZE, size) for size in (0, KIB, 64 * KIB, MIB, 3 * MIB, 20 * MIB)},
    **{f"address_space_{above // MIB}": address_space(above) for above in (0, 2 * MIB, 16 * MIB)},
    **{f"descriptors_{above}": descriptors(above) for above in (0, 2, 8)},
    **{f"processes_{above}": processes(above) for above in (0, 1)},
    **{f"stack_{size // KIB}": limit(resource.RLIMIT_STACK, size) for size in (64 * KIB, 256 * KIB)},
    "shm_full": mounted(OVER.format("mount -t tmpfs -o size=64k,nr_inodes=64 none /dev/shm && "
                                    "(dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null; true)")),
    "shm_noexec": mounted("mount -o remount,bind,noexec /dev/shm"),
    "shm_absent": mounted(OVER.format("mount -t tmpfs -o ro,size=4k none /dev/shm 2>/dev/null; true")
                          .replace("&& mkdir -p SANDBOX && mount", "; true || mount")),
    "root_read_only": mounted("mount -o remount,bind,ro /"),
    **{f"seccomp_{name}": profile(name) for name in ("docker", "service")},
}


def register(name, place, job):
    def run(sandbox):
        options = place(sandbox, job)
        plain = start(sandbox, job, False, **options)
        watched = start(sandbox, job, True, **options)
        check_equal(watched.statuses(), plain.statuses(), f"exit status with and without the library ({watched.done})")
        check_equal(watched.outputs(), plain.outputs(), "standard output")
        said = [line for line in watched.errors()[0].splitlines()
                if "ncclwatch" in line and line not in plain.errors()[0]]
        check(len([line for line in said if "watching 1/1" not in line]) <= 1, f"more than one line: {said}")
        left = os.path.join("/dev/shm", f"ncclwatch-{options.get('user', os.getuid())}")
        check(not os.path.isdir(left) or not any(name.startswith(".trial") for name in os.listdir(left)), "a trial is left")

    CASES[f"limits_{name}"] = run


for which, job in JOBS.items():
    for place_name, make in PLACES.items():
        register(f"{place_name}_{which}", make, job)
