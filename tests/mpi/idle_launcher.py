#!/usr/bin/env python3
"""A launcher that stays although ncclwatch has ended all ranks of its job: `ncclwatch run` ends it.

Status 77 where that MPI is not installed.
"""

import argparse
import os
import subprocess
import sys
import tempfile

from cases import CASES
from mpi_job import Build, Failure, installed, program, sanitizer

ENDED_S = 60
ENDED_BY_US = 86
SKIP = 77
HANGS = CASES["messages.receive_receive"]


def check(build, mpi):
    with tempfile.TemporaryDirectory() as folder:
        launcher = os.path.join(folder, "mpirun")
        with open(launcher, "w") as file:
            file.write(f"#!/bin/sh\nmpirun.{mpi} \"$@\"\nexec sleep 1000\n")
        os.chmod(launcher, 0o755)
        command = [build.command, "run", "--mpi", mpi, "--on-fault", "abort", "--",
                   launcher, "-n", "2", program(build, mpi, HANGS.program), HANGS.argument]
        environment = {**os.environ, **sanitizer.OPTIONS, "LD_PRELOAD": sanitizer.RUNTIME, "NCCLWATCH_DIR": folder,
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=ENDED_S)
    if done.returncode != ENDED_BY_US or done.stderr.count("its launcher has not: ending it") != 1:
        raise Failure(f"status {done.returncode}\n{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--mpi", required=True, choices=("openmpi", "mpich"))
    arguments = parser.parse_args()
    if not installed(arguments.mpi):
        return SKIP
    check(Build(arguments.build), arguments.mpi)
    return 0


if __name__ == "__main__":
    sys.exit(main())
