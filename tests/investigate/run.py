#!/usr/bin/env python3
"""`ncclwatch investigate`: incident reports from files alone: a slow switch, a hang, a NaN, memory that ran out, a healthy job."""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "triage")]

from compose import Job  # noqa: E402
from harness import Skipped, case, check, check_equal, run_main  # noqa: E402

HEADINGS = ["Summary", "Timeline", "Triage", "Localization", "Isolation", "Root cause", "Resolution", "Cost", "Prevention"]


def investigate(sandbox, *words):
    """(status, sections of the report, its JSON)"""
    path = os.path.join(sandbox.fresh("report"), "incident.md")
    environment = sandbox.environment(preload=False)
    done = sandbox.run([sandbox.build.command, "investigate", "-o", path, *words], environment, timeout=60)
    check(os.path.exists(path), f"{done}")
    with open(path) as file:
        text = file.read()
    sections = {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in text.split("\n## ")[1:]}
    check_equal([name for name in sections if name in HEADINGS], HEADINGS, "headings")
    check(all(sections.values()), f"no heading stands alone: {sections}")
    as_json = sandbox.run([sandbox.build.command, "investigate", "--json", *words], environment, timeout=60)
    return done.status, sections, json.loads(as_json.out)


def check_says(sections, name, *words):
    for word in words:
        check(word in sections[name], f"{name} says '{word}':\n{sections[name]}")


def standing(result, beginning):
    return next(one["standing"] for one in result["hypotheses"] if one["hypothesis"].startswith(beginning))


def generated(sandbox, *words):
    folder = sandbox.fresh("job")
    program = os.path.join(sandbox.build.root, "bin", "generate_job")
    sandbox.build.need(program)
    subprocess.run([program, "--out", folder, *words], check=True, capture_output=True)
    return folder


@case
def data_behind_one_switch_are_slow(sandbox):
    """256 ranks on 32 hosts; behind one leaf switch data take 42/17 times as long from step 62 on."""
    status, sections, result = investigate(sandbox, generated(sandbox, "--slow", "switch", "--ranks", "256", "--seed", "2"))
    check_equal((status, result["class"]), (1, "slowness"), "class")
    check_says(sections, "Localization", "Ranks 64-127.", "node8", "node15")
    check_says(sections, "Root cause", "since step 61", "bus bandwidth", "ncclwatch doctor --active")
    check_says(sections, "Cost", "of 256 ranks' time", "GPU-hours a day")
    check_equal((standing(result, "A network link"), standing(result, "One rank holds up"), standing(result, "A GPU is slowed")),
                ("supported", "ruled out", "untested"), "hypotheses")


@case
def hang_with_the_log_of_its_culprit(sandbox):
    """The boxes say which rank did not come, the log of that rank why."""
    job = generated(sandbox, "--topology", "data", "--fault", "missing_participant", "--ranks", "16", "--seed", "4")
    logs = sandbox.fresh("logs")
    status, sections, result = investigate(sandbox, job)
    check_equal((status, result["class"], standing(result, "A rank died"), standing(result, "A rank did not come")), (1, "hang", "ruled out", "supported"), "hypotheses")
    check_says(sections, "Localization", "Rank 4: host node0")
    check_says(sections, "Not looked at", "logs: none were given")
    with open(logs + "/rank_4.log", "w") as file:
        file.write("step 8 loss 2.1\n[Errno 116] Stale file handle\nTraceback (most recent call last):\n  File \"/app/data.py\", line 7, in read\n    return open(path).read()\nOSError: [Errno 116] Stale file handle: '/data/7.bin'\n")
    with open(logs + "/rank_5.log", "w") as file:
        file.write("step 8 loss 2.1\n")
    _, sections, result = investigate(sandbox, job, logs)
    check_says(sections, "Root cause", "rank_4.log:", "Stale file handle")
    check_equal(standing(result, "A rank ran out of memory or had an exception"), "supported", "from the log")


@case
def memory_that_ran_out(sandbox):
    folder = sandbox.fresh("logs")
    job = Job("cuda_out_of_memory", 8, 3)
    job.write(folder)
    status, sections, result = investigate(sandbox, folder)
    check_equal((status, result["class"], result["certainty"]), (1, "failure", "certain"), "class")
    check_says(sections, "Localization", f"Rank {job.culprit}.")
    check_says(sections, "Root cause", "CUDA out of memory", f"Rank {job.culprit}: The memory of a GPU was used up")
    check_says(sections, "Timeline", "cause", "echo")
    check_equal((standing(result, "Another process"), standing(result, "Memory leaks")), ("ruled out", "untested"), "hypotheses")
    check_says(sections, "Cost", "8 ranks that the logs name were held for", "GPU-hours")


@case
def loss_that_is_no_number(sandbox):
    if not shutil.which("mpicc.openmpi"):
        raise Skipped("no Open MPI here")
    folder = sandbox.fresh("nan")
    program = folder + "/numbers"
    include = os.path.join(HERE, "..", "..", "include")
    subprocess.run(["mpicc.openmpi", "-O1", "-I", include, os.path.join(HERE, "..", "slow", "programs", "numbers.c"), "-o", program, "-ldl", "-lm"], check=True)
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", "4", program, "120", "2", "nan"]
    done = sandbox.run([sandbox.build.command, "run", "--record", folder + "/rec", "--", *argv], sandbox.environment(preload=False, extra={"LD_LIBRARY_PATH": ""}), timeout=60)
    check_equal(done.status, 0, f"{done}")
    status, sections, result = investigate(sandbox, folder + "/rec")
    check_equal((status, result["class"]), (1, "numbers"), "class")
    check_says(sections, "Summary", "numeric_fault" if "numeric_fault" in sections["Summary"] else "60")
    check_says(sections, "Localization", "Rank 2")
    check_equal(standing(result, "A GPU computes wrongly"), "untested", "one rank alone had it first")
    check_says(sections, "Resolution", "Verify")


@case
def nothing_failed(sandbox):
    status, sections, result = investigate(sandbox, generated(sandbox, "--slow", "healthy", "--ranks", "16", "--seed", "2"))
    check_equal((status, result["class"], result["hypotheses"]), (0, "healthy", []), f"{sections}")
    check_says(sections, "Cost", "None.")
    folder = sandbox.fresh("logs")
    Job(None, 4, 1).write(folder)
    check_equal(investigate(sandbox, folder)[0], 0, "healthy logs")
    done = sandbox.run([sandbox.build.command, "investigate", sandbox.fresh("empty")], sandbox.environment(preload=False), timeout=60)
    check_equal(done.status, 3, "nothing to read")


@case
def nothing_is_ruled_out_by_part_of_the_boxes(sandbox):
    """25 times: a fault, and the box of one rank of four is not there or a further one cannot be read."""
    by_boxes = ("A rank died", "A process was frozen", "A rank did not come", "Ranks made different calls", "Ranks wait for one another")
    seen = judged = 0
    for fault in ("missing_participant", "order_mismatch", "dead_rank", "frozen_process", "opposite_order"):
        topology = ("--topology", "tensor") if fault == "opposite_order" else ()
        whole = generated(sandbox, "--fault", fault, "--ranks", "4", "--seed", "3", *topology)
        for lost in sorted(name for name in os.listdir(whole) if name.endswith(".box")):
            part = sandbox.fresh("part")
            shutil.copytree(whole, part, dirs_exist_ok=True, ignore=lambda _, names, lost=lost: [name for name in names if name == lost])
            done = sandbox.run([sandbox.build.command, "investigate", "--json", part], sandbox.environment(preload=False), timeout=60)
            result = json.loads(done.out)
            judged += result["class"] != "healthy"
            wrong = [one for one in result.get("hypotheses", []) if one["hypothesis"].startswith(by_boxes) and one["standing"] == "ruled out"]
            check_equal(wrong, [], f"{fault} without {lost}")
            seen += 1
        # All ranks are there, and beside them a box that cannot be read.
        with open(os.path.join(whole, "9999.box"), "wb") as file:
            file.write(b"no black box" * 1000)
        done = sandbox.run([sandbox.build.command, "investigate", "--json", whole], sandbox.environment(preload=False), timeout=60)
        standings = {one["standing"] for one in json.loads(done.out)["hypotheses"] if one["hypothesis"].startswith(by_boxes)}
        check("ruled out" not in standings and "untested" in standings, f"{fault} with an unreadable box: {standings}")
        seen += 1
    # Without the box of a faulty rank there may be nothing to find.
    check_equal((seen, judged), (25, 17), "cases, and those without a box in which something is found")


@case
def text_of_others_is_no_markup(sandbox):
    folder = sandbox.fresh("logs")
    with open(folder + "/rank_0.log", "w") as file:
        file.write("\x1b[31mTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: <script>alert(1)</script> | a | b\n")
    _, sections, _ = investigate(sandbox, folder)
    whole = "".join(sections.values())
    check("<script>" not in whole and "\x1b" not in whole, whole)


if __name__ == "__main__":
    run_main("investigate")
