#!/usr/bin/env python3
"""Traces of "Understanding Stragglers in Large Model Training Using What-if Analysis" (ByteDance-Seed/StragglerAnalysis)
as lines that `ncclwatch import` takes, and our results beside the published ones.

    what_if.py convert trace-AR.parquet meta-AR.yaml > ar.jsonl
    what_if.py compare NCCLWATCH DIRECTORY AR ST    # prints the largest differences; status 1 above 2 %

The traces tell operations and not what waits for what: that is section 3.2 of the paper, in `Stage` and `Job` below.
Needs pyarrow and pandas.
"""

import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile

import pandas

CLOCK_SLACK_S = 5e-5
LIMIT = 0.02
COMPUTE = ("forward-compute", "backward-compute")
MESSAGES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
OF_REPLICAS = ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce")
COMMUNICATION = MESSAGES + OF_REPLICAS + ("layernorm-grads-all-reduce", "embedding-grads-all-reduce",
                                          "optimizer-clip-main-grad")
# One step further in the pipeline, or one back.
PARTNER = {"forward-send": ("forward-recv", 1), "forward-recv": ("forward-send", -1),
           "backward-send": ("backward-recv", -1), "backward-recv": ("backward-send", 1)}


class Stage:
    """The operations of one worker of one stage in one step, and what each waits for, by (type, number)."""

    def __init__(self, number, stages, chunks, rows):
        self.number, self.stages, self.chunks = number, stages, chunks
        self.of = collections.defaultdict(list)
        for row in rows:
            self.of[row.optype].append(row)
        for ops in self.of.values():
            ops.sort(key=lambda row: row.seq_id)
        self.rows = rows
        self.compute = self.ordered(COMPUTE)
        self.after = collections.defaultdict(list)
        self.partner = {}  # of a message: (type, stage, how many of that type went before)

    def ordered(self, types):
        return sorted((row for row in self.rows if row.optype in types),
                      key=lambda row: (row.start_ts, row.seq_id, row.optype))

    def wait(self, row, other):
        self.after[row.optype, row.seq_id].append((other.optype, other.seq_id))

    def chain(self, rows, first=()):
        before = list(first)
        for row in rows:
            for other in before:
                self.wait(row, other)
            before = [row]

    def match(self, direction):
        """Messages with the compute that they feed, or that feeds them."""
        compute = self.of[direction + "-compute"]
        last_start = max(row.start_ts for row in compute)
        first_end = min(row.end for row in compute)
        for way in ("send", "recv"):
            kind = f"{direction}-{way}"
            # The profiler has recorded messages at the ends of a step that nobody sent.
            sent = [row for row in self.of[kind] if (row.start_ts <= last_start + CLOCK_SLACK_S if way == "recv" else
                                                     row.end >= first_end - CLOCK_SLACK_S)]
            skipped = 1 if way == "recv" and len(sent) + 1 == len(compute) else 0
            met = 0
            for number, row in enumerate(sent, skipped):
                own = compute[number]
                peer, further = PARTNER[kind]
                if 0 <= own.gmc + further < self.chunks * self.stages:
                    self.partner[kind, row.seq_id] = (peer, (self.number + further) % self.stages, met)
                    met += 1
                if way == "send":
                    self.wait(row, own)
                    continue
                self.wait(own, row)
                if number > 0:
                    self.wait(row, compute[number - 1])

    def first_backward(self):
        first = next(i for i, row in enumerate(self.compute) if row.optype == "backward-compute")
        if first < 2:
            return
        for kind in ("backward-recv", "backward-send"):
            for row in self.of[kind][:1]:
                self.wait(row, self.compute[first - 2])

    def parameters(self):
        known = set()
        for gather in reversed(self.of["params-all-gather"]):
            if gather.mc not in known:
                known.add(gather.mc)
                fed = [row for row in self.of["forward-compute"] if row.mc == gather.mc]
                self.wait(min(fed, key=lambda row: row.start_ts), gather)

    def gradients(self):
        known = set()
        for scatter in self.of["grads-reduce-scatter"]:
            if scatter.mc not in known:
                known.add(scatter.mc)
                made = [row for row in self.of["backward-compute"] if row.mc == scatter.mc]
                self.wait(scatter, max(made, key=lambda row: row.end))

    def end_of_step(self, replicas, overlapped):
        collect = self.of["gc"][0]
        self.wait(collect, max(self.compute, key=lambda row: row.end))
        scatters = self.of["grads-reduce-scatter"]
        middle, first = [], [collect]
        if replicas and overlapped:
            middle = self.of["separate-grads-all-reduce"]
            first = scatters[-1:] + first
        elif replicas:
            middle = scatters
        embedding = self.of["embedding-grads-all-reduce"] if self.number in (0, self.stages - 1) else []
        self.chain([self.of["layernorm-grads-all-reduce"][0], *embedding, *middle,
                    self.of["optimizer-clip-main-grad"][0], self.of["optimizer"][0]], first)

    def connect(self, replicas, overlapped):
        for direction in ("forward", "backward"):
            self.match(direction)
        self.chain(self.compute)
        for kind in MESSAGES:
            self.chain(self.ordered((kind,)))
        self.first_backward()
        if replicas:
            self.chain(self.ordered(("params-all-gather", "grads-reduce-scatter")))
            self.parameters()
            if overlapped:
                self.gradients()
        self.end_of_step(replicas, overlapped)


class Job:
    def __init__(self, trace, meta):
        self.trace = trace
        self.trace["end"] = trace.start_ts.astype("float64") + trace.duration
        self.stages = int(trace.stage.max()) + 1
        self.replicas = (int(trace.dp_rank.max()) + 1) * meta["dsp_size"] > 1
        overlapped = "separate-grads-all-reduce" in set(trace.optype)
        # All replicas and steps do the same: that of the first one is taken.
        model = trace[(trace.dp_rank == 0) & (trace.step == trace.step.min())]
        self.model = {}
        for stage in range(self.stages):
            rows = list(model[model.stage == stage].itertuples())
            self.model[stage] = Stage(stage, self.stages, int(model.mc.max()) + 1, rows)
            self.model[stage].connect(self.replicas, overlapped)
        self.meetings = self.messages()

    def messages(self):
        """By type, number and stage: the name of the meeting of both ends."""
        found = {}
        ends = {}
        for stage in self.model.values():
            met = collections.Counter()
            for row in stage.ordered(MESSAGES):
                partner = stage.partner.get((row.optype, row.seq_id))
                if partner is None:
                    continue
                own = (row.optype, stage.number, met[row.optype])
                met[row.optype] += 1
                found[row.optype, row.seq_id, stage.number] = "+".join(sorted(map(str, (own, partner))))
                ends.setdefault(found[row.optype, row.seq_id, stage.number], []).append(own)
        assert all(len(both) == 2 for both in ends.values())
        return found

    def meeting(self, row):
        of_replica = f"{row.step}/{row.dp_rank}"
        if row.optype in MESSAGES:
            alone = f"{row.optype}/{row.seq_id}/{row.stage}"
            return f"{of_replica}/{self.meetings.get((row.optype, row.seq_id, row.stage), alone)}"
        if row.optype == "embedding-grads-all-reduce":
            return f"{of_replica}/{row.optype}"
        if row.optype == "optimizer-clip-main-grad":
            return f"{row.step}/{row.optype}"
        if row.optype in OF_REPLICAS and self.replicas:
            return f"{row.step}/{row.stage}/{row.optype}/{row.seq_id}"
        return None

    def lines(self):
        steps = {step: number for number, step in enumerate(sorted(self.trace.step.unique()))}
        for rank, of_rank in self.trace.sort_values(["rank", "step", "start_ts"]).groupby("rank"):
            place = {}
            for number, row in enumerate(of_rank.itertuples()):
                place[row.step, row.optype, row.seq_id] = number
            for row in of_rank.itertuples():
                after = self.model[row.stage].after[row.optype, row.seq_id]
                direction = row.optype.split("-")[0]
                line = {
                    "rank": int(rank), "stage": row.stage, "replica": row.dp_rank, "step": row.step,
                    "operation": f"{direction}-pp-comm" if row.optype in MESSAGES else row.optype, "like": row.optype,
                    "kind": "communication" if row.optype in COMMUNICATION else "compute",
                    "lane": row.optype if row.optype in MESSAGES else "compute",
                    "time_ns": round((1_700_000_000 + 1000 * steps[row.step] + float(row.start_ts)) * 1e6) * 1000,
                    "duration_s": float(row.duration),
                    "after": [place[row.step, kind, number] for kind, number in after],
                }
                if meeting := self.meeting(row):
                    line["meets"] = meeting
                yield line


def meta_of(path):
    with open(path, encoding="utf-8") as file:
        pairs = (line.split(":", 1) for line in file if ":" in line)
        return {key.strip(): int(value) if value.strip().isdigit() else value.strip() for key, value in pairs}


def convert(trace, meta, out):
    for line in Job(pandas.read_parquet(trace), meta_of(meta)).lines():
        out.write(json.dumps(line) + "\n")


def read(directory, name):
    plain = os.path.join(directory, name)
    with gzip.open(plain + ".gz", "rt") if os.path.exists(plain + ".gz") else open(plain, encoding="utf-8") as file:
        return json.load(file)


def differences(directory, name, ideal, worker_of):
    """(what, ours, theirs, difference as they count: of a factor or a share)."""
    theirs = read(directory, f"result-{name}.json")
    yield "slowdown", ideal["slowdown"], theirs["blocking_slowdown"]
    for op in ideal["ops"]:
        yield f"op {op['op']}", op["slowdown"], theirs["blocking_decompose_by_optype"][op["op"]]
    for stage in ideal["stages"]:
        yield f"stage {stage['stage']}", stage["slowdown"], theirs["blocking_decompose_by_stage"][str(stage["stage"])]
    for rank in ideal["ranks"]:
        replica, stage = worker_of[rank["rank"]]
        both = (theirs["blocking_decompose_by_dp_rank"][str(replica)], theirs["blocking_decompose_by_stage"][str(stage)])
        yield f"rank {rank['rank']}", rank["slowdown"], min(both)
    yield "M_W", ideal["worst_ranks_explain"], read(directory, f"mw-{name}.json")["Mw"]
    yield "M_S", ideal["last_stage_explains"], read(directory, f"ms-{name}.json")["Ms"]


def compare(ncclwatch, directory, names):
    worst = 0.0
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            lines = os.path.join(scratch, name + ".jsonl")
            trace = os.path.join(directory, f"trace-{name}.parquet")
            with open(lines, "w", encoding="utf-8") as out:
                convert(trace, os.path.join(directory, f"meta-{name}.yaml"), out)
            told = subprocess.run([ncclwatch, "replay", lines, "--ideal", "--json"], check=True, capture_output=True,
                                  text=True)
        rows = pandas.read_parquet(trace, columns=["rank", "dp_rank", "stage"]).drop_duplicates()
        workers = {row.rank: (row.dp_rank, row.stage) for row in rows.itertuples()}
        for what, ours, published in differences(directory, name, json.loads(told.stdout)["ideal"], workers):
            off = abs(ours - published)
            worst = max(worst, off)
            print(f"{name} {what:32} {ours:9.4f} published {published:9.4f} off by {100 * off:.2f} %")
    print(f"largest difference {100 * worst:.2f} %")
    return 0 if worst <= LIMIT else 1


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "convert":
        convert(sys.argv[2], sys.argv[3], sys.stdout)
        return 0
    if len(sys.argv) > 4 and sys.argv[1] == "compare":
        return compare(sys.argv[2], sys.argv[3], sys.argv[4:])
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
