#!/usr/bin/env python3
"""The same dumps of torch's flight recorder through torchfrtrace and `ncclwatch diagnose`, in one run.

    python3 tests/bench/flight_recorder.py --build build/release                      # 1,024 ranks, 2,000 calls each
    python3 tests/bench/flight_recorder.py --build build/release --cases missing --entries 200

One row a fault: the seconds of both, their ratio, and what each of them says. Fails if ncclwatch is wrong, or, where
torchfrtrace looks at all calls rather than giving up before, less than --least times as fast.
"""

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SECOND = 10 ** 9
BEGAN = 1_760_000_000 * SECOND
STEP_NS = SECOND // 100
FRAMES = [{"name": f"f{depth}", "filename": f"/x/lib/site-packages/torch/distributed/f{depth}.py" if depth < 4 else
           f"/home/u/train{depth}.py", "line": 10 + depth} for depth in range(10)]
KINDS = ("nccl:all_reduce", "nccl:_all_gather_base", "nccl:_reduce_scatter_base")  # one object each, as torch's pickler
PREFIX = "nccl_trace_rank_"
REPEATS = 5  # of ncclwatch, the best counts: what takes half a second is disturbed more than what takes a minute


def entry(record, seq, name, at, state, p2p=0):
    done = state == "completed"
    return {"frames": list(FRAMES), "record_id": record, "pg_id": 0, "process_group": ("0", "default_pg"),
            "thread_name": "python", "thread_id": "140713142938496", "collective_seq_id": seq, "p2p_seq_id": p2p,
            "op_id": record + 1, "profiling_name": name, "time_created_ns": BEGAN + at, "input_sizes": [[1024, 1024]],
            "input_dtypes": ["BFloat16"], "output_sizes": [[1024, 1024]], "output_dtypes": ["BFloat16"], "state": state,
            "time_discovered_started_ns": BEGAN + at + 5000, "retired": done, "timeout_ms": 600000,
            "time_discovered_completed_ns": BEGAN + at + 9000 if done else None, "is_p2p": p2p > 0}


class Fault:
    """What each rank records after the calls that all have made. `None`: it leaves no dump."""

    def __init__(self, ranks):
        self.ranks, self.odd = ranks, ranks // 2 + 5

    def last(self, rank, record, at):
        raise NotImplementedError


class Missing(Fault):
    expected = [("missing_participant", [517])]

    def last(self, rank, record, at):
        return [] if rank == self.odd else [entry(record, record + 1, "nccl:all_reduce", at, "started")]


class GuiltyFirst(Fault):
    """The rank whose file torchfrtrace happens to read first."""
    expected = None

    def last(self, rank, record, at):
        name = "nccl:broadcast" if rank == self.odd else "nccl:all_reduce"
        return [entry(record, record + 1, name, at, "started")]


class NoDump(Fault):
    expected = [("missing_participant", [517])]

    def last(self, rank, record, at):
        return None if rank == self.odd else [entry(record, record + 1, "nccl:all_reduce", at, "started")]


class Pipeline(Fault):
    """A healthy pipeline that exchanges in both directions."""
    expected = []

    def last(self, rank, record, at):
        made = []
        for peer in (rank + 1, rank - 1):
            if 0 <= peer < self.ranks:
                for name in (f"nccl:send {rank}->{peer}", f"nccl:recv {rank}<-{peer}"):
                    made.append(entry(record + len(made), record, name, at, "completed", len(made) + 1))
        return made


CASES = {"missing": Missing, "guilty_first_rank": GuiltyFirst, "missing_dump": NoDump, "pipeline": Pipeline}


def write(folder, fault, ranks, entries):
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
    for rank in range(ranks):
        common = [entry(i, i + 1, KINDS[i % len(KINDS)], i * STEP_NS + rank * 1000, "completed")
                  for i in range(entries)]
        for one in common:  # what their names ask for
            if one["profiling_name"].endswith("gather_base"):
                one["output_sizes"] = [[1024 * ranks, 1024]]
            elif one["profiling_name"].endswith("scatter_base"):
                one["input_sizes"] = [[1024 * ranks, 1024]]
        last = fault.last(rank, entries, entries * STEP_NS)
        path = os.path.join(folder, PREFIX + str(rank))
        if last is None:
            if os.path.exists(path):
                os.unlink(path)
            continue
        dump = {"version": "2.10", "pg_config": config, "comm_lib_version": "2.28.9", "pg_status": {},
                "entries": common + last}
        with open(path, "wb") as file:
            pickle.dump(dump, file, 2)
        when = BEGAN + entries * STEP_NS + 600 * SECOND
        os.utime(path, ns=(when, when))


def run(command):
    begun = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return time.monotonic() - begun, done.stdout


def said_by_torch(said):
    """Its own words, short."""
    for line in said.splitlines():
        if line.startswith(("missing ranks", "error msg", "AssertionError")):
            culprits = line.count("Culprit rank")
            return f"{culprits} culprits: " + line[:60] if culprits else line[:70]
    return "nothing found"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--entries", type=int, default=2000, help="calls before the last (the default ring of torch)")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--least", type=float, default=100.0, help="how many times as fast ncclwatch has to be")
    options = parser.parse_args()
    torch = os.path.join(ROOT, "build", "venv", "bin", "torchfrtrace")
    if not os.path.exists(torch):
        print("skipped: no torch in build/venv")
        return 77
    good = True
    for name in options.cases:
        fault = CASES[name](options.ranks)
        with tempfile.TemporaryDirectory() as folder:
            if name == "guilty_first_rank":
                for rank in range(options.ranks):
                    open(os.path.join(folder, PREFIX + str(rank)), "wb").close()
                fault.odd = int(next(os.walk(folder))[2][0].rpartition("_")[2])
                fault.expected = [("order_mismatch", [fault.odd])]
            write(folder, fault, options.ranks, options.entries)
            size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
            command = [os.path.join(options.build, "bin", "ncclwatch"), "diagnose", "--json", folder]
            ours, text = min(run(command) for _ in range(REPEATS))
            theirs, said = run([torch, folder, "--prefix", PREFIX])
        found = [(finding["kind"], finding["culprits"]) for finding in json.loads(text)["findings"]]
        expected = [(kind, [fault.odd]) for kind, _ in fault.expected]
        right = found == expected
        gave_up = "Missing dump files" in said
        good = good and right and (gave_up or theirs >= options.least * ours)
        print(f"{name}: {options.ranks} ranks, {size / 1e6:.0f} MB: torchfrtrace {theirs:.2f} s, ncclwatch {ours:.3f} s: "
              f"{theirs / ours:.0f} x; ncclwatch {'right' if right else 'WRONG'}: {found}; torchfrtrace: "
              f"{said_by_torch(said)}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
