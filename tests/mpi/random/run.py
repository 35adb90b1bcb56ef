#!/usr/bin/env python3
"""Random programs of MPI, correct ones and such with one fault, each under `ncclwatch run`: is the verdict right?

A correct one is run without the library too, and has to print the same. A seed is a program for ever: generate.py
prints it. Status 1 where a verdict is wrong, 77 where nothing could be run.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import shutil
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)

import faults  # noqa: E402
import generate  # noqa: E402
from cases import ORDER  # noqa: E402
from mpi_job import Build, Failure, Job, installed, library  # noqa: E402

TIMEOUT_S = 5        # NCCLWATCH_TIMEOUT where something is wrong
PATIENCE_S = 30      # and where nothing is: others use this machine too
ENDED_S = 120        # a job that takes longer hangs
SILENT_S = 30        # a faulty one that hangs, and of which nothing is said so long after its fault
STAMP_S = 0.01       # file times are as coarse as the kernel's tick
KEPT = "mpi-failures"
SKIP = 77


def launcher(mpi, ranks):
    options = ["--allow-run-as-root", "--oversubscribe"] if mpi == "openmpi" else []
    return [f"mpirun.{mpi}", *options, "-n", str(ranks)]


def player(build, mpi):
    return os.path.join(build.folder, "mpi", f"mpi_player.{mpi}")


class RandomJob(Job):
    """`ncclwatch run`, or nothing of it, with a program that has no checks of its own where it is wrong."""

    def __init__(self, build, mpi, program, checks, watched=True, **environment):
        wanted = {"LD_LIBRARY_PATH": "", "OMPI_MCA_btl_vader_backing_directory": "{root}",
                  "OMPI_MCA_orte_tmpdir_base": "{root}", **environment}
        self.script = tempfile.NamedTemporaryFile("w", prefix="ncclwatch-program-")
        self.script.write(program.text(checks))
        self.script.flush()
        command = [*launcher(mpi, program.ranks), player(build, mpi), self.script.name]
        super().__init__(build, command, mode="run" if watched else "bare", environment=wanted)

    def end(self):
        super().end()
        self.script.close()

    def until_end(self, after_fault=None):
        """False: it hangs."""
        deadline = time.monotonic() + ENDED_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self.look()
            if after_fault and self.fault_ns():
                deadline, after_fault = time.monotonic() + after_fault, None
            time.sleep(0.01)
        self.look()
        return self.process.poll() is not None

    def documents(self):
        return [document for _, document in self.seen] or [self.offline()[1]]

    def printed_by_program(self):
        return sorted(line for line in self.output().splitlines() if line.startswith("rank "))


class Wrong(Failure):
    """kind: what sort of a miss it is."""

    def __init__(self, kind, text, document=None):
        super().__init__(text)
        self.kind, self.document = kind, document


def described(finding):
    return f"{finding['certainty']} {finding['kind']} of {finding['culprits']}"


def untrue(truth, finding):
    who = truth.kinds.get(finding["kind"])
    if who is None:
        return "wrong kind"
    if not who.hold(finding["culprits"]):
        return "too many ranks" if who.must and who.must <= set(finding["culprits"]) else "wrong rank"
    if ORDER.index(finding["certainty"]) > ORDER.index(truth.most):
        return "too sure"
    return None


def judge(job, truth):
    """The first finding of the last verdict, which has to be true as everything certain before it."""
    documents = job.documents()
    for document in documents:
        for finding in document.get("findings", [])[:1]:
            miss = untrue(truth, finding)
            if miss and finding["certainty"] == "certain":
                raise Wrong(f"certain, {miss}", described(finding), document)
    findings = documents[-1].get("findings", [])
    if not findings:
        raise Wrong("nothing said", "no finding", documents[-1])
    miss = untrue(truth, findings[0])
    if miss:
        raise Wrong(miss, described(findings[0]), documents[-1])
    fault = job.fault_ns()
    if fault and job.seen and job.seen[0][0] / 1e9 < fault / 1e9 - STAMP_S:
        raise Wrong("before the fault", described(job.seen[0][1]["findings"][0]), documents[0])
    return findings[0]


def run_faulty(build, mpi, seed, sort=None):
    program, truth = generate.faulty(seed, sort)
    more = {"NCCLWATCH_MPI_CHECKS": truth.checks} if truth.checks else {}
    with RandomJob(build, mpi, program, checks=False, NCCLWATCH_ON_FAULT="abort",
                   NCCLWATCH_TIMEOUT=str(TIMEOUT_S), **more) as job:
        try:
            ended = job.until_end(SILENT_S)
            finding = judge(job, truth)
            if not ended and finding["certainty"] != "suspected":
                raise Wrong("not ended", described(finding))
            return f"{truth.sort}, {program.ranks} ranks: {described(finding)}"
        except Failure as failure:
            raise keep(build, job, f"{mpi}.{truth.sort}.{seed}", failure, str(truth)) from None


def run_correct(build, mpi, seed, _=None):
    program = generate.correct(seed)
    with RandomJob(build, mpi, program, checks=True, watched=False) as bare:
        if not bare.until_end() or bare.process.returncode:
            raise Wrong("broken program", f"without the library: status {bare.process.returncode}\n{bare.output()}")
        expected = bare.printed_by_program()
    with RandomJob(build, mpi, program, checks=True, NCCLWATCH_TIMEOUT=str(PATIENCE_S)) as job:
        try:
            ended = job.until_end()
            for document in job.documents():
                for finding in document.get("findings", [])[:1]:
                    raise Wrong("flagged", described(finding), document)
            if not ended or job.process.returncode:
                raise Wrong("disturbed", f"status {job.process.returncode} with the library")
            if job.printed_by_program() != expected:
                raise Wrong("disturbed", f"with the library {job.printed_by_program()}\nwithout {expected}")
            seen = job.offline()[1].get("coverage", {}).get("watched")
            if seen != program.ranks:
                raise Wrong("unseen", f"{seen} of {program.ranks} ranks were watched")
            return f"{program.ranks} ranks: clean"
        except Failure as failure:
            raise keep(build, job, f"{mpi}.correct.{seed}", failure, "nothing is wrong") from None


def keep(build, job, name, failure, truth):
    """What is needed to look into it, beside the black boxes: the program, what was said, what is true."""
    failure = failure if isinstance(failure, Wrong) else Wrong("broken", str(failure))
    kept = os.path.join(build.folder, KEPT, name)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(job.root, kept, ignore_dangling_symlinks=True, ignore=shutil.ignore_patterns("vader*", "ompi.*"))
    shutil.copy(job.script.name, os.path.join(kept, "program"))
    with open(os.path.join(kept, "why"), "w") as file:
        file.write(f"{failure.kind}: {failure}\ntruth: {truth}\n{json.dumps(failure.document, indent=1)}\n")
    return Wrong(failure.kind, f"{failure}; true: {truth}; kept in {kept}")


def seeds(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], required=True)
    parser.add_argument("--seeds", default="0-9", help="such as 0-99 or 3,17")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--faulty", action="store_true", help="only programs with a fault")
    which.add_argument("--correct", action="store_true", help="only correct ones")
    parser.add_argument("--sort", choices=sorted(faults.FAULTS), help="of fault, in place of what the seed draws")
    parser.add_argument("--jobs", type=int, default=1, help="at a time")
    parser.add_argument("--seconds", type=float, help="start no further program after so long")
    parser.add_argument("--log", help="a line a program is added to this file (JSON)")
    parser.add_argument("--quiet", action="store_true", help="only what is wrong, and the summary")
    return parser.parse_args()


class Tally:
    def __init__(self, arguments):
        self.arguments, self.outcomes, self.missed = arguments, collections.Counter(), []

    def add(self, what, seed, outcome, text, seconds):
        self.outcomes[what, outcome] += 1
        if outcome != "right":
            self.missed.append(f"{what} {seed}")
        if outcome != "right" or not self.arguments.quiet:
            print(f"{self.arguments.mpi} {what} {seed} ({seconds:.1f} s): {outcome}: {text}", flush=True)
        if self.arguments.log:
            with open(self.arguments.log, "a") as file:
                file.write(json.dumps({"mpi": self.arguments.mpi, "what": what, "seed": seed, "outcome": outcome,
                                       "text": text, "seconds": round(seconds, 2)}) + "\n")

    def summary(self):
        for what in sorted({what for what, _ in self.outcomes}):
            words = [f"{count} {outcome}" for (of, outcome), count in self.outcomes.most_common() if of == what]
            total = sum(count for (of, _), count in self.outcomes.items() if of == what)
            print(f"{self.arguments.mpi}: {total} {what} programs: {', '.join(words)}")
        if self.missed:
            print(f"missed: {', '.join(self.missed)}")


def run_one(build, arguments, what, seed):
    started = time.monotonic()
    try:
        text = (run_faulty if what == "faulty" else run_correct)(build, arguments.mpi, seed, arguments.sort)
        return "right", text, time.monotonic() - started
    except Wrong as wrong:
        return wrong.kind, str(wrong), time.monotonic() - started


def main():
    arguments = options()
    build = Build(arguments.build)
    if not installed(arguments.mpi):
        print(f"no mpirun.{arguments.mpi}")
        return SKIP
    for path in (player(build, arguments.mpi), library(build, arguments.mpi)):
        if not os.path.exists(path):
            print(f"{path}: not built")
            return SKIP
    kinds = ["faulty"] if arguments.faulty or arguments.sort else ["correct"] if arguments.correct else ["correct", "faulty"]
    tally, deadline = Tally(arguments), time.monotonic() + (arguments.seconds or float("inf"))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        def one(work):
            if time.monotonic() < deadline:
                return (*work, *run_one(build, arguments, *work))
            return None
        for result in pool.map(one, [(what, seed) for seed in seeds(arguments.seeds) for what in kinds]):
            if result:
                tally.add(*result)
    tally.summary()
    return 1 if tally.missed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the jobs are ended on the way out
    sys.exit(main())
