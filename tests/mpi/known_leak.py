#!/usr/bin/env python3
"""A leak is reported and is no problem; the lines that ncclwatch prints for it leave it out, counted.

Status 77 where that MPI is not installed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from cases import CASES
from mpi_job import Build, Failure, installed, program, sanitizer

ENDED_S = 60
SKIP = 77
LEAK = CASES["lives.left_type"]


def expect(seen, wanted, what):
    if seen != wanted:
        raise Failure(f"{what}: {seen!r} instead of {wanted!r}")


def watched(build, mpi, folder, *options):
    """Of one run: standard error and the JSON."""
    report = os.path.join(folder, "report.json")
    command = [build.command, "run", "--mpi", mpi, "--json", report, *options, "--", f"mpirun.{mpi}", "-n", "2",
               program(build, mpi, LEAK.program), LEAK.argument]
    environment = {**os.environ, **sanitizer.OPTIONS, "LD_PRELOAD": sanitizer.RUNTIME, "LD_LIBRARY_PATH": "",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=ENDED_S)
    expect(done.returncode, 0, f"status of run\n{done.stderr}")
    with open(report) as file:
        return done.stderr, json.load(file)


def diagnosed(build, directory, *options):
    done = subprocess.run([build.command, "diagnose", "--json", *options, directory], capture_output=True, text=True,
                          timeout=ENDED_S)
    expect(done.returncode, 0, "status of diagnose")
    return json.loads(done.stdout)


def check(build, mpi, folder):
    directory = os.path.join(folder, "run")
    said, told = watched(build, mpi, folder, "--dir", directory)
    expect(([finding["kind"] for finding in told["findings"]], told["healthy"]), (["resource_leak"], True), "a leak")
    lines = told["findings"][0]["ignore_lines"]
    for line in lines:
        if f"    {line}\n" not in said:
            raise Failure(f"{line} is not printed\n{said}")

    known = os.path.join(folder, "known.txt")
    with open(known, "w") as file:
        file.write("# known\n" + "\n".join(lines) + "\n")
    said, told = watched(build, mpi, folder, "--ignore", known)
    ignored = [{"line": lines[0], "findings": 1}]
    expect((told["findings"], told["healthy"], told["ignored"]), ([], True, ignored), "a known leak")
    if "1 known finding is left out" not in said:
        raise Failure(f"it is not counted\n{said}")
    expect(diagnosed(build, directory)["ignored"], [], "ignored without the file")
    told = diagnosed(build, directory, "--ignore", known)
    expect((told["findings"], told["ignored"]), ([], ignored), "ignored offline")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--mpi", required=True, choices=("openmpi", "mpich"))
    arguments = parser.parse_args()
    if not installed(arguments.mpi):
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        check(Build(arguments.build), arguments.mpi, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
