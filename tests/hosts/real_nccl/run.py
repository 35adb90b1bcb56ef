#!/usr/bin/env python3
"""The installed libnccl: every call returns with the library what it returns without, preloaded and through ctypes."""

import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))

from harness import Skipped, case, check, check_equal, run_main  # noqa: E402

ROOT = os.path.join(HERE, "..", "..", "..")
PLACES = ["/usr/local/cuda/lib", "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
          os.path.join(ROOT, "build", "venv", "lib", "python3*", "site-packages", "nvidia", "nccl", "lib")]


def installed():
    for pattern in [os.environ.get("NCCLWATCH_TEST_NCCL", "")] + PLACES + [
            os.path.join(path, "nvidia", "nccl", "lib") for path in sys.path]:
        for folder in sorted(glob.glob(pattern)) if pattern else []:
            path = os.path.join(folder, "libnccl.so.2")
            if os.path.exists(path):
                return os.path.abspath(path)
    raise Skipped("no libnccl.so.2 of NVIDIA's is installed here")


def functions(path):
    if not shutil.which("nm"):
        raise Skipped("no nm here")
    text = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r"[TW] (p?nccl[A-Z]\w+)", text)))
    check(len(names) > 40, f"only {len(names)} functions found in {path}")
    return names


def environments(sandbox, nccl, **options):
    """Without and with the library, on the installed libnccl."""
    found = []
    for preload in (False, True):
        env = sandbox.environment(preload, os.path.join(sandbox.fresh("run"), "dir"), **options)
        env["LD_LIBRARY_PATH"] = os.path.dirname(nccl)
        env["NCCL_DEBUG"] = "NONE"
        env["NCCL_SOCKET_IFNAME"] = "lo"
        found.append(env)
    return found


def compare(sandbox, argv, plain_environment, watched_environment, watched_argv=None, least=40):
    plain = sandbox.run(argv, plain_environment, timeout=110)
    watched = sandbox.run(watched_argv or argv, watched_environment, timeout=110)
    check(len(plain.out.splitlines()) > least, f"the program itself does not run: {plain}")
    differ = [f"without: {a}\n   with: {b}" for a, b in zip(plain.out.splitlines(), watched.out.splitlines()) if a != b]
    check_equal(differ, [], f"results with and without the library ({watched.err})")
    check_equal((watched.status, watched.out), (plain.status, plain.out), f"status and output ({watched.err})")
    print(f"{len(plain.out.splitlines())} results equal")


@case
def preloaded(sandbox):
    program = sandbox.build.program("hosts", "every_call")
    sandbox.build.need(program, sandbox.build.library)
    compare(sandbox, [program], *environments(sandbox, installed()))


@case
def ctypes_under_preload(sandbox):
    sandbox.build.need(sandbox.build.library)
    nccl = installed()
    argv = [sys.executable, os.path.join(HERE, "every_call.py"), nccl] + functions(nccl)
    compare(sandbox, argv, *environments(sandbox, nccl))


@case
def ctypes_drop_in(sandbox):
    sandbox.build.need(sandbox.build.library)
    nccl = installed()
    # The drop-in has the public API; what a libnccl exports beside it (pncclX, internals) it has not.
    with open(os.path.join(ROOT, "include", "ncclwatch", "functions", "nccl.def")) as file:
        public = set(re.findall(r"^HOOK(?:_AS\([^,]+,|\() *\d+, *(\w+),", file.read(), re.M))
    names = [n for n in functions(nccl) if n in public]
    program = [sys.executable, os.path.join(HERE, "every_call.py")]
    plain, _ = environments(sandbox, nccl)
    watched = {**plain, "NCCLWATCH_NCCL": nccl, "NCCLWATCH_DIR": os.path.join(sandbox.fresh("run"), "dir")}
    compare(sandbox, program + [nccl] + names, plain, watched, program + [sandbox.build.library] + names)


@case
def switched_off(sandbox):
    program = sandbox.build.program("hosts", "every_call")
    sandbox.build.need(program, sandbox.build.library)
    compare(sandbox, [program], *environments(sandbox, installed(), extra={"NCCLWATCH": "off"}))


if __name__ == "__main__":
    run_main("real_nccl")
