"""Traces of torch's profiler, read by `import` and by every command that takes a recording."""

import gzip
import json
import os

import kineto
from common import bench_case, check, check_equal


def model(ranks=4, steps=3, first=10):
    """Tensor-parallel pairs, a world, messages around; rank 2 computes longer."""
    pairs = {str(1 + pair): [2 * pair, 2 * pair + 1] for pair in range(ranks // 2)}
    job = kineto.Model(ranks, pairs)
    for step in range(first, first + steps):
        job.begin_step(step)
        for rank in range(ranks):
            job.compute(rank, 20_000, kineto.COPY)
            job.compute(rank, 300_000 + 1_000 * rank + (150_000 if rank == 2 else 0))
        for group in pairs:
            job.collective(group, "AllReduce", 1 << 14, 30_000, "bfloat16")
        job.collective("0", "AlltoAll", 1000, 40_000)
        job.collective("0", "AllReduce", 5000 + step, 90_000, waits=False)
        for rank in range(ranks):
            job.compute(rank, 50_000)
        for rank in range(0, ranks, 2):
            job.message("0", rank, rank + 1, 777, 10_000)
        job.end_step()
    return job


def calls(bench, folder):
    done = bench.command("trace", "--json", folder)
    check_equal(done.status, 0, f"trace: {done}")
    return [json.loads(line) for line in done.out.splitlines()]


def breakdown(bench, folder):
    done = bench.command("stats", "--steps", "--json", folder)
    check_equal((done.status, done.err), (0, ""), "stats --steps")
    return json.loads(done.out)


def diagnosis(bench, folder):
    done = bench.command("diagnose", "--json", folder)
    return json.loads(done.out), done


def same(told, truth, what, within=1e-9):
    for key, value in truth.items():
        if value is None:
            check_equal(told[key], None, f"{what}: {key}")
        else:
            check(abs(told[key] - value) <= within, f"{what}: {key}: {told[key]}, not {value}")


def check_calls(job, told, numbered=True):
    """Each call of the model is there once, with its group, position and kernel."""
    count = {}
    for rank in job.ranks:
        own = [one for one in told if one["rank"] == rank.number]
        check_equal(len(own), len(rank.calls), f"calls of rank {rank.number}")
        for call, one in zip(rank.calls, own):
            ranks = job.groups[call["group"]]
            check_equal((one["op"], one["count"], one["dtype"], one["state"]),
                        (call["op"], call["count"], call["dtype"], "finished"), f"rank {rank.number}")
            check_equal(one["communicator_rank"], ranks.index(rank.number), "rank in its group")
            check_equal(one["peer"], call["peer"], "peer")
            work = rank.work[call["kernel"]]
            check(abs(one["kernel"]["duration_s"] - (work["end"] - work["begin"]) / 1e9) < 1e-8, f"kernel: {one['kernel']}")
            if call["peer"] is None:
                count.setdefault((one["communicator"], one["position"]), []).append((rank.number, call["seq"]))
    for (communicator, position), members in count.items():
        check_equal(len({seq for _, seq in members}), 1, f"{communicator} at {position}: one call: {members}")
        if numbered:
            check_equal(position, members[0][1] - 1, "torch's number, counted from 0")
    check_equal(len(count), sum(max(call["seq"] for rank in job.ranks for call in rank.calls if call["group"] == group)
                                for group in job.groups), "collectives that meet")


@bench_case
def kineto_calls_of_each_version(bench):
    job = model()
    for style, compress in (("new", False), ("new", True), ("2024", False)):
        folder = job.write(bench.sandbox.fresh(f"{style}{compress}"), style, compress=compress)
        check_calls(job, calls(bench, folder), numbered=style == "new")


@bench_case
def kineto_annotations_of_old_versions(bench):
    """No groups are told: all calls are on the world."""
    job = kineto.Model(4)
    for step in range(2):
        job.begin_step(step)
        for rank in range(4):
            job.compute(rank, 100_000)
        job.collective("0", "AllReduce", 4096, 50_000)
        job.collective("0", "AlltoAll", 250, 20_000)
        job.message("0", 0, 1, 99, 5_000)
        job.end_step()
    folder = job.write(bench.sandbox.fresh("old"), "old", name="worker{rank}_step_1.1694128201545.pt.trace.json")
    told = calls(bench, folder)
    check_calls(job, told)
    check_equal({one["label"] for one in told}, {"world"}, "group")


@bench_case
def kineto_ranks_in_names(bench):
    job = model(ranks=2)
    for name in ("worker{rank}.pt.trace.json", "rank-{rank}.json", "trace_{rank}.json", "job_7_rank_{rank}.json"):
        folder = job.write(bench.sandbox.fresh("names"), "bare", name=name)
        check_equal({one["rank"] for one in calls(bench, folder)}, {0, 1}, name)
    folder = job.write(bench.sandbox.fresh("hosts"), "new", name="node{rank}_40{rank}.1694128201545.pt.trace.json")
    check_equal({(one["host"], one["pid"]) for one in calls(bench, folder)}, {("node0", 400), ("node1", 401)}, "hosts")


@bench_case
def kineto_windows_begin_apart(bench):
    """Rank 1's window begins later and ends earlier; without torch's numbers steps tell which calls meet, and without
    steps the ends of kernels do. Nobody is accused of what is outside of a window."""
    for style, steps in (("new", True), ("2024", True), ("2024", False)):
        job = model(ranks=2, steps=4)
        folder = bench.sandbox.fresh("apart")
        job.write(folder, style)
        path = os.path.join(folder, "rank1.json")
        with open(path) as file:
            trace = json.load(file)
        edge = job.ranks[1].steps
        begin, end = (kineto.START - kineto.BASE + at for at in (edge[1][1], edge[3][1] + 4_000))
        trace["traceEvents"] = [one for one in trace["traceEvents"]
                                if begin <= one["ts"] * 1e3 < end and (steps or "ProfilerStep" not in one["name"])]
        with open(path, "w") as file:
            json.dump(trace, file)
        meet = {}
        for one in calls(bench, folder):
            if one["op"] in ("AllReduce", "AlltoAll"):
                meet.setdefault((one["communicator"], one["position"]), []).append((one["op"], one["count"]))
        both = [met for met in meet.values() if len(met) == 2]
        check(len(both) >= 6 and all(first == second for first, second in both), f"{style}, {steps}: {meet}")
        said, done = diagnosis(bench, folder)
        check_equal((said["findings"], done.status), ([], 0), f"{style}: findings")


@bench_case
def kineto_groups_not_told(bench):
    """Calls of several groups that a trace does not tell apart cannot be matched, and that is said."""
    job = kineto.Model(3, {"1": [0, 1]})
    for step in range(4):
        for rank in range(3):
            job.compute(rank, 50_000)
        job.collective("0", "AllReduce", 4096, 10_000)
        job.collective("0", "AllGather", 4096, 10_000)
        job.collective("1", "AlltoAll", 64, 10_000)
    folder = job.write(bench.sandbox.fresh("mixed"), "old")
    said, done = diagnosis(bench, folder)
    check_equal((said["findings"], done.status), ([], 0), "findings")
    check("not known, so they are not compared: world" in " ".join(said["notes"]), f"{said['notes']}")
    check(all(one["wait_s"] == 0 for one in breakdown(bench, folder)["ranks"]), "nobody is known to wait")


@bench_case
def kineto_breakdown(bench):
    job = model()
    for style, within in (("new", 1e-9), ("2024", 1e-9)):
        told = breakdown(bench, job.write(bench.sandbox.fresh(style), style))
        check_equal([one["rank"] for one in told["ranks"]], [0, 1, 2, 3], "ranks")
        check_equal([one["step"] for one in told["steps"]], [10, 11, 12], "steps")
        for rank, one in zip(job.ranks, told["ranks"]):
            same(one, kineto.whole(rank), f"rank {rank.number}", within)
            check(abs(sum(one["shares"][key] for key in ("compute", "exposed", "copy", "idle")) - 1) < 1e-9, f"shares: {one}")
            begins = [min(work["begin"] for work in rank.work if work["step"] == step) for step in (10, 11, 12)]
            begins.append(max(work["end"] for work in rank.work))
            for step, begin, end in zip(told["steps"], begins, begins[1:]):
                same(step["ranks"][rank.number], kineto.parts(rank.work, begin, end), f"step {step['step']}", within)


@bench_case
def kineto_who_waits(bench):
    """In each collective the kernel of the last rank is the shortest, and what the others' run longer is waiting."""
    job = kineto.Model(3)
    for step in range(2):
        job.begin_step(step)
        for rank in range(3):
            job.compute(rank, 100_000 * (rank + 1))
        job.collective("0", "AllReduce", 4096, 50_000)
        job.end_step()
    told = breakdown(bench, job.write(bench.sandbox.fresh("waits")))
    for step in told["steps"]:
        waits = [round(one["wait_s"] * 1e6) for one in step["ranks"]]
        check_equal((waits[1] - waits[2], waits[0] - waits[1], waits[2]), (100, 100, 0), "waits, in microseconds")
        check_equal([round(one["late_s"] * 1e6) for one in step["ranks"]], [0, 0, 100], "the last one, after the middle one")
        check(all(one["wait_s"] <= one["exposed_s"] for one in step["ranks"]), "waiting is part of what is exposed")


@bench_case
def kineto_straggler(bench):
    """Kernels show who comes late; a job whose ranks differ by a few percent has none."""
    for late in (None, 5):
        job = kineto.Model(8)
        for step in range(30):
            job.begin_step(step)
            for rank in range(8):
                job.compute(rank, 2_000_000 + 7_000 * ((rank * 5 + step * 3) % 8) + (600_000 if rank == late else 0))
            for count in (1 << 20, 1 << 14, 1 << 18):
                job.collective("0", "AllReduce", count, 200_000)
            job.end_step()
        for style in ("new", "2024", "old"):
            said, _ = diagnosis(bench, job.write(bench.sandbox.fresh(f"{style}{late}"), style))
            check_equal([(one["kind"], one["culprits"]) for one in said["findings"]],
                        [] if late is None else [("straggler", [late])], f"{style}, rank {late} late")


@bench_case
def kineto_damaged(bench):
    job = model(ranks=2)
    folder = job.write(bench.sandbox.fresh("cut"))
    path = os.path.join(folder, "rank1.json")
    with open(path) as file:
        text = file.read()
    cut = len(text) * 3 // 4
    with open(path, "w") as file:
        file.write(text[:cut])
    done = bench.command("import", folder, "-o", bench.sandbox.fresh("cut-rec"), "--json")
    check(done.status == 3 and f"rank1.json: at byte {cut}: it ends in the middle" in done.err, f"{done}")
    check_equal(json.loads(done.out)["processes"], 2, "what there was of it")
    with open(path, "w") as file:
        file.write(text[:cut] + "}" + text[cut:])
    done = bench.command("import", folder, "-o", bench.sandbox.fresh("bad-rec"))
    check(done.status == 3 and "rank1.json: at byte " in done.err, f"{done}")
    packed = gzip.compress(text.encode())
    with open(path + ".gz", "wb") as file:
        file.write(packed[:-200])
    os.remove(path)
    done = bench.command("stats", "--steps", "--json", folder)
    check("rank1.json.gz: at byte " in done.err and "cut off" in done.err, f"{done}")
    check_equal(len(json.loads(done.out)["ranks"]), 2, "what there was of it")


@bench_case
def kineto_kernels_alone(bench):
    """A trace of the GPU only: its kernels stand for the calls, with what torch has told them or by their names."""
    job = kineto.Model(2)
    for rank in range(2):
        job.compute(rank, 50_000)
    job.collective("0", "AllReduce", 4096, 50_000)
    job.collective("0", "AllGather", 2048, 50_000)
    for style, count in (("2024", 4096), ("old", 0)):
        folder = job.write(bench.sandbox.fresh(style), style)
        for rank in (0, 1):
            path = os.path.join(folder, f"rank{rank}.json")
            with open(path) as file:
                trace = json.load(file)
            trace["traceEvents"] = [one for one in trace["traceEvents"] if one["cat"] == "kernel"]
            with open(path, "w") as file:
                json.dump(trace, file)
        told = calls(bench, folder)
        check_equal([(one["op"], one["position"]) for one in told if one["rank"] == 1], [("AllReduce", 0), ("AllGather", 1)], style)
        check_equal(told[0]["count"], count, style)
        check_equal(told[0]["kernel"]["algorithm"], "RING", style)


@bench_case
def kineto_windows_of_one_rank(bench):
    """Several files of a rank are windows of it, one after another; two of one time are not."""
    folder = bench.sandbox.fresh("windows")
    early = model(ranks=2, steps=2)
    late = model(ranks=2, steps=2, first=50)
    for rank in late.ranks:
        for one in rank.work + rank.calls:
            for key in ("begin", "end", "launch", "at"):
                if key in one:
                    one[key] += 10_000_000_000
        for step in rank.steps:
            step[1] += 10_000_000_000
            step[2] += 10_000_000_000
    early.write(folder, "2024", name="rank{rank}.1.json")
    late.write(folder, "2024", name="rank{rank}.2.json")
    told = breakdown(bench, folder)
    check_equal([one["step"] for one in told["steps"]], [10, 11, 50, 51], "steps")
    check(all(one["duration_s"] < 0.01 for one in told["steps"]), f"the time between windows is no step's: {told['steps']}")
    check_equal(diagnosis(bench, folder)[0]["findings"], [], "findings")
    early.write(folder, "2024", name="rank{rank}.3.json", only=[1])
    done = bench.command("import", folder, "-o", bench.sandbox.fresh("twice"))
    check(done.status == 3 and "a second trace of rank 1 at the time of" in done.err, f"{done}")


@bench_case
def kineto_says_what_it_cannot_check(bench):
    folder = model().write(bench.sandbox.fresh("healthy"))
    said, done = diagnosis(bench, folder)
    check_equal((said["findings"], done.status), ([], 0), "findings")
    text = " ".join(said["notes"])
    check("traces of a profiler hold what was over" in text and "from traces of torch's profiler" in text, text)
    plain = bench.command("diagnose", folder)
    check("whether the job stopped" in plain.out and "dump" not in plain.out, plain.out)


@bench_case
def kineto_recording_of_it(bench):
    """What `import` makes of it tells the same as the traces, and other commands take them directly."""
    folder, recording = model().write(bench.sandbox.fresh("direct")), bench.sandbox.fresh("rec")
    done = bench.command("import", folder, "-o", recording)
    check_equal(done.status, 0, f"import: {done}")
    check_equal(calls(bench, recording), calls(bench, folder), "calls")
    check_equal(breakdown(bench, recording), breakdown(bench, folder), "times")
    check_equal(diagnosis(bench, recording)[0]["notes"], diagnosis(bench, folder)[0]["notes"], "notes")
    page = os.path.join(bench.sandbox.path, "report.html")
    for words in (("report", folder, "-o", page), ("export", folder, "--to", "perfetto", "-o", page + ".pb"), ("stats", folder)):
        done = bench.command(*words)
        check_equal((done.status, done.err), (0, ""), " ".join(words))
