#!/usr/bin/env python3
"""Process 1 of one node, a set of namespaces made by cluster.py: starts ranks, signals them, and reaps what it inherits.

Orders come as lines of JSON on standard input, answers go to standard output. When the input ends, or this process,
everything in its pid namespace ends with it.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys

SIOCETHTOOL = 0x8946
# Checksums and segments as they would be on a wire: a relay in user space hands frames on as it reads them.
ETHTOOL_OFF = (0x15, 0x17, 0x1f, 0x24, 0x2c)  # set: rx and tx checksum, tso, gso, gro


def plain_wire(device):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for command in ETHTOOL_OFF:
            value = struct.pack("II", command, 0)
            buffer = (value + bytes(8))
            memory = ctypes.create_string_buffer(buffer)
            request = struct.pack("16sP", device.encode(), ctypes.addressof(memory)) + bytes(16)
            try:
                fcntl.ioctl(probe, SIOCETHTOOL, request)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                    raise


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def set_up(order):
    """A /dev/shm, a host name, a boot id and an address of its own; one folder of the host's memory for softgpu."""
    socket.sethostname(order["host"])
    mount("--make-rprivate", "/")
    mount("-t", "proc", "proc", "/proc")
    mount("--bind", order["softgpu"], order["softgpu_at"])
    mount("-t", "tmpfs", "-o", "size=2g", "node", "/dev/shm")
    mount("--bind", order["boot_id"], "/proc/sys/kernel/random/boot_id")
    for command in (["ip", "link", "set", "lo", "up"], ["ip", "addr", "add", order["address"] + "/24", "dev", "eth0"],
                    ["ip", "link", "set", "eth0", "up"]):
        subprocess.run(command, check=True)
    plain_wire("eth0")


class Agent:
    def __init__(self):
        self.ranks = {}   # rank -> pid
        self.ended = {}   # rank -> status as waitpid gives it
        self.pids = {}    # pid -> rank

    def start(self, order):
        with open(order["output"], "ab") as output:
            process = subprocess.Popen(order["command"], env=order["environment"], stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self.ranks[order["rank"]] = process.pid
        self.pids[process.pid] = order["rank"]
        process.returncode = 0  # reaped below, with everything else
        return process.pid

    def signal(self, order):
        if order["rank"] in self.ended:
            return False
        os.kill(self.ranks[order["rank"]], order["signal"])
        return True

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.pids:
                self.ended[self.pids[pid]] = status

    def obey(self, order):
        self.reap()
        what = order.pop("do")
        if what == "set_up":
            return set_up(order)
        if what == "start":
            return self.start(order)
        if what == "signal":
            return self.signal(order)
        if what == "ended":
            return {str(rank): status for rank, status in self.ended.items()}
        raise ValueError(what)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent = Agent()
    for line in iter(sys.stdin.readline, ""):
        try:
            answer = {"is": agent.obey(json.loads(line))}
        except Exception as error:  # pylint: disable=broad-except
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
