"""Nothing is missing: trace and stats against the program's own log."""

import collections
import csv
import io
import os

from common import COLLECTIVES, Recorded, made
from harness import case, check, check_equal


@case
def every_call_once_in_order(sandbox):
    """More calls than any ring holds, from segments and boxes, and from segments alone."""
    job = Recorded(sandbox, ranks=3, steps=1500, pause_us=200, options=("--ring", "1024"))
    for take in (lambda: None, job.without_boxes):
        take()
        calls = job.calls()
        for rank in range(3):
            check_equal(made(calls, rank), job.called(rank), f"calls of rank {rank}")
            check_equal([c["seq"] for c in calls if c["rank"] == rank], list(range(len([c for c in calls if c["rank"] == rank]))),
                        "their numbers")
        check_equal([c["time_ns"] for c in calls], sorted(c["time_ns"] for c in calls), "order of time")
        check(all(c["state"] == "finished" for c in calls if c["op"] in COLLECTIVES), "all have finished on the GPU")
        check(all(c["site"]["function"] == "main" for c in calls if c["op"] in COLLECTIVES), "call sites")
    size = sum(os.path.getsize(path) for path in job.segments())
    print(f"{size / len(calls):.1f} bytes a call on disk")
    check(size / len(calls) < 16, "bytes a call on disk")


@case
def filters_of_trace(sandbox):
    job = Recorded(sandbox, ranks=2, steps=100)
    everything = job.calls()

    def wanted(*words, of=None):
        check_equal(job.calls(*words), [c for c in everything if of(c)], f"{words}")

    wanted("--rank", "1", of=lambda c: c["rank"] == 1)
    wanted("--min-bytes", "1K", of=lambda c: (c["bytes"] or 0) >= 1024)
    wanted("--op", "Broadcast", "--state", "finished", of=lambda c: c["op"] == "Broadcast" and c["state"] == "finished")
    middle = everything[len(everything) // 2]
    wanted("--since", middle["entered"], of=lambda c: c["entered"] >= middle["entered"])
    wanted("--comm", middle["communicator"][:8], of=lambda c: c["communicator"] == middle["communicator"])
    rows = list(csv.DictReader(io.StringIO(job.command("trace", "--csv").out)))
    check_equal([(int(r["time_ns"]), r["op"], r["count"]) for r in rows],
                [(c["time_ns"], c["op"], "" if c["count"] is None else str(c["count"])) for c in everything], "--csv")


@case
def stats_are_plain_arithmetic(sandbox):
    job = Recorded(sandbox, ranks=2, steps=300)
    calls, stats = job.calls(), job.json("stats")
    counted = [c for c in calls if c["op"] not in ("GroupStart", "GroupEnd")]
    check_equal(stats["calls"], len(counted), "calls")
    check_equal(stats["lost"], {"0": 0, "1": 0}, "lost")
    sums = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for call in counted:
        row = sums[call["op"], call["communicator"], call["dtype"], call["bytes"] or 0]
        row[0] += 1
        row[1] += call["duration_s"] * 1e6
        row[2] = max(row[2], call["duration_s"] * 1e6)
    for row in stats["rows"]:
        number, total, most = sums.pop((row["op"], row["communicator"], row["dtype"], row["bytes"]))
        check_equal(row["calls"], number, f"{row}: calls")
        check(abs(row["total_us"] - total) < 0.01 + total * 1e-6, f"{row}: total {total}")
        check(abs(row["max_us"] - most) < 0.01, f"{row}: max {most}")
        check(row["p50_us"] <= row["p99_us"] <= row["max_us"], f"{row}: quantiles")
    check_equal(dict(sums), {}, "rows that are missing")
    for rank in (0, 1):
        of_rank = next(r for r in stats["ranks"] if r["rank"] == rank)
        check_equal(of_rank["bytes"], sum(c["bytes"] or 0 for c in counted if c["rank"] == rank), "bytes")
    last = {}
    for call in calls:
        if call["op"] in COLLECTIVES:
            last.setdefault(call["position"], []).append(call["time_ns"])
    waited = sum(max(times) * len(times) - sum(times) for times in last.values()) / 1000
    check(abs(sum(r["wait_us"] for r in stats["ranks"]) - waited) < 1 + waited * 1e-6, f"wait: {waited}")


@case
def stats_by_rank_and_size(sandbox):
    job = Recorded(sandbox, ranks=2, steps=400)
    rows = job.json("stats", "--by", "rank")["rows"]
    check_equal(sorted((r["rank"], r["op"]) for r in rows), [(0, None), (1, None)], "one row a rank")
    sizes = {r["bytes"] for r in job.json("stats", "--by", "op,size")["rows"] if r["op"] == "AllReduce"}
    check_equal(sizes, {400, 800, 1200}, "sizes")
    # A place is named some ms after its first call: that of the last call, when the process is gone.
    place = lambda site: (site["file"], site["line"], site["function"])
    sites = {place(r["site"]): r["calls"] for r in job.json("stats", "--by", "site")["rows"] if r["site"]["file"]}
    counted = [c for c in job.calls() if c["op"] not in ("GroupStart", "GroupEnd", "CommDestroy") and c["site"]]
    check_equal(sites, dict(collections.Counter(place(c["site"]) for c in counted)), "calls by place")
    check(len(counted) > 2000 and len(sites) > 1 and all(line for _, line, _ in sites), f"lines: {sites}")
    check_equal(job.command("stats", "--by", "colour").status, 2, "a word that it does not know")


@case
def collect_by_hand(sandbox):
    """Beside a job that nobody records, which ends."""
    from harness import Process, until
    import time
    build = sandbox.build
    scratch = sandbox.fresh("by-hand")
    run, to = os.path.join(scratch, "run"), os.path.join(scratch, "recording")
    os.makedirs(run, mode=0o700)
    collector = Process([build.command, "collect", "--wait", "--to", to, run], sandbox.environment(preload=False), cwd=scratch)
    job = sandbox.job([build.program("recording", "loop"), "400", "500", "log.{rank}"], ranks=2, run_directory=run)
    check_equal(job.statuses(), [0, 0], f"{job.done}")
    ended = time.monotonic()
    done = collector.wait(ended + 20)
    print(f"the collector ended {time.monotonic() - ended:.2f} s after the job")
    check_equal(done.status, 0, f"collect: {done}")
    check("calls recorded in" in done.err, f"{done}")
    from harness import trace
    calls = trace(sandbox, to)
    for rank in (0, 1):
        with open(os.path.join(job.scratch, f"log.{rank}")) as file:
            check_equal(len(made(calls, rank)), len(file.readlines()), "calls")


@case
def without_a_launcher(sandbox):
    """NCCLWATCH_TRACE=full alone: the leader starts the collector, which outlives the job and its run directory."""
    to = os.path.join(sandbox.fresh("place"), "recording")
    job = sandbox.job([sandbox.build.program("recording", "loop"), "3000", "500", "log.{rank}"], ranks=2,
                      extra={"NCCLWATCH_TRACE": "full", "NCCLWATCH_TRACE_DIR": to})
    check_equal(job.statuses(), [0, 0], f"{job.done}")
    from harness import until
    until(lambda: os.path.isdir(to) and len([name for name in os.listdir(to) if name.endswith(".box")]) == 2, "the boxes' copies")
    from harness import trace
    calls = trace(sandbox, to)
    for rank in (0, 1):
        with open(os.path.join(job.scratch, f"log.{rank}")) as file:
            check_equal(len(made(calls, rank)), len(file.readlines()), "calls")
    check(any(name.endswith(".segments") for name in os.listdir(to)), "there are segments")


@case
def no_place_for_segments(sandbox):
    """Nobody named a directory, and the present one is in memory: one line says it, and the job goes on."""
    job = sandbox.job([sandbox.build.program("recording", "loop"), "50", "500", "log.{rank}"], extra={"NCCLWATCH_TRACE": "full"})
    check_equal(job.statuses(), [0], f"{job.done}")
    said = [line for line in job.errors()[0].splitlines() if "calls are not recorded" in line]
    check_equal(len(said), 1, f"lines: {job.errors()}")


@case
def attempts_have_folders(sandbox):
    """Two attempts of one job under one launcher, as torchrun makes them: each is recorded whole."""
    build = sandbox.build
    scratch = sandbox.fresh("attempts")
    directory = os.path.join(scratch, "recording")
    loop = build.program("recording", "loop")
    rank = f"HOST_ID_DIR={scratch} RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=j7"
    once = f'{rank} TORCHELASTIC_RESTART_COUNT={{0}} "{loop}" {{1}} 500 {scratch}/log.{{0}}'
    script = "; sleep 0.3; ".join(once.format(attempt, steps) for attempt, steps in ((0, 100), (1, 150)))
    env = sandbox.environment(preload=False, extra={"TMPDIR": scratch})
    done = sandbox.run([build.command, "run", "--record", directory, "--", "sh", "-c", script], env, timeout=60)
    check_equal(done.status, 0, f"{done}")
    from harness import trace
    for place, attempt in ((directory, 0), (os.path.join(directory, "attempt-1"), 1)):
        env = sandbox.environment(preload=False)
        boxes = [name for name in os.listdir(place) if name.endswith(".box")]
        check_equal(len(boxes), 1, f"black boxes of attempt {attempt}: {os.listdir(place)}")
        calls = trace(sandbox, os.path.join(place, boxes[0]))
        with open(f"{scratch}/log.{attempt}") as file:
            check_equal(len(made(calls, 0)), len(file.readlines()), f"calls of attempt {attempt}")
        check([name for name in os.listdir(place) if name.endswith(".segments")], f"segments of attempt {attempt}")


@case
def a_second_recording_needs_another_place(sandbox):
    job = Recorded(sandbox, ranks=1, steps=10)
    env = sandbox.environment(preload=False)
    done = sandbox.run([sandbox.build.command, "run", "--record", job.directory, "--", "true"], env)
    check_equal(done.status, 2, f"{done}")
    check("holds a recording already" in done.err, f"{done}")
