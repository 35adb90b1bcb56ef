#!/usr/bin/env python3
"""Starts N ranks of one program on this machine, with the variables that torchrun sets, and nothing more.

    examples/launch.py -n 4 [--kill-others-on-exit] [--timeout S] -- ./program arguments

Waits for all ranks (a rank that dies leaves the others waiting, as under srun) unless --kill-others-on-exit is given
(as under torchrun). Exits with the status of the rank that failed first, 128 + n for a signal, 124 after --timeout.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time

GRACE_S = 5.0  # between SIGTERM and SIGKILL


def free_port():
    # The programs listen a little above MASTER_PORT: below the range that the kernel hands out for outgoing connections.
    for attempt in range(1000):
        port = 10000 + (os.getpid() * 37 + attempt * 101) % 20000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue
    raise SystemExit("launch.py: no free port")


def start(arguments, rank, port):
    environment = dict(os.environ)
    environment.update(
        RANK=str(rank), LOCAL_RANK=str(rank), GROUP_RANK="0", WORLD_SIZE=str(arguments.ranks),
        LOCAL_WORLD_SIZE=str(arguments.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    return subprocess.Popen(arguments.command, env=environment)


def end(processes):
    """SIGTERM, then SIGKILL, to whoever is left."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)  # a stopped process would never see the first
    deadline = time.monotonic() + GRACE_S
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def status_of(process):
    return 128 - process.returncode if process.returncode < 0 else process.returncode


def watch(processes, arguments):
    """Returns the job's status: of the first rank that failed, in time."""
    deadline = time.monotonic() + arguments.timeout if arguments.timeout else None
    status, left = 0, list(processes)
    while left:
        for process in [p for p in left if p.poll() is not None]:
            left.remove(process)
            status = status or status_of(process)
        if status and arguments.kill_others_on_exit:
            return status
        if deadline and time.monotonic() > deadline:
            print("launch.py: time is up, ending the ranks that are left", file=sys.stderr)
            return status or 124
        time.sleep(0.01)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, required=True, help="how many ranks")
    parser.add_argument("--kill-others-on-exit", action="store_true", help="a rank that fails ends the job")
    parser.add_argument("--timeout", type=float, help="seconds after which what is left is ended")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- program arguments")
    arguments = parser.parse_args()
    if arguments.command[:1] == ["--"]:
        arguments.command = arguments.command[1:]
    if not arguments.command or arguments.ranks < 1:
        parser.error("a program and at least one rank are needed")

    def interrupted(number, _):
        end(processes)
        sys.exit(128 + number)

    processes = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupted)
    port = free_port()
    for rank in range(arguments.ranks):
        processes.append(start(arguments, rank, port))
    try:
        return watch(processes, arguments)
    finally:
        end(processes)


if __name__ == "__main__":
    sys.exit(main())
