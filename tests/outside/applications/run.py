#!/usr/bin/env python3
"""Real MPI applications under Open MPI, healthy and with one slow rank: is it named, and is nobody else accused?

    python3 tests/outside/applications/run.py --build build/release --applications FOLDER --runs 5
    python3 tests/outside/applications/run.py ... LULESH CoMD/sleep      # only these

FOLDER has the built programs (tests/README.md says how to build them). The slow rank sleeps, computes, or writes 50 MB
and waits for the disk every 20 steps (slow_rank.c, preloaded). A finding counts if it is the first one and has the right
kind and rank, while the job runs and afterwards. A healthy job counts if nothing slow is reported at either time.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCH = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
# `call`, made `calls` times a step: there the slow rank is slow.
Application = collections.namedtuple("Application", "program ranks words call calls")
APPLICATIONS = {
    "LULESH": Application("lulesh", 8, "-s 16 -i 1200", "MPI_Allreduce", 1),
    "CoMD": Application("CoMD-mpi", 4, "-i 2 -j 2 -k 1 -x 8 -y 8 -z 4 -N 5000", "MPI_Sendrecv", 6),
    "HPCG": Application("xhpcg", 4, "--nx=16 --ny=16 --nz=16 --rt=25", "MPI_Allreduce", 3),
    "AMG": Application("amg", 4, "-problem 2 -n 40 40 40 -P 2 2 1", "MPI_Allreduce", 2),
}
KINDS = {"sleep": "straggler", "busy": "straggler", "fsync": "blocking_checkpoint", "healthy": None}
SLOW = {"straggler", "slow_communication", "slow_compute", "starved_input", "blocking_checkpoint", "pipeline_bubble",
        "regression"}


def build_preload(name, folder):
    path = os.path.join(folder, name + ".so")
    source = os.path.join(HERE, name + ".c")
    subprocess.run(["mpicc.openmpi", "-O2", "-fno-ipa-icf", "-shared", "-fPIC", source, "-o", path, "-ldl"], check=True)
    return path


def command(options, *words):
    done = subprocess.run([options.command, *words], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def record(options, application, preload, variables, folder):
    """The job, and where it was recorded."""
    recording = os.path.join(folder, "recording")
    program = os.path.abspath(os.path.join(options.applications, application.program))
    # In front of ncclwatch's library: what the rank does is outside of its calls.
    inner = ["sh", "-c", 'export LD_PRELOAD="$0:$LD_PRELOAD"; exec "$@"', preload, program, *application.words.split()]
    argv = [options.command, "run", "--record", recording, "--", *LAUNCH, "-n", str(application.ranks), *inner]
    done = subprocess.run(argv, env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True,
                          timeout=options.timeout, check=False)
    return done, recording


def run(options, application, how, rank, folder):
    """Its status, and the first finding while the job ran, and afterwards: a list of (kind, culprits), at most one."""
    variables = {"SLOW_HOW": how, "SLOW_RANK": str(rank), "SLOW_CALL": application.call, "SLOW_CALLS": str(application.calls),
                 "SLOW_US": str(options.slow_us), "SLOW_FILE": os.path.join(folder, "checkpoint.bin")}
    done, recording = record(options, application, options.slow_rank, variables, folder)
    if done.returncode != 0:
        return done.returncode, done.stderr[-300:], None
    lines = [line for line in done.stderr.splitlines() if line.startswith("[ncclwatch") and " step" in line]
    live = [(kind, culprits) for line in lines for kind in SLOW if kind + " (" in line for culprits in culprits_in(line)]
    findings = [one for one in command(options, "diagnose", "--json", recording)["findings"] if one["kind"] in SLOW]
    if options.verbose:
        print("\n".join(lines), "\n".join(one["summary"] for one in findings), sep="\n", flush=True)
    return done.returncode, live[:1], [(one["kind"], one["culprits"]) for one in findings][:1]


def wrong_times(options, name):
    """`stats` against clocks around the same calls: as many, and 5 % of the time or 10 ms apart at most."""
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        out = os.path.join(folder, "times")
        done, recording = record(options, APPLICATIONS[name], options.timer, {"TIMER_OUT": out}, folder)
        if done.returncode != 0:
            return [f"status {done.returncode}: {done.stderr[-300:]}"]
        sums = collections.defaultdict(lambda: [0, 0.0])
        for row in command(options, "stats", "--by", "op,rank", "--json", recording)["rows"]:
            own = sums[str(row["rank"]), "MPI_" + row["op"]]
            own[0] += row["calls"]
            own[1] += row["total_us"] / 1e6
        wrong = []
        with open(out) as file:
            rows = [line.split() for line in file]
        for rank, function, calls, seconds in rows:
            counted, total = sums[rank, function]
            if counted != int(calls) or abs(total - float(seconds)) > max(0.05 * float(seconds), 0.01):
                wrong.append(f"rank {rank}: {function} {calls} calls in {seconds} s, in stats {counted} in {total:.6f} s")
        timed = sum(float(row[3]) for row in rows)
        told = sum(sums[row[0], row[1]][1] for row in rows)
        print(f"{name:16} {len(rows)} rows, {timed:.3f} s, in stats {told:.3f} s ({100 * (told / timed - 1):+.2f} %)", flush=True)
        return wrong


def culprits_in(line):
    found = re.search(r"[Rr]anks? (\d+)", line.partition("(")[2])
    return [[int(found.group(1))] if found else []]


def judge(options, name, how, seed):
    application = APPLICATIONS[name]
    rank = random.Random(f"{name} {how} {seed}").randrange(application.ranks) if KINDS[how] else -1
    expected = [(KINDS[how], [rank])] if KINDS[how] else []
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        status, live, after = run(options, application, how, rank, folder)
        if options.keep:
            shutil.move(os.path.join(folder, "recording"), os.path.join(options.keep, f"{name}-{how}-{seed}-rank{rank}"))
    if status != 0:
        return False, False, f"rank {rank}: status {status}: {live}"
    wrong = [f"{when} {got}" for when, got in (("live", live), ("afterwards", after)) if got != expected]
    return live == expected, after == expected, f"rank {rank}: " + ", ".join(wrong) if wrong else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    programs = ", ".join(one.program for one in APPLICATIONS.values())
    parser.add_argument("--applications", required=True, help="folder of the built programs: " + programs)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run: which rank is slow")
    parser.add_argument("--scratch", help="where recordings and the checkpoint go; not a tmpfs, where fsync is free")
    parser.add_argument("--keep", metavar="FOLDER", help="move the recordings there")
    parser.add_argument("--slow-us", type=int, default=10000, help="how long it sleeps or computes in a step")
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--times", action="store_true", help="compare `stats` with clocks around the same calls instead")
    parser.add_argument("--verbose", action="store_true", help="print what is reported")
    parser.add_argument("names", nargs="*", help="APPLICATION or APPLICATION/FAULT")
    options = parser.parse_args()
    options.command = os.path.abspath(os.path.join(options.build, "bin", "ncclwatch"))
    rows = [(name, how) for name in APPLICATIONS for how in KINDS]
    if options.names:
        rows = [row for row in rows if row[0] in options.names or "/".join(row) in options.names]
    with tempfile.TemporaryDirectory() as folder:
        options.slow_rank, options.timer = build_preload("slow_rank", folder), build_preload("timer", folder)
        if options.times:
            wrong = [text for name in dict.fromkeys(name for name, _ in rows) for text in wrong_times(options, name)]
            print("\n".join(wrong) if wrong else "calls equal, times within 5 %")
            return 1 if wrong else 0
        right = collections.Counter()  # (with a fault, when judged)
        for name, how in rows:
            results = [judge(options, name, how, seed) for seed in range(options.first, options.first + options.runs)]
            live, after = (sum(result[i] for result in results) for i in (0, 1))
            right[KINDS[how] is not None, "live"] += live
            right[KINDS[how] is not None, "afterwards"] += after
            notes = "; ".join(result[2] for result in results if result[2])
            print(f"{name + '/' + how:16} afterwards {after}, live {live} of {options.runs}  {notes}", flush=True)
    faulty = options.runs * sum(1 for row in rows if KINDS[row[1]])
    healthy = options.runs * len(rows) - faulty
    for when in ("afterwards", "live"):
        print(f"{when}: slow rank and kind right in {right[True, when]} of {faulty}, "
              f"healthy runs silent: {right[False, when]} of {healthy}")
    return 0 if right[True, "afterwards"] >= 0.95 * faulty and right[False, "afterwards"] == healthy else 1


if __name__ == "__main__":
    sys.exit(main())
