#!/usr/bin/env python3
"""What `ncclwatch top` costs while it shows a job whose ranks all make calls: processor time by time that passes.
Usage: top.py --build BUILD [--ranks 1024] [--calls 20] [--seconds 60]"""

import argparse
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time


def processor_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drain(master, seconds):
    until, written = time.monotonic() + seconds, 0
    while (left := until - time.monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            written += len(os.read(master, 1 << 16))
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--calls", type=int, default=20, help="a second, of each rank")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="ncclwatch-top-", dir="/dev/shm")
    boxes = subprocess.Popen([os.path.join(options.build, "tests", "bench", "many_boxes"), directory, str(options.ranks),
                              str(options.calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        boxes.stdout.readline()
        pid, master = pty.fork()
        if pid == 0:
            command = os.path.join(options.build, "bin", "ncclwatch")
            os.execve(command, [command, "top", directory], {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "50"})
        drain(master, 10)  # the boxes are opened, and assessed once
        began, used = time.monotonic(), processor_s(pid)
        written = drain(master, options.seconds)
        share = (processor_s(pid) - used) / (time.monotonic() - began)
        print(f"{options.ranks} ranks, {4 * options.ranks} rows, {options.calls} calls a second each, 2 redraws a second: "
              f"{100 * share:.1f} % of a core, {written / options.seconds / 1e3:.1f} kB/s to the terminal")
        os.write(master, b"q")
        os.waitpid(pid, 0)
        return 0
    finally:
        boxes.stdin.close()
        boxes.wait()
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(main())
