#!/usr/bin/env python3
"""Jobs of a real Slurm on this machine (slurmctld, a slurmd a node, munge), preloaded by the TaskProlog and collected by
the epilog of docs/deploy/slurm. `--list` names the tests; status 77 is a skip.

    python3 tests/deploy/slurm/run.py --build build/release requeued
"""

import argparse
import sys

import cases
from slurm_site import Failure, Skip
from cluster import Build  # of ../../nodes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("name", nargs="?")
    arguments = parser.parse_args()
    tests = {case.__name__: case for case in cases.CASES}
    if arguments.list:
        print("\n".join(tests))
        return 0
    try:
        tests[arguments.name](Build(arguments.build))
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
