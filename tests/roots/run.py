#!/usr/bin/env python3
"""Roots of other Debian releases, with the library preloaded into everything: programs do what they do without it, and a
job of that release's own Open MPI is watched. As root, with debootstrap, some minutes and 1 GiB for each release:

    tests/roots/run.py --build build/release [bullseye bookworm trixie]

The roots stay in build/roots; what is there is used again."""

import argparse
import collections
import json
import os
import re
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import debian_root  # noqa: E402
from debian_root import inside  # noqa: E402

RELEASES = ("bullseye", "bookworm", "trixie")
PACKAGES = "python3,git,ca-certificates,openmpi-bin,python3-mpi4py"
PLACE = "/opt/ncclwatch"
GIT = "git -c init.defaultBranch=main -c user.name=n -c user.email=e@x"
PROGRAMS = {
    "true": ["true"],
    "bash": ["bash", "-c", 'x=$(echo inner; exit 3); echo "$x $?"; ls /dev/null | cat; exit 7'],
    "python3": ["python3", "-c", "import ctypes, subprocess, threading, sys\n"
                "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
                "print(subprocess.run(['sh', '-c', 'exit 5']).returncode, ctypes.CDLL(None).strlen(b'four'))\n"
                "sys.exit(9)"],
    "git": ["bash", "-c", f"d=$(mktemp -d) && cd $d && {GIT} init -q . && echo a > f && git add f && {GIT} commit -q -m one "
            "&& git log --format=%s && git status --short"],
    "apt": ["apt-get", "check", "-q"],
    "dpkg": ["dpkg-query", "-W", "-f", "${Status}\n", "libc6"],
    "perl": ["perl", "-e", 'my $p = fork(); if (!$p) { exit 3 } waitpid($p, 0); print $? >> 8, "\n"; exit 2'],
}
# One rank makes a call that the others do not make.
JOB = """
import sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
for step in range(5):
    world.Barrier()
if world.rank == 2:
    time.sleep(60)
world.Barrier()
"""


WHO = {
    "root": [],
    "nobody, without capabilities": ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
                                     "--bounding-set=-all"],
}


def check_doctor(release, root):
    """A bare machine has no fault that ends a job, whoever looks."""
    wrong = []
    for who, prefix in WHO.items():
        status, out, err = inside(root, [*prefix, f"{PLACE}/bin/ncclwatch", "doctor", "--json"], {})
        checks = json.loads(out)["checks"] if out else []
        failed = [check["id"] for check in checks if check["status"] == "FAIL"]
        counts = collections.Counter(check["status"] for check in checks)
        print(f"{release}: doctor as {who}: status {status}, {dict(counts)}, failed {failed}")
        if (status, failed, err) != (0, [], "") or len(checks) < 60:
            wrong.append(f"doctor as {who}: {status} {failed} {err}")
    return wrong


def check_release(release, build):
    libraries = os.path.join(build, "lib")
    root = debian_root.make(release, release, PACKAGES)
    place = root + PLACE
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    for name in os.listdir(libraries):
        if name.endswith(".so"):
            shutil.copy(os.path.join(libraries, name), place)
    os.makedirs(place + "/bin")
    shutil.copy(os.path.join(build, "bin", "ncclwatch"), place + "/bin")
    glibc = inside(root, ["ldd", "--version"], {})[1].splitlines()[0].split()[-1]
    wrong = check_doctor(release, root)
    for library in ("libncclwatch.so", "libncclwatch-openmpi.so"):
        for name, argv in PROGRAMS.items():
            plain = inside(root, argv, {})
            watched = inside(root, argv, {"LD_PRELOAD": f"{PLACE}/{library}"})
            same = plain == watched
            print(f"{release} (glibc {glibc}) {library} {name}: {'as without' if same else f'{watched} for {plain}'}")
            if not same:
                wrong.append(f"{name} under {library}")
    job = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", "-x", f"LD_PRELOAD={PLACE}/libncclwatch-openmpi.so",
           "python3", "-c", JOB]
    status, out, err = inside(root, job, {"NCCLWATCH_TIMEOUT": "2", "NCCLWATCH_ON_FAULT": "abort"})
    watched = re.search(r"watching 4/4 ranks.*", err), re.search(r"missing_participant.*", err)
    print(f"{release}: a job of its Open MPI: {[found.group(0) if found else None for found in watched]}, status {status}")
    if not all(watched) or "rank 2" not in watched[1].group(0):
        wrong.append(f"the job: {out}{err}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("releases", nargs="*", default=RELEASES)
    options = parser.parse_args()
    if not debian_root.can_make():
        print("skipped: needs root and debootstrap")
        return 77
    wrong = {release: check_release(release, options.build) for release in options.releases}
    for release, what in wrong.items():
        print(f"{release}: {'all as without, and watched' if not what else '; '.join(what)}")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
