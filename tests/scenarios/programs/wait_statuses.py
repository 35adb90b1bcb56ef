#!/usr/bin/env python3
"""examples/launch.py, but for two things: it writes down the wait status of every rank as the kernel tells it, the core
bit included, and it ends nobody until it is told to.

    wait_statuses.py RANKS program arguments

In the folder $TEST_SCENARIO: a line "RANK STATUS" for each end is added to the file `statuses`; when the file `end`
appears, the ranks that are left get SIGTERM. Cores may be written, in that folder.
"""

import argparse
import os
import resource
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "examples"))

import launch


def main():
    folder = os.environ["TEST_SCENARIO"]
    os.chdir(folder)
    if not os.environ.get("NCCLWATCH_TEST_SANITIZER"):  # whose address space is terabytes
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    arguments = argparse.Namespace(ranks=int(sys.argv[1]), command=sys.argv[2:])
    port = launch.free_port()
    started = [launch.start(arguments, rank, port) for rank in range(arguments.ranks)]  # kept: else they are reaped there
    left = {process.pid: rank for rank, process in enumerate(started)}
    ended = False
    while left:
        if not ended and os.path.exists("end"):
            ended = True
            for pid in left:
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGCONT)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.002)
            continue
        with open("statuses", "a") as file:
            file.write(f"{left.pop(pid)} {status}\n")


if __name__ == "__main__":
    main()
