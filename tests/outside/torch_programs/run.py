#!/usr/bin/env python3
"""Whole programs of real torch under `ncclwatch run -- torchrun`, healthy and with planted faults, judged against the truth.

    run.py --build build/release [--python PYTHON] [--out DIR] [--jobs 2] [PROGRAM | PROGRAM/FAULT]...

A healthy program must end with status 0 and no finding. With a fault, the first finding's culprit must be the rank that
went wrong, and the finding must name a Python line that the program marks with `# FAULT name`. The programs were written
without looking at the rules of the diagnosis; whoever changes one keeps it so.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scenarios"))

from job import Build, Failure, Job  # noqa: E402
from torchrun import free_port  # noqa: E402

RANKS = 4
LIMIT_S = 180  # from the start to a verdict, or to the end of a healthy job
SETTLE_S = 3  # from the first verdict to the one that is judged

MISSING = {"missing_participant"}
MISMATCH = {"order_mismatch", "argument_mismatch", "step_mismatch"}
ONE_BY_ONE = {"point_to_point_mismatch"}

# For every program its faults, and the kinds that describe them.
PROGRAMS = {
    "ddp_join": {"extra_all_reduce": MISMATCH, "loader_hangs": MISSING},
    "accumulation": {"never_syncs": MISMATCH | MISSING, "lock_order": MISSING},
    "fsdp2": {"eval_on_one_rank": MISMATCH, "killed": {"dead_rank"}},
    "tensor_parallel": {"wrong_shape": {"argument_mismatch"}, "endless_loop": MISSING,
                        "skips_new_group": {"initialization_hang"}, "group_order": {"deadlock"}},
    "pipeline": {"fewer_micro_batches": ONE_BY_ONE | MISSING | {"deadlock", "step_mismatch"},
                 "swallows_error": MISSING | ONE_BY_ONE},
    "isend_irecv": {"short_batch": ONE_BY_ONE, "wrong_parity": {"deadlock"} | ONE_BY_ONE},
    "experts": {"stale_table": ONE_BY_ONE, "no_tokens": MISSING | ONE_BY_ONE | MISMATCH},
    "objects": {"unpicklable": MISMATCH | MISSING, "no_statistics": MISMATCH | MISSING},
    "monitored": {"file_lock": MISSING, "leaves": {"early_exit"}},
    "checkpoints": {"one_rank_saves": MISMATCH | MISSING, "storage_hangs": MISSING | {"blocking_checkpoint"}},
    "elastic": {"killed_once": {"dead_rank"}, "bad_shard": {"dead_rank"}},
    "lightning_fit": {"sync_dist": MISMATCH, "saves_alone": MISMATCH | MISSING},
    "accelerated": {"gather_on_one": MISMATCH, "stops_early": MISMATCH | MISSING},
    "hf_trainer": {"callback": MISMATCH, "server_silent": MISSING},
}
NEEDS = {"lightning_fit": "lightning", "accelerated": "accelerate", "hf_trainer": "transformers"}
LAUNCHER = {"elastic": ("--max-restarts", "1")}
# Ranks that wait for one another: the one that went wrong is among them.
CYCLES = {"deadlock"}


def source(program):
    return os.path.join(HERE, program + ".py")


def marked_lines(program, fault):
    with open(source(program)) as file:
        marks = ((number, re.search(r"# FAULT (.*)", text)) for number, text in enumerate(file, 1))
        lines = [number for number, mark in marks if mark and fault in mark.group(1).split()]
    if not lines:
        raise SystemExit(f"{program}.py marks no line with `# FAULT {fault}`")
    return lines


def texts(value):
    """All that a finding says, as lines of text; a call site as `file:line`."""
    if isinstance(value, dict):
        if value.get("file") and value.get("line"):
            yield f"{os.path.basename(value['file'])}:{value['line']}"
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value


def names_line(finding, program, lines):
    wanted = re.compile(rf"\b{program}\.py:({'|'.join(map(str, lines))})(?!\d)")
    return any(wanted.search(text) for text in texts(finding))


class Case:
    def __init__(self, program, fault):
        self.program, self.fault = program, fault
        self.name = f"{program}/{fault or 'healthy'}"

    def command(self, build, root, options):
        words = ["--fault", self.fault, "--rank", options.rank, "--step", options.step] if self.fault else []
        return [build.command, "run", "--", options.python, "-m", "torch.distributed.run", "--nproc-per-node", RANKS,
                "--master-addr", "127.0.0.1", "--master-port", free_port(), *LAUNCHER.get(self.program, ()),
                source(self.program), "--scratch", root, *words]

    def restarts(self):
        return "--max-restarts" in LAUNCHER.get(self.program, ())

    def run(self, build, options):
        environment = {"NCCL_SO_PATH": os.path.join(build.softgpu, "libnccl.so.2"), "LD_LIBRARY_PATH": "",
                       "OMP_NUM_THREADS": "1", "NCCLWATCH_TIMEOUT": str(options.timeout), "TMPDIR": "{root}"}
        scratch = os.path.join(options.out, self.name.replace("/", "."))
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch)
        command = [str(word) for word in self.command(build, os.path.abspath(scratch), options)]
        with Job(build, command, mode="bare", environment=environment) as job:
            started = time.monotonic()
            status = self.wait(job)
            elapsed = time.monotonic() - started
            _, diagnosis = job.offline()
            printed = subprocess.run([build.command, "diagnose", job.run_directory], capture_output=True, text=True)
            self.keep(scratch, job, printed.stdout, diagnosis)
        return self.judge(status, elapsed, diagnosis)

    def wait(self, job):
        """The job's status; None if it hangs, with a verdict or without one."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if job.process.poll() is not None:
                return job.process.returncode
            if self.fault and not self.restarts() and (job.look() or {}).get("findings"):
                deadline = min(deadline, time.monotonic() + SETTLE_S)
            time.sleep(0.05)
        return None

    def keep(self, folder, job, text, diagnosis):
        for name, words in (("output.txt", job.output()), ("diagnose.txt", text),
                            ("diagnosis.json", json.dumps(diagnosis, indent=1))):
            with open(os.path.join(folder, name), "w") as file:
                file.write(words)

    def judge(self, status, elapsed, diagnosis):
        first = (diagnosis["findings"] or [None])[0]
        row = {"program": self.program, "fault": self.fault, "status": status, "elapsed_s": round(elapsed, 1),
               "kind": first and first["kind"], "certainty": first and first["certainty"],
               "culprits": first and first["culprits"]}
        if not self.fault:
            return {**row, "right": status == 0 and first is None and diagnosis["healthy"] is True}
        kinds, lines = PROGRAMS[self.program][self.fault], marked_lines(self.program, self.fault)
        row.update(wanted_kinds=sorted(kinds), wanted_culprits=[self.rank], wanted_lines=lines)
        rank_right = bool(first) and (first["culprits"] == [self.rank] or
                                      (first["kind"] in CYCLES & kinds and self.rank in first["culprits"]))
        row.update(rank_right=rank_right, kind_right=bool(first) and first["kind"] in kinds,
                   line_right=bool(first) and names_line(first, self.program, lines))
        return {**row, "right": rank_right and row["line_right"]}


def cases(words):
    every = [Case(program, fault) for program, faults in PROGRAMS.items() for fault in (None, *faults)]
    chosen = [case for case in every if not words or case.program in words or case.name in words]
    unknown = set(words) - {case.program for case in every} - {case.name for case in every}
    if unknown:
        raise SystemExit(f"no such program: {', '.join(sorted(unknown))}")
    return chosen


def importable(python, module):
    code = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec('{module}'))"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def line_of(row):
    for obstacle in ("skipped", "error"):
        if obstacle in row:
            return f"{row['name']:36} {obstacle}: {row[obstacle]}"
    wrong = [name for name in ("rank", "line", "kind") if row.get(f"{name}_right") is False]
    word = ("right" if row["right"] else "WRONG") + (f" ({', '.join(wrong)})" if wrong else "")
    wanted = f"{'|'.join(row['wanted_kinds'])} of {row['wanted_culprits']}" if row["fault"] else "nothing"
    got = f"{row['kind']} ({row['certainty']}) of {row['culprits']}" if row["kind"] else f"nothing, status {row['status']}"
    return f"{row['name']:36} {word:20} {got}; wanted {wanted}; {row['elapsed_s']} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="build folder")
    parser.add_argument("--python", help="an interpreter with torch, and with requirements.txt (default: build/venv's)")
    parser.add_argument("--out", default="torch-programs", help="where the output and verdict of each job are kept")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--jobs", type=int, default=2, help="jobs at once")
    parser.add_argument("--rank", type=int, default=2, help="the rank that goes wrong")
    parser.add_argument("--step", type=int, default=8, help="the step in which it does")
    parser.add_argument("--timeout", type=int, default=6, help="NCCLWATCH_TIMEOUT")
    parser.add_argument("words", nargs="*", metavar="PROGRAM[/FAULT]")
    options = parser.parse_args()
    build = Build(options.build)
    options.python = options.python or build.python
    options.out = os.path.abspath(options.out)
    absent = {name for name in set(NEEDS.values()) if not importable(options.python, name)}
    printing = threading.Lock()

    def run(case):
        case.rank = options.rank
        needs = NEEDS.get(case.program)
        try:
            row = {"skipped": f"no {needs} in {options.python}"} if needs in absent else case.run(build, options)
        except (Failure, OSError) as error:  # one job that cannot be judged must not cost the others' rows
            row = {"error": str(error), "right": False}
        row["name"] = case.name
        with printing:
            print(line_of(row), flush=True)
        return row

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(run, cases(options.words)))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    judged = [row for row in rows if "skipped" not in row]
    right = sum(row["right"] for row in judged)
    print(f"{right} of {len(judged)} right; {len(rows) - len(judged)} skipped")
    return int(right < len(judged))


if __name__ == "__main__":
    sys.exit(main())
