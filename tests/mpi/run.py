#!/usr/bin/env python3
"""MPI programs with one fault each, or none, under watch: is the verdict right?

Status 1 where a case is misjudged, 77 where all are skipped. With --plain nothing of ncclwatch runs: does
each program behave as cases.py says?
"""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from cases import CASES, OPEN, ORDER, SHORT
from mpi_job import Build, ENDED_S, Failure, MpiJob, installed, library, program
from spread_job import Skip, SpreadMpiJob, check_possible

STAMP_S = 0.01  # file times are as coarse as the kernel's tick
KEPT = "mpi-failures"  # below the build folder: run directories of what was misjudged
SKIP = 77
NEEDED = {"fortran": " (is there a gfortran?)", "mpi4py": " (is there python3-mpi4py?)"}


class CertainlyWrong(Failure):
    """No later verdict makes up for it."""


def described(finding):
    return f"{finding['certainty']} {finding['kind']} of {finding['culprits']}"


def wrong(case, ranks, finding):
    """What is not true of a finding that comes first, or None."""
    who = case.who(ranks)
    if finding["kind"] not in case.kinds:
        return f"{described(finding)}: the kind is {' or '.join(case.kinds)}"
    if not who.hold(finding["culprits"]):
        return f"{described(finding)}: it is {who}"
    if ORDER.index(finding["certainty"]) > ORDER.index(case.most):
        return f"{described(finding)}: nobody can be so certain"
    return None


def judge(case, ranks, documents):
    """documents: all that was said. Nothing certain may ever have been wrong; the last has to be right."""
    for document in documents:
        for finding in document.get("findings", [])[:1]:
            fault = wrong(case, ranks, finding)
            if fault and finding["certainty"] == "certain":
                raise CertainlyWrong(f"certain, and wrong: {fault}\n{json.dumps(document, indent=1)}")
    last = documents[-1]
    findings = last.get("findings", [])
    if not findings:
        raise Failure(f"no finding, wanted {case.kinds[0]}: {case.who(ranks)}")
    fault = wrong(case, ranks, findings[0])
    if not fault and ORDER.index(findings[0]["certainty"]) < ORDER.index(case.least):
        fault = f"{described(findings[0])}: it can be said with more certainty, {case.least} at the least"
    if fault:
        raise Failure(f"{fault}\n{json.dumps(last, indent=1)}")
    return findings[0]


def right(case, ranks, documents):
    try:
        return judge(case, ranks, documents)
    except CertainlyWrong:
        raise
    except Failure:
        return None


def documents_of(job):
    """What the watchdog said while the job lived; where it said nothing, what the black boxes say afterwards."""
    job.look()
    if job.seen:
        return [document for _, document in job.seen]
    return [job.offline()[1]]


def since_fault(job, prompt):
    """When the first verdict came, in words."""
    fault = job.fault_ns()
    if not job.seen or not fault:
        return "afterwards"
    seconds = (job.seen[0][0] - fault) / 1e9
    if seconds < -STAMP_S:
        raise Failure(f"a verdict {-seconds:.3f} s before the fault: {described(job.seen[0][1]['findings'][0])}")
    if prompt and seconds > prompt:
        raise Failure(f"the verdict came {seconds:.2f} s after the fault")
    return f"{seconds:.2f} s after the fault"


def watched_job(build, mpi, case, ranks, nodes, environment=None):
    if nodes == 1:
        return MpiJob(build, mpi, case, ranks, environment=environment)
    return SpreadMpiJob(build, mpi, case, ranks, nodes, environment)


def run_faulty(build, mpi, case, ranks, keep, prompt=None, nodes=1):
    with watched_job(build, mpi, case, ranks, nodes) as job:
        try:
            job.until_verdict_or_end(lambda documents: right(case, ranks, documents))
            first = judge(case, ranks, documents_of(job))
            return f"{described(first)}, {since_fault(job, prompt)}"
        except Failure as failure:
            keep(job)
            raise Failure(f"{failure}\n--- the output ends\n{job.output()[-2000:]}") from None


def check_counts(job):
    """A call that goes through a tool is recorded once, whoever comes first."""
    listed = subprocess.run([job.build.command, "trace", "--json", "--op", "Allreduce", job.run_directory],
                            capture_output=True, text=True, timeout=60, check=True).stdout
    recorded = collections.Counter(json.loads(line)["rank"] for line in listed.splitlines())
    told = {int(rank): int(calls) for rank, calls in re.findall(r"tool on rank (\d+): (\d+) calls", job.output())}
    if dict(recorded) != told:
        raise Failure(f"MPI_Allreduce by rank: {dict(recorded)} recorded, {told} made")


def run_clean(build, mpi, case, ranks, keep, nodes=1, checks=None):
    environment = {"NCCLWATCH_MPI_CHECKS": checks} if checks else None
    with MpiJob(build, mpi, case, ranks, watched=False) as bare:
        status, expected = bare.wait(ENDED_S), bare.printed_by_program()
    if status:
        raise Failure(f"status {status} without the library\n{expected}")
    with watched_job(build, mpi, case, ranks, nodes, environment) as job:
        try:
            status = job.wait(ENDED_S)
            found = documents_of(job)[-1].get("findings", [])
            if found:
                raise Failure(f"{described(found[0])}: nothing is wrong\n{json.dumps(found, indent=1)}")
            if (status, job.printed_by_program()) != (0, expected):
                raise Failure(f"status {status}; with the library\n{job.printed_by_program()}\nwithout\n{expected}")
            if case.tool:
                check_counts(job)
            seen = job.offline()[1].get("coverage", {}).get("watched")
            if seen != ranks and not case.spawns:
                raise Failure(f"{seen} of {ranks} ranks were watched")
        except Failure as failure:
            keep(job)
            raise Failure(f"{failure}\n--- the output ends\n{job.output()[-2000:]}") from None
    return "clean"


def run_plain(build, mpi, case, ranks, keep):
    with MpiJob(build, mpi, case, ranks, watched=False) as job:
        how = job.how_it_ends_alone()
        output = job.output()
    left = job.leftovers()
    if left:
        raise Failure(f"processes {left} are left")
    if how not in case.endings(mpi):
        raise Failure(f"alone it {how}, the table says {' or '.join(case.endings(mpi))}\n{output[-2000:]}")
    if case.clean and len([line for line in output.splitlines() if line.startswith("rank ")]) != ranks:
        raise Failure(f"not a line a rank:\n{output}")
    return f"alone it {how}"


def keeper(build, name):
    def keep(job):
        kept = os.path.join(build.folder, KEPT, name)
        shutil.rmtree(kept, ignore_errors=True)
        try:
            shutil.copytree(job.root, kept, ignore_dangling_symlinks=True,
                            ignore=shutil.ignore_patterns("vader*", "ompi.*", "*.draft.*"))
        except shutil.Error as gone:  # the job may still live and clear away
            print(f"not all of it could be kept: {gone}", flush=True)
        print(f"what the job left is kept in {kept}", flush=True)
    return keep


def why_not(build, mpi, case, plain, nodes):
    if nodes > 1 and (case.tool or case.program.startswith(("mpi4py", "fortran"))):
        return "not over several nodes"
    if mpi not in case.mpis:
        return f"not a case of {mpi}"
    if not installed(mpi):
        return f"no mpirun.{mpi}"
    needed = [program(build, mpi, case.program)] + ([] if plain else [library(build, mpi), build.command])
    missing = [path for path in needed if not os.path.exists(path)]
    why = next((why for word, why in NEEDED.items() if case.program.startswith(word)), "")
    return f"{' and '.join(missing)}: not built{why}" if missing else None


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], required=True)
    parser.add_argument("--case", action="append", help="FAMILY.CASE, or a FAMILY; may be repeated; default: all")
    parser.add_argument("--ranks", type=lambda text: tuple(map(int, text.split(","))),
                        help="such as 2,4,7; default: the case's own")
    parser.add_argument("--runs", type=int, default=1, help="of each case with each number of ranks")
    parser.add_argument("--nodes", type=int, default=1, help="so many, namespaces of this machine, share the ranks")
    parser.add_argument("--checks", metavar="WORDS", help="NCCLWATCH_MPI_CHECKS of the clean cases")
    parser.add_argument("--plain", action="store_true",
                        help="without the library: does the program do what the table says")
    parser.add_argument("--prompt", type=float, metavar="SECONDS",
                        help="a verdict that has to be certain comes within so long after the fault")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--short", action="store_true", help="only the few that every change is tried on")
    parser.add_argument("--open", action="store_true", help="also what is known not to be found yet")
    return parser.parse_args()


def chosen(arguments):
    wanted = arguments.case
    return [case.on(arguments.mpi) for case in CASES.values()
            if arguments.mpi in case.mpis and (not arguments.short or case.name in SHORT)
            and (arguments.open or arguments.plain or case.name in (wanted or ())
                 or case.name not in OPEN)
            and (not wanted or case.name in wanted or case.name.split(".")[0] in wanted)]


def run_case(build, case, arguments):
    """All its runs; how many of them failed."""
    mpi, failed = arguments.mpi, 0
    run = run_plain if arguments.plain else run_clean if case.clean else run_faulty
    # The time-out has to pass first where nothing is certain.
    more = {} if run is run_plain else {"nodes": arguments.nodes}
    if run is run_faulty and case.least == "certain":
        more["prompt"] = arguments.prompt
    if run is run_clean:
        more["checks"] = arguments.checks
    sizes = [ranks for ranks in arguments.ranks or case.ranks
             if ranks >= min(case.ranks) and ranks % arguments.nodes == 0]
    for ranks, number in [(ranks, number) for ranks in sizes for number in range(arguments.runs)]:
        started = time.monotonic()
        try:
            word = run(build, mpi, case, ranks, keeper(build, f"{mpi}.{case.name}.{ranks}"), **more)
        except Failure as failure:
            word = f"FAILED: {failure}"
            failed += 1
        print(f"{mpi}.{case.name}, {ranks} ranks, run {number + 1} ({time.monotonic() - started:.1f} s): {word}",
              flush=True)
    return failed


def main():
    arguments = options()
    cases = chosen(arguments)
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not cases:
        print("no such case; --list names them")
        return 2
    if arguments.nodes > 1:
        try:
            check_possible()
        except Skip as reason:
            print(f"skipped: {reason}")
            return SKIP
    build = Build(arguments.build)
    failed = skipped = 0
    for case in cases:
        reason = why_not(build, arguments.mpi, case, arguments.plain, arguments.nodes)
        if reason:
            print(f"{case.name}: skipped: {reason}", flush=True)
            skipped += 1
        else:
            failed += run_case(build, case, arguments)
    if failed:
        print(f"{failed} misjudged", flush=True)
    return 1 if failed else SKIP if skipped == len(cases) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the job is ended on the way out
    sys.exit(main())
