"""Recorded jobs on the model: those that end, end; those that hang, hang there, with the same verdict."""

import glob
import json
import os
import struct
import sys

from common import ROOT, Recorded
from harness import Skipped, case, check, check_equal


def verdict(diagnosis):
    first = diagnosis["findings"][0] if diagnosis["findings"] else None
    return first and (first["kind"], first["culprits"], first["certainty"])


@case
def a_healthy_job_completes(sandbox):
    job = Recorded(sandbox, ranks=3, steps=300)
    outcome = job.json("replay", "--on", "model")
    check_equal((outcome["completed"], outcome["stopped"], outcome["findings"]), (True, [], []), "the outcome")
    check_equal((outcome["ranks"], outcome["calls"]), (3, len(job.calls())), "ranks and calls")
    check(abs(outcome["simulated_s"] / outcome["recorded_s"] - 1) < 0.05, f"its time: {outcome}")
    without = job.json("replay", "--no-gaps")
    check(without["completed"] and without["simulated_s"] < outcome["simulated_s"] / 3, f"without gaps: {without}")


@case
def what_if(sandbox):
    job = Recorded(sandbox, ranks=2, steps=200, pause_us=1000)
    plain = job.json("replay")["simulated_s"]
    late = job.json("replay", "--delay", "rank=1:2s")["simulated_s"]
    check(1.5 < late - plain < 2.5, f"a rank that comes 2 s later: {plain} {late}")
    slow = job.json("replay", "--slow", "rank=0:100%")["simulated_s"]
    check(slow > plain * 1.4, f"a rank of half the speed: {plain} {slow}")
    call = next(c for c in job.calls("--rank", "1") if c["op"] == "AllGather" and c["seq"] > 300)
    dropped = job.json("replay", "--drop", f"rank=1:{call['seq']}", status=1)
    check_equal(dropped["completed"], False, "without that call")
    kind, culprits, _ = verdict(dropped)
    check_equal((kind, 1 in culprits), ("order_mismatch", True), f"{dropped['findings'][:1]}")


@case
def without_any_one_call(sandbox):
    """Also one that makes a communicator: what the rank calls on it is left out, too."""
    job = Recorded(sandbox, ranks=2, steps=1)
    for call in job.calls("--rank", "1"):
        done = job.command("replay", "--json", "--drop", f"rank=1:{call['seq']}")
        check(done.status in (0, 1), f"without {call['seq']} {call['op']}: {done}")
        without = json.loads(done.out)["without"]
        made = call["op"].startswith("CommInit")
        check_equal([one["rank"] for one in without], [1] if made else [], f"without {call['op']}: {without}")


@case
def parts(sandbox):
    """One communicator alone, and ranks that have none of their own."""
    job = Recorded(sandbox, ranks=2, steps=50)
    world = job.calls("--op", "AllReduce")[0]["communicator"]
    whole = job.json("replay")
    check_equal(job.json("replay", "--comm", world[:8])["calls"], whole["calls"], "the only one there is")
    for words in (("--comm", "nobody"), ("--ranks", "0")):
        done = job.command("replay", *words)
        check_equal(done.status, 3, f"{words}: {done}")
        check("no communicator is left" in done.err, f"{words}: {done.err}")


@case
def slower_link(sandbox):
    """Of 16 ranks on two nodes the link between the nodes has a hundredth of its bandwidth left: plain arithmetic."""
    directory = os.path.join(sandbox.fresh("written"), "recording")
    write = sandbox.build.program("recording", "write_recording")
    sandbox.build.need(write)
    check_equal(sandbox.run([write, "16", "1000", directory]).status, 0, "write_recording")
    plain = sandbox.environment(preload=False)

    def seconds(*words):
        done = sandbox.run([sandbox.build.command, "replay", "--no-gaps", "--json", *words, directory], plain)
        check_equal(done.status, 0, f"{words}: {done}")
        return json.loads(done.out)["simulated_s"]

    # 999 collectives: nine AllReduces of k * 2^18 bfloat16 in each step of ten, 2 * 15/16 passes, 0.01 ns a byte.
    passes = sum(2 * 15 / 16 * ((slot % 10 + 1) << 18) * 2 * 0.01e-9 for slot in range(1, 1000) if slot % 10 != 9)
    grown = seconds("--link", "node0-node1:1%") - seconds()
    check(abs(grown / (99 * passes) - 1) < 0.01, f"it takes {grown} s longer, {99 * passes} by arithmetic")
    done = sandbox.run([sandbox.build.command, "replay", "--link", "node0-node9:50%", directory], plain)
    check_equal(done.status, 3, f"a host that is not there: {done}")


@case
def merged_and_scaled(sandbox):
    """One call instead of many costs its latency once; more ranks make more steps of a ring. By plain arithmetic."""
    write = sandbox.build.program("recording", "write_recording")
    directory = os.path.join(sandbox.fresh("job"), "recording")
    sandbox.build.need(write)
    check_equal(sandbox.run([write, "4", "1000", directory]).status, 0, "write_recording")
    plain = sandbox.environment(preload=False)

    def model(*words, status=0):
        done = sandbox.run([sandbox.build.command, "replay", "--no-gaps", "--json", *words, directory], plain)
        check_equal(done.status, status, f"{words}: {done}")
        return json.loads(done.out) if done.out else done.err

    whole, merged, scaled = model(), model("--merge-below", "1G"), model("--scale", "16")
    # Eight AllReduces in a row in the first step, nine in the other 99; a Broadcast ends each.
    check_equal(whole["calls"] - merged["calls"], 4 * (7 + 99 * 8), "calls that are part of others")
    check(merged["completed"] and merged["findings"] == [] and merged["simulated_s"] < whole["simulated_s"], f"{merged}")
    check_equal((scaled["ranks"], scaled["calls"], scaled["completed"]), (16, 4 * whole["calls"], True), f"{scaled}")
    check(scaled["simulated_s"] > whole["simulated_s"], "a ring of more ranks takes longer")
    check("is no multiple of its 4 ranks" in model("--scale", "6", status=3), "a part of a copy")


@case
def outcome_reads_like_a_job(sandbox):
    job = Recorded(sandbox, ranks=2, steps=50)
    out = os.path.join(job.scratch, "out")
    check_equal(job.command("replay", "--out", out).status, 0, "replay")
    check_equal([(c["rank"], c["seq"], c["op"]) for c in sorted(job.calls(directory=out), key=lambda c: (c["rank"], c["seq"]))],
                [(c["rank"], c["seq"], c["op"]) for c in sorted(job.calls(), key=lambda c: (c["rank"], c["seq"]))], "its calls")
    check_equal(job.json("stats", directory=out)["calls"], job.json("stats")["calls"], "stats")
    check_equal(job.json("diagnose", directory=out)["findings"], [], "diagnose")
    call = next(c for c in job.calls("--rank", "1") if c["op"] == "AllGather" and c["seq"] > 100)
    dropped = job.json("replay", "--drop", f"rank=1:{call['seq']}", "--out", out + ".dropped", status=1)
    check_equal(verdict(job.json("diagnose", status=1, directory=out + ".dropped")), verdict(dropped), "diagnose of a hang")


@case
def outcome_has_all_calls(sandbox):
    """More than a diagnosis keeps in memory, and more than one segment."""
    directory = os.path.join(sandbox.fresh("job"), "recording")
    write = sandbox.build.program("recording", "write_recording")
    sandbox.build.need(write)
    check_equal(sandbox.run([write, "2", "90000", directory]).status, 0, "write_recording")
    plain = sandbox.environment(preload=False)
    check_equal(sandbox.run([sandbox.build.command, "replay", directory, "--out", directory + ".out"], plain).status, 0, "replay")
    told = [json.loads(sandbox.run([sandbox.build.command, "stats", "--json", "--by", "op,rank", of], plain, timeout=60).out)
            for of in (directory, directory + ".out")]
    check_equal(told[1]["lost"], {"0": 0, "1": 0}, "calls that are missing")
    check_equal(*(sorted((row["op"], row["rank"], row["calls"]) for row in one["rows"]) for one in told), "calls")


def recorded_in(sandbox, argv, extra=None):
    """The scratch folder and the recording of a job that hangs, or ends badly."""
    scratch = sandbox.fresh("job")
    directory = os.path.join(scratch, "recording")
    env = sandbox.environment(preload=False, extra={"TMPDIR": scratch, **(extra or {})})
    sandbox.run([sandbox.build.command, "run", "--timeout", "3", "--on-fault", "abort", "--record", directory, "--", *argv],
                env, timeout=60)
    return scratch, directory


def told_and_replayed(sandbox, directory, *options):
    """The verdict on a recording, and what the model makes of it."""
    plain, told = sandbox.environment(preload=False), []
    for words in (["diagnose"], ["replay", *options]):
        done = sandbox.run([sandbox.build.command, *words, "--json", directory], plain)
        check(done.out.startswith("{"), f"{done}")
        told.append(json.loads(done.out))
    return told


def without_last_segments(directory):
    """What a collector leaves that was killed before the job ended."""
    last, files = {}, {}
    for path in sorted(glob.glob(os.path.join(directory, "*.segments")), key=lambda path: int(path.split(".")[-2])):
        with open(path, "rb") as file:
            content = file.read()
        files[path], at = [], 0
        while at < len(content):  # docs/FORMAT.md
            size, pid = struct.unpack_from("=Q", content, at + 16)[0], struct.unpack_from("=I", content, at + 88)[0]
            files[path].append(content[at:at + size])
            last[pid] = (path, len(files[path]) - 1)
            at += size
    for path, segments in files.items():
        with open(path, "wb") as file:
            file.write(b"".join(one for i, one in enumerate(segments) if (path, i) not in last.values()))


@case
def verdict_of_segments_alone(sandbox):
    """Who waits for whose message is told from the last segments as from the boxes, and from none without them."""
    path = os.path.join(sandbox.build.root, "scenarios", "message_ring")
    sandbox.build.need(path)
    launch = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--timeout", "15", "--"]
    # So few bytes that segments are written after a few hundred calls.
    _, directory = recorded_in(sandbox, [*launch, path, "--rank", "1", "--peer", "3", "--step", "1000", "--step-ms", "1",
                                         "--average", "0", "--steps", "1000000"], {"NCCLWATCH_TRACE_MAX": "300K"})

    def diagnosis(status):
        done = sandbox.run([sandbox.build.command, "diagnose", "--json", directory], sandbox.environment(preload=False))
        check_equal(done.status, status, f"{done}: status")
        return json.loads(done.out)

    told = diagnosis(1)
    check_equal(verdict(told)[:2], ("point_to_point_mismatch", [1]), "of the boxes")
    for box in glob.glob(os.path.join(directory, "*.box")):
        os.unlink(box)
    check_equal(verdict(diagnosis(1))[:2], verdict(told)[:2], "of the segments")
    without_last_segments(directory)
    without = diagnosis(0)
    check_equal((without["findings"], without["healthy"]), ([], False), "nobody is accused, and it is not healthy")
    check(any("how it ended" in part for part in without["missing"]), f"why: {without['missing']}")


@case
def costs_from_a_recording(sandbox):
    path = os.path.join(sandbox.build.root, "mpi", "mpi_clean_collectives.openmpi")
    if not os.path.exists(path):
        raise Skipped("Open MPI's programs are not built")
    launch = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"]
    _, directory = recorded_in(sandbox, [*launch, path, "everybody"], {"LD_LIBRARY_PATH": ""})
    _, model = told_and_replayed(sandbox, directory, "--fit", "self")
    check_equal((model["completed"], model["findings"]), (True, []), f"on the model: {model}")
    guessed = {"latency_ns": 1000.0, "overhead_ns": 300.0, "byte_ns": 0.1, "step_ns": 1600.0}
    check(set(model["costs"]) == set(guessed) and all(value >= 0 for value in model["costs"].values()), f"{model['costs']}")
    check(model["costs"]["overhead_ns"] != 300.0 or model["costs"]["latency_ns"] != 1000.0, f"they were taken: {model['costs']}")
