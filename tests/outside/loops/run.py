#!/usr/bin/env python3
"""Training loops without annotations under a plain `ncclwatch run`, each slowed in one way or healthy, judged against the truth.

    run.py --build build/release --library nccl|mpi [--seeds 1-3] [--json FILE] [--keep DIR] [KIND | KIND/SEED]...

kinds.py has the truth. A job is right if the first finding has an accepted kind and exactly the culprits, and no other
finding accuses somebody else without `caused_by`; a healthy one if nothing is found. Judged twice: the findings that the
running job reported (events.jsonl), and `ncclwatch diagnose` afterwards. The loops were written without looking at the
rules of the diagnosis; whoever changes one keeps it so.

Each rank measures its own work. If other load on the machine delayed the ranks unevenly, or left the planted slowness
without effect, the job is disturbed: it runs again, and in the end does not count.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path[:0] = [HERE, os.path.join(SOURCE, "tests", "support")]

import kinds  # noqa: E402
from harness import Build, Failed, Process, Skipped, check, clean_environment  # noqa: E402

DISTURBED = 0.05  # of the time, lost by ranks that were late without a plan
EFFECT = 0.10  # of the time: the least that a planted slowness takes
TRIES = 3


def prefer(nice):
    """This process and its session: where the kernel groups processes by session, only the group's own value counts."""
    os.nice(nice)
    if nice and os.path.exists("/proc/self/autogroup"):
        with open("/proc/self/autogroup", "w") as file:
            file.write(str(nice))


class Loopback:
    """A network namespace with a loopback device of its own, which becomes slow when the job reaches the onset."""

    def __init__(self, mbit, onset_file):
        if os.geteuid() != 0:
            raise Skipped("needs root: a network namespace and tc")
        self.name, self.mbit, self.onset_file = f"loops-{os.getpid()}", mbit, onset_file
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        self.inside("ip", "link", "set", "lo", "up")

    def inside(self, *words):
        subprocess.run(["ip", "netns", "exec", self.name, *words], check=True)

    def command(self):
        return ["nsenter", f"--net=/run/netns/{self.name}"]

    def watch(self):
        if self.onset_file and os.path.exists(self.onset_file):
            self.onset_file = None
            self.inside("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", f"{self.mbit}mbit", "burst", "256k",
                        "limit", "64m")

    def end(self):
        subprocess.run(["ip", "netns", "delete", self.name], check=False)


class Run:
    """One run of one job in a folder of its own."""

    def __init__(self, build, library, job, folder):
        self.build, self.library, self.job, self.folder = build, library, job, folder
        self.directory = os.path.join(folder, "run")

    def command(self):
        words = [f"--{name}={value}" for name, value in self.job.options.items()]
        options = [part for word in words for part in word.split("=", 1)] + ["--log", self.folder]
        program = os.path.join(self.build.root, "loops", f"{self.library}_loop")
        ranks = ["-n", str(self.job.ranks)]
        if self.library == "nccl":
            launch = [sys.executable, os.path.join(SOURCE, "examples", "launch.py"), *ranks, "--"]
        else:
            network = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"] if self.job.slow_mbit else []
            launch = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", *network, *ranks]
        return [self.build.command, "run", "--", *launch, program, *options]

    def environment(self):
        env = clean_environment()
        env["NCCLWATCH_DIR"] = self.directory
        if self.library == "nccl":
            env["LD_LIBRARY_PATH"] = self.build.softgpu
        if self.job.slow_us:
            env["SOFTGPU_NCCL_SLOW"] = f"{self.job.onset * self.job.options['buckets']}:{self.job.slow_us}"
        return env

    def run(self, nice):
        slow = self.job.slow_mbit
        loopback = Loopback(slow, os.path.join(self.folder, "onset")) if slow else None
        try:
            process = Process((loopback.command() if loopback else []) + self.command(), self.environment(),
                              preexec=lambda: prefer(nice))
            limit = time.monotonic() + 60 + 4 * self.job.options["steps"] * self.job.options["step-ms"] / 1000
            while process.popen.poll() is None and time.monotonic() < limit:
                if loopback:
                    loopback.watch()
                time.sleep(0.02)
            self.done = process.wait(limit)
        finally:
            if loopback:
                loopback.end()
        check(self.done.status == 0, f"the job failed: {self.done}")
        self.ranks = [self.read(f"rank-{rank}.json") for rank in range(self.job.ranks)]

    def read(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return json.load(file)

    def disturbance(self):
        """The share of the time that was lost because a rank worked longer than planned and than its median peer did."""
        lost = 0
        stopped = self.job.options["culprit"] if "stop-ms" in self.job.options else None
        ranks = [rank for number, rank in enumerate(self.ranks) if number != stopped]
        for times in zip(*(zip(rank["intended_ms"], rank["actual_ms"], rank["planted_ms"]) for rank in ranks)):
            planned = max(intended + planted for intended, _, planted in times)
            needed = max(actual + planted for _, actual, planted in times)
            lost += max(0, needed - planned - statistics.median(actual - intended for intended, actual, _ in times))
        return lost / self.ranks[0]["elapsed_ms"]

    def effect(self):
        """The share of the time that the planted slowness took; 1 if it follows from the schedule of a pipeline."""
        if self.job.onset:
            began = self.ranks[0]["began_ms"]
            steps = [after - before for before, after in zip(began, began[1:])]
            before, after = steps[:self.job.onset - 1], steps[self.job.onset + 1:]
            return 1 - statistics.median(before) / statistics.median(after)
        planted = max(sum(rank["planted_ms"]) for rank in self.ranks)
        stops = self.job.options.get("stop-ms", 0)
        if stops:
            return stops / (stops + self.job.options["run-ms"])
        return planted / self.ranks[0]["elapsed_ms"] if planted else 1

    def live(self):
        path = os.path.join(self.directory, "events.jsonl")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            events = [json.loads(line) for line in file]
        return [event["details"] for event in events if "certainty" in (event.get("details") or {})]

    def afterwards(self):
        done = subprocess.run([self.build.command, "diagnose", "--json", self.directory], env=clean_environment(),
                              capture_output=True, text=True, timeout=120)
        check(done.returncode in (0, 1), f"diagnose: status {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)["findings"]


def right(findings, job, first_only):
    """Live reports come one by one, so any of them may be the right one; afterwards the first must be."""
    if not job.kinds:
        return not findings
    culprits = [frozenset(finding["culprits"]) for finding in findings]
    fits = [finding["kind"] in job.kinds and who in job.culprits for finding, who in zip(findings, culprits)]
    accepted = frozenset().union(*job.culprits)
    innocent = [who - accepted for finding, who in zip(findings, culprits) if finding.get("caused_by") is None]
    return any(fits[:1] if first_only else fits) and not any(innocent)


def short(findings):
    return ", ".join(f"{finding['kind']} {sorted(finding['culprits'])}" for finding in findings) or "nothing"


def judge(build, library, job, options):
    for attempt in range(1, TRIES + 1):
        folder = tempfile.mkdtemp(prefix="loops-", dir=os.environ.get("TMPDIR", "/tmp"))
        try:
            run = Run(build, library, job, folder)
            run.run(options.nice)
            live, afterwards = run.live(), run.afterwards()
            effect = run.effect() if job.kinds else 0
            disturbed = run.disturbance() > DISTURBED or bool(job.kinds) and effect < EFFECT
            row = {"name": job.name, "disturbed": disturbed, "disturbance": round(run.disturbance(), 3),
                   "effect": round(effect, 3), "wanted_kinds": job.kinds,
                   "wanted_culprits": [sorted(ranks) for ranks in job.culprits], "onset": job.onset,
                   "ranks": job.ranks, "elapsed_s": round(run.ranks[0]["elapsed_ms"] / 1000, 1),
                   "steps": job.options["steps"], "live": live, "afterwards": afterwards, "attempts": attempt,
                   "live_right": right(live, job, False), "right": right(afterwards, job, True),
                   "command": shlex.join(run.command())}
            if options.keep:
                kept = os.path.join(options.keep, f"{library}-{job.name.replace('/', '-')}")
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("samples-*"))
                with open(os.path.join(kept, "output"), "w") as file:
                    file.write(repr(run.done))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not disturbed:
            break
    return row


def line_of(row):
    if "obstacle" in row:
        return f"{row['name']:28} {row['obstacle']}"
    word = "disturbed" if row["disturbed"] else "right" if row["right"] else "WRONG"
    live = "live right" if row["live_right"] else "live WRONG"
    wanted = "|".join(row["wanted_kinds"]) or "nothing"
    who = " or ".join(map(str, row["wanted_culprits"]))
    return (f"{row['name']:28} {word:9} {live:10} wanted {wanted} {who}; live {short(row['live'])}; afterwards "
            f"{short(row['afterwards'])} ({row['ranks']} ranks, {row['steps']} steps, {row['elapsed_s']} s, disturbance "
            f"{row['disturbance']:.0%}, effect {row['effect']:.0%})")


def seeds_of(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def chosen(options):
    for seed in seeds_of(options.seeds):
        for kind in kinds.KINDS:
            job = kinds.job(options.library, kind, seed)
            if not options.names or kind.__name__ in options.names or job.name in options.names:
                yield job


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--library", choices=("nccl", "mpi"), required=True)
    parser.add_argument("--seeds", default="1-3", help="N or FIRST-LAST (default 1-3)")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--keep", help="keep the run directory, output and measured times of each job in this folder")
    parser.add_argument("--nice", type=int, default=0, help="below 0, as root: other load disturbs the jobs less")
    parser.add_argument("--list", action="store_true", help="print the jobs and their options, and end")
    parser.add_argument("names", nargs="*", metavar="KIND[/SEED]")
    options = parser.parse_args()
    build, rows = Build(options.build), []
    for job in chosen(options):
        if options.list:
            print(job)
            continue
        try:
            row = judge(build, options.library, job, options)
        except Skipped as reason:
            row = {"name": job.name, "obstacle": f"skipped: {reason}"}
        except (Failed, OSError, subprocess.SubprocessError) as error:
            row = {"name": job.name, "obstacle": f"error: {error}", "right": False, "live_right": False}
        rows.append(row)
        print(line_of(row), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    judged = [row for row in rows if "right" in row and not row.get("disturbed")]
    print(f"{options.library}: afterwards {sum(row['right'] for row in judged)}, live "
          f"{sum(row['live_right'] for row in judged)} of {len(judged)} right; {len(rows) - len(judged)} do not count")
    return int(any(not row["right"] for row in judged))


if __name__ == "__main__":
    sys.exit(main())
