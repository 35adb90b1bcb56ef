#!/usr/bin/env python3
"""What one program of MPI shows beside the table of cases: `single.py --build FOLDER --mpi MPI NAME`.

Status 77 where that MPI is not installed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from cases import CASES
from mpi_job import Build, Failure, MpiJob, installed, program, sanitizer

ENDED_S = 60
ENDED_BY_US = 86
SKIP = 77


def expect(seen, wanted, what):
    if seen != wanted:
        raise Failure(f"{what}: {seen!r} instead of {wanted!r}")


def run(build, mpi, launcher, case, *options):
    """`ncclwatch run` of two ranks."""
    command = [build.command, "run", "--mpi", mpi, *options, "--", launcher, "-n", "2", program(build, mpi, case.program),
               case.argument]
    environment = {**os.environ, **sanitizer.OPTIONS, "LD_PRELOAD": sanitizer.RUNTIME, "LD_LIBRARY_PATH": "",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=ENDED_S)


# Open MPI's own handler of signals, and UCX's, which MPICH loads.
REPORTS = {"openmpi": ("*** Process received signal ***", "Signal: Segmentation fault"),
           "mpich": ("Caught signal 11 (Segmentation fault",)}


def crash(build, mpi, ranks=3):
    """What the MPI library itself says of a crash stays, and the death is told."""
    def output(watched):
        with MpiJob(build, mpi, CASES["endings.null_pointer"], ranks, watched=watched) as job:
            job.wait(ENDED_S)
            return job.output(), job.offline()[1] if watched else None

    plain, _ = output(False)
    watched, verdict = output(True)
    for line in REPORTS[mpi]:
        if (line in plain) != (line in watched):
            raise Failure(f"{line!r}: without the library\n{plain}\nwith it\n{watched}")
    if mpi == "openmpi" and not all(line in plain for line in REPORTS[mpi]):
        raise Failure(f"Open MPI reports no signal any more: this test proves nothing\n{plain}")
    first = verdict["findings"][0] if verdict["findings"] else None
    if not first or (first["kind"], first["culprits"]) != ("dead_rank", [ranks // 2]) or "SIGSEGV" not in first["summary"]:
        raise Failure(f"{first}")


def idle_launcher(build, mpi):
    """A launcher that stays although ncclwatch has ended all ranks of its job: `ncclwatch run` ends it."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = os.path.join(folder, "mpirun")
        with open(launcher, "w") as file:
            file.write(f"#!/bin/sh\nmpirun.{mpi} \"$@\"\nexec sleep 1000\n")
        os.chmod(launcher, 0o755)
        done = run(build, mpi, launcher, CASES["messages.receive_receive"], "--on-fault", "abort", "--dir", folder)
    if done.returncode != ENDED_BY_US or done.stderr.count("its launcher has not: ending it") != 1:
        raise Failure(f"status {done.returncode}\n{done.stderr}")


def known_leak(build, mpi):
    """A leak is reported and is no problem; the lines that ncclwatch prints for it leave it out, counted."""
    with tempfile.TemporaryDirectory() as folder:
        directory, report, known = (os.path.join(folder, name) for name in ("run", "report.json", "known.txt"))

        def watched(*options):
            done = run(build, mpi, f"mpirun.{mpi}", CASES["lives.left_type"], "--json", report, *options)
            expect(done.returncode, 0, f"status of run\n{done.stderr}")
            with open(report) as file:
                return done.stderr, json.load(file)

        def diagnosed(*options):
            done = subprocess.run([build.command, "diagnose", "--json", *options, directory], capture_output=True, text=True,
                                  timeout=ENDED_S)
            expect(done.returncode, 0, "status of diagnose")
            return json.loads(done.stdout)

        said, told = watched("--dir", directory)
        expect(([finding["kind"] for finding in told["findings"]], told["healthy"]), (["resource_leak"], True), "a leak")
        lines = told["findings"][0]["ignore_lines"]
        for line in lines:
            if f"    {line}\n" not in said:
                raise Failure(f"{line} is not printed\n{said}")
        with open(known, "w") as file:
            file.write("# known\n" + "\n".join(lines) + "\n")
        said, told = watched("--ignore", known)
        ignored = [{"line": lines[0], "findings": 1}]
        expect((told["findings"], told["healthy"], told["ignored"]), ([], True, ignored), "a known leak")
        if "1 known finding is left out" not in said:
            raise Failure(f"it is not counted\n{said}")
        expect(diagnosed()["ignored"], [], "ignored without the file")
        told = diagnosed("--ignore", known)
        expect((told["findings"], told["ignored"]), ([], ignored), "ignored offline")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--mpi", required=True, choices=("openmpi", "mpich"))
    tests = {test.__name__: test for test in (crash, idle_launcher, known_leak)}
    parser.add_argument("name", choices=tests)
    arguments = parser.parse_args()
    if not installed(arguments.mpi):
        return SKIP
    tests[arguments.name](Build(arguments.build), arguments.mpi)
    return 0


if __name__ == "__main__":
    sys.exit(main())
