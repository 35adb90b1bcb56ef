#!/usr/bin/env python3
"""MPI-CorrBench, level 0, under `ncclwatch run`: which faulty programs are named, and is each correct one left alone?

    run.py --build build/release --mpi openmpi|mpich FOLDER [--only TEXT]... [--json FILE]

FOLDER is a clone of https://github.com/tudasc/MPI-Corrbench. A file's name tells the truth: which sort of fault, and in
which function ("ArgError-MPIAllgather-Type-2.c"); what lies below `correct` has none. A fault is named if a finding has a
kind that fits the sort, and for a wrong argument also names the function. Programs in INVISIBLE make only calls that MPI
allows.
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

RANKS = 2  # as in the benchmark's own scripts
LIMIT_S = 60
NO_MPI = 77

ARGUMENTS = {"invalid_argument", "library_error", "argument_mismatch", "point_to_point_mismatch", "epoch_error"}
WAITS = {"deadlock", "missing_participant", "initialization_hang", "order_mismatch", "early_exit",
         "point_to_point_mismatch"}
KINDS = {
    "ArgError": ARGUMENTS | {"request_error", "resource_leak"},
    "ArgMismatch": ARGUMENTS | WAITS | {"request_error"},
    "MisplacedCall": WAITS | {"invalid_argument", "request_error", "epoch_error"},
    "MissingCall": WAITS | {"invalid_argument", "request_error", "epoch_error", "resource_leak", "missing_finalize"},
}
# No call shows these: a variable's own type or size differs from what the call says, memory is freed too early, or MPI
# allows what is done (a freed request, a tag or rank that is a wildcard, windows that overlap).
INVISIBLE = re.compile("|".join((
    r"coll/ArgError-MPIAllgather-(Count-1|Type-3|Type-4)",
    r"coll/ArgError-MPIGather-(Count-2|Type-3|Type-4)",
    r"coll/ArgError-MPIReduce-(Count-3a|Type-2|Type-3)",
    r"coll/ArgError-MPIScatter-(Count-1|Type-1|Type-3)$",
    r"pt2pt/ArgError-MPII?Recv-(Rank-[12]|Tag)$",
    r"pt2pt/ArgError-MPIIRecv-(Count-1|Type-3)$",
    r"pt2pt/ArgError-MPI(Recv-Count-2|Send-Type-3|Send-Tag-2|ISend-Tag-2|Test-Status)$",
    r"pt2pt/(ArgMismatch-MPIRecv-Type-1|MissingCall-MPIWait)$",
    r"rma/ArgError-MPI(Put-count|WinCreate-invalidBuffer-2|WinCreate-overlap|WinFence-assert)$",
    r"rma/MisplacedCall-MPIWinFree-bufferFree$",
    r"usertypes/ArgError-MPI(Send-Type-[14]|TypeCreateHVector-Stride)$",
    r"usertypes/ArgError-MPITypeCreateStruct-(Blocklengths|Count-[23]|Datatype-[12]|Displacements-[12])$",
)))
# Only NCCLWATCH_MPI_CHECKS shows these: the program relies on buffered sends, or touches a buffer in use.
NEEDS_CHECKS = re.compile(r"MPIBarrier-Deadlock-2|MPIRecv-Deadlock-[24]|pt2pt/MisplacedCall-MPIWait|bufferModification")


NOTHING = {"findings": [], "healthy": False}


class Program:
    def __init__(self, folder, path):
        self.path = path
        self.name = os.path.relpath(path, folder)[:-2]
        self.correct = self.name.startswith("correct" + os.sep)
        self.sort, function = ("correct", "") if self.correct else os.path.basename(self.name).split("-")[:2]
        self.function = function.removeprefix("MPI").lower()

    def names(self, finding):
        """Whether the finding is about the fault that the file's name tells."""
        text = json.dumps([finding["summary"], finding["evidence"], [call["op"] for call in finding["calls"]]])
        named = self.sort != "ArgError" or self.function in text.replace("_", "").lower()
        return finding["kind"] in KINDS[self.sort] and named


def programs(folder):
    base = os.path.join(folder, "micro-benches", "0-level")
    paths = []
    for below in ("coll", "pt2pt", "rma", "usertypes", "correct/*"):
        paths += sorted(glob.glob(os.path.join(base, below, "*.c")))
    return [Program(base, path) for path in paths]


def compile_program(mpi, base, program, to):
    command = [f"mpicc.{mpi}", "-g", "-w", "-fopenmp", "-I", os.path.join(base, "correct", "include"), program.path, "-o", to,
               "-lm"]
    return subprocess.run(command, capture_output=True, text=True).returncode == 0


def launcher(mpi):
    if mpi == "mpich":
        return ["mpirun.mpich", "-n", str(RANKS)]
    return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS)]


def run(words, environment, output):
    """The exit status; None if the time was up."""
    with open(output, "w") as out:
        job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment,
                               start_new_session=True)
        try:
            return job.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGTERM)
            try:
                job.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
            return None


def watched(build, mpi, binary, root, checks):
    """The diagnosis of one job, and its exit status."""
    directory = os.path.join(root, "run")
    environment = dict(os.environ, NCCLWATCH_DIR=directory, NCCLWATCH_ON_FAULT="abort",
                       NCCLWATCH_MPI_CHECKS=checks or "default")
    command = os.path.join(build, "bin", "ncclwatch")
    status = run([command, "run", "--", *launcher(mpi), binary], environment, os.path.join(root, "output"))
    told = subprocess.run([command, "diagnose", "--json", directory], capture_output=True, text=True)
    return (json.loads(told.stdout) if told.stdout else NOTHING), status


def judge(program, diagnosis, checks):
    if program.correct:
        return "right" if diagnosis["healthy"] else "false alarm"
    findings = diagnosis["findings"]
    if any(program.names(finding) for finding in findings):
        return "named"
    if INVISIBLE.search(program.name):
        return "invisible"
    if NEEDS_CHECKS.search(program.name) and not checks:
        return "needs checks"
    return "named otherwise" if findings else "silent"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], required=True)
    parser.add_argument("--only", action="append", default=[], help="programs whose name contains the text")
    parser.add_argument("--checks", help="NCCLWATCH_MPI_CHECKS, as in sync,buffers")
    parser.add_argument("--json", help="one line for each program, with its findings")
    parser.add_argument("folder")
    options = parser.parse_args()
    if not shutil.which(f"mpicc.{options.mpi}"):
        print(f"no mpicc.{options.mpi}")
        return NO_MPI
    base = os.path.join(options.folder, "micro-benches", "0-level")
    counts = collections.Counter()
    with open(options.json or os.devnull, "w") as lines:
        for program in programs(options.folder):
            if options.only and not any(text in program.name for text in options.only):
                continue
            with tempfile.TemporaryDirectory() as root:
                binary = os.path.join(root, "program")
                if not compile_program(options.mpi, base, program, binary):
                    verdict, diagnosis, status = "does not compile", NOTHING, None
                else:
                    diagnosis, status = watched(os.path.abspath(options.build), options.mpi, binary, root,
                                                options.checks)
                    verdict = judge(program, diagnosis, options.checks)
            findings = diagnosis["findings"]
            counts[program.sort, verdict] += 1
            kinds = ", ".join(f"{finding['kind']} ({finding['certainty']})" for finding in findings[:3])
            print(f"{verdict:16} {program.name}  status {status}  {kinds}", flush=True)
            lines.write(json.dumps({"program": program.name, "verdict": verdict, "status": status,
                                    "findings": findings}) + "\n")
            lines.flush()
    for (sort, verdict), count in sorted(counts.items()):
        print(f"{count:4} {sort}: {verdict}")
    return 1 if any(verdict == "false alarm" for _, verdict in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
