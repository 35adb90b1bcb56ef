"""Holds the records of a watched run against softgpu's own log of the same run, field by field."""

import glob
import json
import os
import re

from harness import check, check_equal

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DTYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
          "float8_e4m3", "float8_e5m2"]
REDUCTIONS = ["sum", "prod", "max", "min", "avg"]
RESULTS = {0: "success", 1: "unhandled CUDA error", 2: "system error", 3: "internal error", 4: "invalid argument",
           5: "invalid usage", 6: "remote error", 7: "in progress"}


def families():
    with open(os.path.join(ROOT, "include", "ncclwatch", "functions", "nccl.def")) as file:
        rows = re.findall(r"^HOOK(?:_AS\([^,]+,|\() *\d+, *(\w+), *(\w+)", file.read(), re.M)
    return dict(rows)


FAMILIES = families()


def read_logs(directory):
    """pid -> finished calls in the order of entry, without those that are never recorded."""
    logs = {}
    for path in glob.glob(os.path.join(directory, "*.jsonl")):
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        calls = [line for line in lines if line["event"] == "call" and FAMILIES[line["fn"]] != "kQuery"]
        if calls:
            logs[int(os.path.basename(path)[:-6])] = sorted(calls, key=lambda call: call["n"])
    return logs


class Positions:
    """What positions the calls of one process have, from the log alone."""

    def __init__(self):
        self.collectives = {}
        self.transfers = {}

    def of(self, call):
        family = FAMILIES[call["fn"]]
        if family in ("kCollective", "kRooted"):
            position = self.collectives.get(call["index"], 0)
            if call["count"]:
                self.collectives[call["index"]] = position + 1
            return position
        if family == "kPointToPoint":
            key = (call["index"], call["fn"], call["peer"])
            position = self.transfers.get(key, 0)
            self.transfers[key] = position + 1
            return position
        return None


def reduction(number):
    return None if number is None else REDUCTIONS[number] if 0 <= number < len(REDUCTIONS) else "user"


def settle_groups(calls):
    """The calls of a group return when its outermost ncclGroupEnd does, with its result. `calls` are of one thread."""
    waiting = []
    for call in calls:
        if call["fn"] == "ncclGroupEnd" and call["depth"] == 1:
            for earlier in waiting:
                earlier["result"] = earlier["result"] or call["result"]
            waiting = []
        elif call["depth"] > 0 and FAMILIES[call["fn"]] in ("kCollective", "kRooted", "kPointToPoint", "kCreation"):
            waiting.append(call)


def expected(call, positions):
    position = positions.of(call)
    family = FAMILIES[call["fn"]]
    fields = {
        "op": call["fn"][4:],
        "result": RESULTS.get(call["result"]),
        "state": "failed" if call["result"] not in (0, 7) else None,
    }
    if family in ("kCollective", "kRooted", "kPointToPoint"):
        fields.update({
            "count": call["count"],
            "dtype": DTYPES[call["dtype"]],
            "reduction": reduction(call["red"]),
            "root": call["root"],
            "peer": call["peer"],
            "stream": int(call["stream"], 16),
            "grouped": call["depth"] > 0,
            "one_rank": call["nranks"] == 1,
            "position": position,
            "communicator_rank": call["rank"],
            # A send of nothing is matched by its receive; a collective over nothing is not done at all.
            "empty": call["count"] == 0 and family != "kPointToPoint",
        })
    return fields


def recorded(row, wanted):
    values = {
        "op": row["op"],
        "result": row["result"],
        "state": row["state"] if row["state"] in ("failed", "entered") else None,
        "count": row["count"],
        "dtype": row["dtype"],
        "reduction": row["reduction"],
        "root": row["root"],
        "peer": row["peer"],
        "stream": int(row["stream"], 16),
        "grouped": row["group"] is not None,
        "one_rank": "one_rank" in row["flags"],
        "position": row["position"],
        "communicator_rank": row["communicator_rank"],
        "empty": "empty" in row["flags"],
    }
    return {key: values[key] for key in wanted}


def by_thread(calls, key):
    threads = {}
    for call in calls:
        threads.setdefault(call[key], []).append(call)
    return threads


def compare(trace, logs):
    """Every call of every process; communicators' identities are a bijection over the whole job. Returns the number."""
    identities, back, compared = {}, {}, 0
    rows_of = by_thread(trace, "pid")
    check_equal(sorted(rows_of), sorted(logs), "processes that have records, and that made calls")
    for pid, log in logs.items():
        for calls in by_thread(log, "tid").values():
            settle_groups(calls)
        positions = Positions()
        wanted_of = {}
        for call in log:  # positions count over all threads of the process
            wanted_of.setdefault(call["tid"], []).append((call, expected(call, positions)))
        rows_by_thread = by_thread(rows_of[pid], "thread")
        for tid, calls in wanted_of.items():
            rows = rows_by_thread.pop(tid, [])
            for number, ((call, wanted), row) in enumerate(zip(calls, rows)):
                where = f"process {pid}, thread {tid}, call {number} (log {call})"
                check_equal(recorded(row, wanted), wanted, where)
                if call["comm"] is not None and row["communicator"] is not None and "count" in wanted:
                    check_equal(row["communicator"], identities.setdefault(call["comm"], row["communicator"]), where)
                    check_equal(call["comm"], back.setdefault(row["communicator"], call["comm"]), where)
                check("count" not in wanted or row["communicator"] is not None, f"no communicator: {where}")
                compared += 1
            check_equal([r["op"] for r in rows], [c["fn"][4:] for c, _ in calls], f"calls of process {pid}, thread {tid}")
        check_equal(sorted(rows_by_thread), [], f"threads of process {pid} that made no call")
    check(compared > 0, "nothing to compare")
    return compared
