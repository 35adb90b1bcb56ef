#!/usr/bin/env python3
"""Random programs and a long loop of small calls on softgpu, each without and with the library.

  run.py --build DIR NAME...          the quick suite, by name (ctest)
  run.py --build DIR --seeds 0-499    random programs from these seeds
  run.py --build DIR --loop 1000000   the loop with this many calls
"""

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)

from compare import compare, read_logs  # noqa: E402
from harness import Build, Failed, Sandbox, case, check, check_equal, run_main  # noqa: E402

LOOP_RANKS = 4
RING = 16384


def random_seed(sandbox, seed, keep_watch=True):
    program = sandbox.build.program("random", "random_program")
    sandbox.build.need(program, sandbox.build.library, sandbox.build.command)
    described = sandbox.run([program, "--seed", str(seed), "--describe"], sandbox.environment(preload=False))
    shape = json.loads(described.out)
    argv = [program, "--seed", str(seed)]
    plain = sandbox.job(argv, shape["processes"], preload=False, timeout=60)
    check_equal(plain.statuses(), [0] * shape["processes"], f"exit status without the library ({plain.done})")
    logs = sandbox.fresh("log")
    watched = sandbox.job(argv, shape["processes"], timeout=90, extra={"NCCLWATCH_RING": "65536", "SOFTGPU_NCCL_LOG": logs})
    check_equal(watched.statuses(), [0] * shape["processes"], f"exit status with the library ({watched.done})")
    check_equal(watched.outputs(), plain.outputs(), "hashes of all results with and without the library")
    calls = compare(watched.calls(), read_logs(logs))
    found = watched.diagnosis()
    check(found["healthy"], f"a finding on a healthy program: {json.dumps(found['findings'], indent=1)}")
    return shape, calls


def seeds(sandbox, first, last):
    failed = []
    for seed in range(first, last + 1):
        started = time.monotonic()
        try:
            with Sandbox(sandbox.build) as one:
                shape, calls = random_seed(one, seed)
            print(f"seed {seed}: {shape['processes']} processes of {shape['ranks_per_process']} ranks, "
                  f"{shape['lanes']} lanes, {calls} calls equal ({time.monotonic() - started:.1f} s)", flush=True)
        except Failed as failure:
            failed.append(seed)
            print(f"seed {seed} FAILED: {failure}", flush=True)
    check(not failed, f"seeds that failed: {failed}")


def loop(sandbox, calls, timeout=3600):
    program = sandbox.build.program("random", "random_loop")
    sandbox.build.need(program, sandbox.build.library, sandbox.build.command)
    took = []
    jobs = []
    for preload in (False, True):
        started = time.monotonic()
        jobs.append(sandbox.job([program, str(calls)], LOOP_RANKS, preload=preload, timeout=timeout))
        took.append(time.monotonic() - started)
        check_equal(jobs[-1].statuses(), [0] * LOOP_RANKS, f"exit status ({jobs[-1].done})")
    plain, watched = jobs
    check_equal(watched.outputs(), plain.outputs(), "hashes with and without the library")
    rows_of = {}
    for row in watched.calls():
        if row["op"] in ("AllReduce", "Broadcast"):
            rows_of.setdefault(row["rank"], []).append(row)
    check_equal(sorted(rows_of), list(range(LOOP_RANKS)), "ranks that have records")
    for rank, rows in rows_of.items():
        # The ring holds the creation before and the destruction after the calls too.
        check(len(rows) >= min(calls, RING - 2), f"rank {rank} has {len(rows)} records")
        for i, row in zip(range(calls - len(rows), calls), rows):
            rooted = i % 7 == 0
            wanted = ("Broadcast" if rooted else "AllReduce", i, 1 + i % 8, "int32", None if rooted else "sum",
                      i // 7 % LOOP_RANKS if rooted else None, "success")
            check_equal(tuple(row[k] for k in ("op", "position", "count", "dtype", "reduction", "root", "result")), wanted,
                        f"rank {rank}, call {i}")
    check_equal(len({row["communicator"] for rows in rows_of.values() for row in rows}), 1, "identities")
    found = watched.diagnosis()
    check(found["healthy"], f"a finding on a healthy loop: {json.dumps(found['findings'], indent=1)}")
    for error in watched.errors():
        check(not [line for line in error.splitlines() if "watching" not in line], f"words on a healthy loop: {error}")
    print(f"{calls} calls on {LOOP_RANKS} ranks: {took[0]:.1f} s without, {took[1]:.1f} s with the library; "
          f"last {min(map(len, rows_of.values()))} records of each rank equal")


def quick(first, last):
    def test(sandbox):
        seeds(sandbox, first, last)

    test.__name__ = f"seeds_{first}_to_{last}"
    case(test)


for start in range(0, 15, 3):
    quick(start, start + 2)


@case
def loop_of_20000(sandbox):
    loop(sandbox, 20000, timeout=120)


def long_run(arguments):
    build = Build(arguments[arguments.index("--build") + 1])
    with Sandbox(build) as sandbox:
        if "--seeds" in arguments:
            text = arguments[arguments.index("--seeds") + 1]
            first, _, last = text.partition("-")
            seeds(sandbox, int(first), int(last or first))
        if "--loop" in arguments:
            loop(sandbox, int(arguments[arguments.index("--loop") + 1]))


if __name__ == "__main__":
    if {"--seeds", "--loop"} & set(sys.argv):
        try:
            long_run(sys.argv[1:])
        except Failed as failure:
            sys.exit(str(failure))
    else:
        run_main("random")
