"""`ncclwatch replay --ideal` against plain arithmetic, and on jobs of the simulator whose straggler is known."""

import json
import os
import re

from common import bench_case, check, check_equal

BEGAN_NS = 1_700_000_000 * 10**9
MS = 10**6
STEP_MS = 1000  # from the beginning of one to that of the next


class Job:
    """Operations as lines that `import` takes: what a rank does, one after another, and who meets whom."""

    def __init__(self):
        self.lines, self.free, self.count = [], {}, {}

    def begin_step(self, step, ranks):
        """Steps wait for nothing of the step before."""
        for rank in ranks:
            self.free[rank] = step * STEP_MS

    def add(self, rank, name, kind, ms, step, meets=None, **more):
        begin, number = self.free[rank], self.count.get(rank, 0)
        self.lines.append({"rank": rank, "operation": name, "kind": kind, "step": step, "lane": "all",
                           "time_ns": BEGAN_NS + round(begin * MS), "duration_s": ms / 1e3,
                           "after": [number - 1] if begin > step * STEP_MS else [], **({"meets": meets} if meets else {}), **more})
        self.count[rank] = number + 1
        self.free[rank] = begin + ms

    def meet(self, ranks, name, transfer_ms, step, meets, **more):
        there = max(self.free[rank] for rank in ranks)
        for rank in ranks:
            self.add(rank, name, "communication", there + transfer_ms - self.free[rank], step, meets, **more)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in self.lines)
        return path


def data_parallel(ranks=4, steps=3, slow=None):
    """10 ms of computation, 30 on the slow rank, then 5 ms of transfer: a step takes 35 ms, or 15."""
    job = Job()
    for step in range(steps):
        job.begin_step(step, range(ranks))
        for rank in range(ranks):
            job.add(rank, "forward", "compute", 30 if rank == slow else 10, step)
        job.meet(range(ranks), "AllReduce", 5, step, f"{step}")
    return job


def ideal_of(bench, job, name="job"):
    path = job.write(os.path.join(bench.sandbox.path, name + ".jsonl"))
    done = bench.command("replay", path, "--ideal", "--json")
    check_equal(done.status, 0, f"{done}")
    said = json.loads(done.out)
    check_equal(said["schema"], "ncclwatch.replay/1", "schema")
    return said["ideal"]


def near(value, expected, what):
    check(abs(value - expected) < 1e-6, f"{what}: {value}, not {expected}")


@bench_case
def ideal_of_one_slow_rank(bench):
    said = ideal_of(bench, data_parallel(slow=2))
    near(said["actual_s"], 0.035, "actual")
    near(said["recorded_s"], 0.035, "recorded")
    near(said["ideal_s"], 0.020, "the mean of 10, 10, 30, 10 and a transfer of 5")
    near(said["slowdown"], 1.75, "slowdown")
    ops = {one["op"]: one["slowdown"] for one in said["ops"]}
    near(ops["forward"], 1.75, "computation alone as recorded")
    near(ops["AllReduce"], 1, "transfers alone as recorded")
    check_equal([one["rank"] for one in said["ranks"]], [0, 1, 2, 3], "ranks")
    near(said["ranks"][2]["slowdown"], 1.75, "rank 2 alone as recorded")
    near(said["ranks"][0]["slowdown"], 1, "rank 0 alone: the others wait for nobody longer than 15 ms")
    check_equal(said["worst_ranks"], [2], "worst ranks")
    near(said["worst_ranks_explain"], 1, "M_W")
    check_equal((said["last_stage_explains"], said["stages"]), (None, []), "no stages were told")
    check("Rank 2 alone costs 100 %" in said["verdict"], said["verdict"])


@bench_case
def ideal_of_a_job_without_stragglers(bench):
    said = ideal_of(bench, data_parallel())
    near(said["slowdown"], 1, "slowdown")
    check_equal(said["worst_ranks_explain"], None, "there is nothing to explain")
    check(said["verdict"].startswith("Nobody is much slower"), said["verdict"])


@bench_case
def ideal_of_a_long_last_stage(bench):
    """Two stages, two replicas, two micro-batches: 10 ms, 2 ms to the last stage, and there 30 ms; 1 ms for all."""
    job = Job()
    for step in range(4):
        job.begin_step(step, range(4))
        for replica in (0, 1):
            first, last = 2 * replica, 2 * replica + 1
            where = {first: {"stage": 0, "replica": replica}, last: {"stage": 1, "replica": replica}}
            for batch in (0, 1):
                job.add(first, "compute", "compute", 10, step, **where[first])
                there = max(job.free[first], job.free[last])
                for rank in (first, last):
                    job.add(rank, "message", "communication", there + 2 - job.free[rank], step,
                            f"{step}/{replica}/{batch}", **where[rank])
                job.add(last, "compute", "compute", 30, step, **where[last])
        job.meet([1, 3], "AllReduce", 1, step, f"end {step}")
    said = ideal_of(bench, job)
    near(said["actual_s"], 0.075, "10, 2, 30, 2, 30, 1")
    near(said["ideal_s"], 0.065, "20, 2, 20, 2, 20, 1")
    check_equal([one["stage"] for one in said["stages"]], [0, 1], "stages")
    near(said["stages"][1]["slowdown"], 85 / 65, "the last stage alone as recorded: 20, 2, 30, 2, 30, 1")
    near(said["stages"][0]["slowdown"], 55 / 65, "the first stage alone: 10, 2, 20, 2, 20, 1")
    near(said["last_stage_explains"], (75 - 55) / (75 - 65), "M_S")
    check("last stage" in said["verdict"], said["verdict"])


@bench_case
def ideal_of_recorded_calls(bench):
    """Computation is what lies between the calls; the simulator knows who is late."""
    folder = bench.sandbox.fresh("straggler")
    generator = os.path.join(bench.build.root, "bin", "generate_job")
    told = bench.sandbox.run([generator, "--slow", "straggler", "--ranks", "8", "--seed", "3", "--out", folder], bench.environment())
    culprits = [int(re.match(r"rank (\d+) takes", told.out)[1])]
    done = bench.command("replay", folder, "--ideal", "--json")
    check_equal(done.status, 0, f"{done}")
    said = json.loads(done.out)["ideal"]
    check_equal(said["worst_ranks"], culprits, "worst ranks")
    check(abs(said["actual_s"] / said["recorded_s"] - 1) < 0.02, f"the model is the job: {said['actual_s']}, {said['recorded_s']}")
    check(1.02 < said["slowdown"] < 1.3, f"{said['slowdown']}")


@bench_case
def ideal_timeline(bench):
    path = data_parallel(slow=1).write(os.path.join(bench.sandbox.path, "job.jsonl"))
    out = os.path.join(bench.sandbox.path, "ideal.json")
    check_equal(bench.command("replay", path, "--ideal", "-o", out).status, 0, "status")
    with open(out, encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    check_equal(len(events), 4 * 3 * 2, "an event for each operation")
    check_equal(max(event["ts"] + event["dur"] for event in events), 60_000, "three steps of 20 ms, in microseconds")


@bench_case
def ideal_misused(bench):
    path = data_parallel().write(os.path.join(bench.sandbox.path, "job.jsonl"))
    for more in (["--slow", "rank=1:20%"], ["--on", "mpi"], ["--shrink", "-o", "x"], ["--steps", "1..2"]):
        done = bench.command("replay", path, "--ideal", *more)
        check_equal((done.status, "--ideal takes the recording as it is" in done.err), (2, True), f"{more}: {done}")
    check_equal(bench.command("replay", bench.sandbox.fresh("empty"), "--ideal").status, 3, "nothing to replay")
