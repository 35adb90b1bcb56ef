#!/usr/bin/env python3
"""Many healthy jobs one after the other under plain preload, in the default place: none may fail, nothing may stay.

For a small /dev/shm, as in a container:
  unshare -m sh -c 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"' sh \\
      python3 tests/hosts/many_jobs.py --build build/release --jobs 1000
"""

import argparse
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Build, Sandbox  # noqa: E402


def left():
    place = f"/dev/shm/ncclwatch-{os.geteuid()}"
    return sorted(os.listdir(place)) if os.path.isdir(place) else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    build = Build(options.build)
    program = build.program("hosts", "many")
    build.need(program, build.library, build.nccl)
    before = left()
    failed, most_used, began = [], 0, time.monotonic()
    with Sandbox(build) as sandbox:
        os.rmdir(sandbox.path)  # not in the place that is looked at
        sandbox.path = tempfile.mkdtemp(prefix="ncclwatch-many-", dir="/tmp")
        for number in range(options.jobs):
            job = sandbox.job([program, "splits", "3"], options.ranks, extra={"NCCLWATCH_DIR": None})
            words = [line for error in job.errors() for line in error.splitlines()
                     if "ncclwatch" in line and "watching" not in line]
            if job.statuses() != [0] * options.ranks or words:
                failed.append((number, job.done))
            space = os.statvfs("/dev/shm")
            most_used = max(most_used, (space.f_blocks - space.f_bfree) * space.f_frsize)
    stayed = [name for name in left() if name not in before]
    print(f"{options.jobs} jobs of {options.ranks} ranks in {time.monotonic() - began:.0f} s: {len(failed)} failed or "
          f"said something, {len(stayed)} run directories left, at most {most_used / 2**20:.1f} MiB used after a job")
    for number, done in failed[:3]:
        print(f"job {number}: {done}")
    for name in stayed[:10]:
        print("left:", name, os.listdir(os.path.join(f"/dev/shm/ncclwatch-{os.geteuid()}", name)))
    return 1 if failed or stayed else 0


if __name__ == "__main__":
    sys.exit(main())
