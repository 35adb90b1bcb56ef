#!/usr/bin/env python3
"""What preloading a library adds to the start of a program that never uses NCCL: runs in turns, without and with each
library, and the medians of the differences. Usage: start_up.py [--runs N] [--program /bin/true] LIBRARY..."""

import argparse
import os
import statistics
import time


def once(program, library):
    environment = {**os.environ, "LD_PRELOAD": library} if library else dict(os.environ)
    started = time.perf_counter_ns()
    pid = os.posix_spawn(program, [program], environment)
    os.waitpid(pid, 0)
    return (time.perf_counter_ns() - started) / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--program", default="/bin/true")
    parser.add_argument("libraries", nargs="+")
    options = parser.parse_args()
    which = [None] + [os.path.abspath(library) for library in options.libraries]
    times = {library: [] for library in which}
    for run in range(options.runs):
        for library in which[run % len(which):] + which[:run % len(which)]:
            times[library].append(once(options.program, library))
    print(f"{statistics.median(times[None]):8.0f} us  {options.program} alone")
    for library in which[1:]:
        added = [with_it - alone for with_it, alone in zip(times[library], times[None])]
        print(f"{statistics.median(added):+8.0f} us  {library}")


if __name__ == "__main__":
    main()
