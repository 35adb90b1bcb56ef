"""diagnose, trace and ls: on live and dead jobs, on damaged files, as text and as JSON."""

import json
import os
import re
import shutil

from common import COMMANDS, COMMUNICATOR, bench_case, check, check_equal, until

REQUIRED = {"schema", "healthy", "job", "coverage", "findings"}
FINDING = {"kind", "certainty", "culprits", "culprit_details", "victims", "communicator", "position", "calls",
           "began_at", "detected_at", "caused_by", "summary", "evidence", "next_steps"}
CERTAINTIES = {"certain", "likely", "suspected"}


def check_schema(diagnosis):
    check(REQUIRED <= diagnosis.keys(), f"keys missing: {REQUIRED - diagnosis.keys()}")
    check_equal(diagnosis["schema"], "ncclwatch.diagnosis/1", "schema")
    check({"name", "attempt", "world_size", "processes", "hosts"} <= diagnosis["job"].keys(), "keys of job")
    check({"watched", "expected", "unseen_ranks"} <= diagnosis["coverage"].keys(), "keys of coverage")
    check_equal(diagnosis["healthy"], not diagnosis["findings"], "healthy means no finding")
    check_equal(diagnosis["restart"] is None, not diagnosis["findings"], "advice for the restart of what failed")
    check(diagnosis["restart"] is None or diagnosis["restart"].keys() == {"advice", "hosts", "why"}, f"{diagnosis['restart']}")
    for finding in diagnosis["findings"]:
        check(FINDING <= finding.keys(), f"keys missing in a finding: {FINDING - finding.keys()}")
        check(finding["certainty"] in CERTAINTIES, finding["certainty"])


@bench_case
def help_of_everything(bench):
    for words in [["--help"], ["help"], *[[name, "--help"] for name in COMMANDS], *[["help", name] for name in COMMANDS]]:
        done = bench.command(*words)
        check_equal(done.status, 0, f"{words}: status")
        check(len(done.out) > 100 and not done.err, f"{words}: {done}")
        check(all(len(line) <= 120 for line in done.out.splitlines()), f"{words}: too wide\n{done.out}")
    listed = bench.command("--help").out
    check_equal([name for name in COMMANDS if not re.search(rf"^  {name} ", listed, re.M)], [], "not in the list")


@bench_case
def mistakes_are_usage(bench):
    for words in [[], ["report", "--nonsense"], ["nonsense"], ["diagnose", "--nonsense"], ["trace", "--rank", "x"],
                  ["trace", "--since", "noon"], ["trace", "--min-bytes", "many"], ["trace", "--state", "lost"], ["stats", "--by", "x"],
                  ["replay", "--on", "paper"], ["replay", "--delay", "3:2s"], ["replay", "--slow", "rank=1:x"],
                  ["replay", "--drop", "rank=1:"], ["replay", "--link", "a:50%"], ["replay", "--ranks", "x"], ["collect", "--max", "much"], ["clean", "--older-than", "soon"], ["run"], ["run", "--"],
                  ["run", "--nonsense", "--", "true"], ["run", "--on-fault", "explode", "--", "true"],
                  ["run", "--ring", "many", "--", "true"], ["ls", "extra"], ["off", "a", "b"]]:
        done = bench.command(*words)
        check_equal(done.status, 2, f"{words}: status of {done}")
        check(done.err and not done.out, f"{words}: {done}")


@bench_case
def nothing_there_is_unreadable(bench):
    empty = bench.sandbox.fresh("empty")
    for words in [["diagnose", "/nonexistent"], ["trace", "/nonexistent"], ["off", "/nonexistent"], ["diagnose", empty],
                  ["trace", empty], ["on", empty], ["diagnose", "/dev/null"]]:
        done = bench.command(*words)
        check_equal(done.status, 3, f"{words}: status of {done}")
        check(done.err.startswith("ncclwatch"), f"{words}: {done}")


@bench_case
def healthy_job_is_healthy(bench):
    directory = bench.dead_job(ranks=3)
    diagnosis, done = bench.diagnose(directory, statuses=(0,))
    check_schema(diagnosis)
    check_equal(diagnosis["job"]["processes"], 3, "processes")
    text = bench.command("diagnose", directory)
    check_equal(text.status, 0, f"text: {text}: status")
    check("\033" not in text.out, "colour into a file")


@bench_case
def missing_participant_is_found_dead_or_live(bench):
    directory = bench.place("stalled")
    holders = [bench.hold(directory, rank, 3, "calls=3", *(["skip=1"] if rank == 1 else ["pending=1"])) for rank in range(3)]

    def found():
        diagnosis, done = bench.diagnose(directory)
        check_schema(diagnosis)
        return done.status == 1 and diagnosis

    diagnosis = until(found, "the live job is diagnosed", 30)
    check_equal(diagnosis["findings"][0]["kind"], "missing_participant", "kind, live")
    check_equal(diagnosis["findings"][0]["culprits"], [1], "culprits, live")
    check_equal(diagnosis["findings"][0]["communicator"]["id"], COMMUNICATOR, "communicator")
    check_equal(diagnosis["findings"][0]["position"], 2, "position")
    check_equal(diagnosis["restart"]["advice"], "fix_first", "the program would skip the call again")
    text = bench.command("diagnose", directory)
    check("Fix the cause before you restart the job." in text.out, f"in the text too: {text}")
    del holders


@bench_case
def dead_rank_is_seen_from_outside(bench):
    directory = bench.place("killed")
    bench.hold(directory, 0, 2, "calls=3", "pending=1")
    bench.write(directory, 1, 2, "calls=2", "end=kill")
    # In the first half second it may be that somebody ends the whole job.
    until(lambda: bench.diagnose(directory)[0]["findings"], "a finding")
    diagnosis, done = bench.diagnose(directory, statuses=(1,))
    check_schema(diagnosis)
    check_equal(diagnosis["findings"][0]["kind"], "dead_rank", "kind")
    check_equal(diagnosis["findings"][0]["culprits"], [1], "culprits")
    check_equal((diagnosis["restart"]["advice"], diagnosis["restart"]["hosts"]), ("restart", []), "nothing says why it ended")


@bench_case
def damaged_files_are_named(bench):
    def truncate(path):
        os.truncate(path, os.path.getsize(path) // 2)

    def empty(path):
        os.truncate(path, 0)

    def header_cut(path):
        os.truncate(path, 100)

    def zero(path):
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.write(bytes(size))

    def random(path):
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.write(os.urandom(size))

    def patch(offset, value):
        def do(path):
            with open(path, "r+b") as file:
                file.seek(offset)
                file.write(value)
        return do

    def be_a_directory(path):
        os.unlink(path)
        os.mkdir(path)

    def be_a_fifo(path):
        os.unlink(path)
        os.mkfifo(path)

    def be_a_dangling_link(path):
        os.unlink(path)
        os.symlink("/nonexistent", path)

    damages = {"truncate": truncate, "empty": empty, "header_cut": header_cut, "zero": zero, "random": random,
               "version": patch(8, (99).to_bytes(4, "little")), "endianness": patch(12, bytes([1, 2, 3, 4])),
               "sections": patch(32, b"\xff" * 64), "be_a_directory": be_a_directory, "be_a_fifo": be_a_fifo,
               "be_a_dangling_link": be_a_dangling_link}
    whole = bench.dead_job(ranks=2)
    for name, damage in damages.items():
        directory = bench.place(name)
        shutil.copytree(whole, directory)
        victim = bench.boxes(directory)[0]
        damage(victim)
        text = bench.command("diagnose", directory)
        check_equal(text.status, 3, f"{name}: {text}: status")
        check(f"{victim}: " in text.err, f"{name} is not named: {text}")
        check(len(text.err.splitlines()) == 1 and len(text.err) > len(victim) + 20, f"{name}: no reason: {text}")
        check(text.out, f"{name}: the other file was not read")
        diagnosis, _ = bench.diagnose(directory, statuses=(3,))
        check_equal([entry["path"] for entry in diagnosis["unreadable"]], [victim], f"{name}: unreadable")
        check_equal(diagnosis["job"]["processes"], 1, f"{name}: processes")
        check_equal(bench.command("trace", directory).status, 3, f"{name}: status of trace")
        check_equal(bench.command("diagnose", victim).status, 3, f"{name}: status of the file alone")


@bench_case
def nothing_readable_is_not_healthy(bench):
    directory = bench.dead_job(ranks=1)
    for box in bench.boxes(directory):
        os.truncate(box, 10)
    diagnosis, _ = bench.diagnose(directory, statuses=(3,))
    check_equal(diagnosis["healthy"], False, "healthy")


@bench_case
def trace_merges_and_filters(bench):
    directory = bench.dead_job(None, 3, "calls=4")
    calls = bench.calls(directory)
    check_equal(len(calls), 12, "calls")
    check_equal([c["time_ns"] for c in calls], sorted(c["time_ns"] for c in calls), "order")
    one = calls[0]
    check_equal({k: one[k] for k in ("communicator", "op", "count", "dtype", "reduction", "root", "peer", "group", "result",
                                    "state", "position")},
                {"communicator": COMMUNICATOR, "op": "AllReduce", "count": 4096, "dtype": "bfloat16", "reduction": "sum",
                 "root": None, "peer": None, "group": None, "result": "success", "state": "returned", "position": 0}, "a call")
    check_equal([c["communicator_rank"] for c in calls], [c["rank"] for c in calls], "ranks in the communicator")
    check_equal({c["rank"] for c in bench.calls(directory, "--rank", "0,2")}, {0, 2}, "ranks")
    check_equal(len(bench.calls(directory, "--last", "5")), 5, "--last")
    check_equal(len(bench.calls(directory, "--op", "allreduce")), 12, "--op")
    check_equal(len(bench.calls(directory, "--op", "Broadcast")), 0, "--op of none")
    check_equal(len(bench.calls(directory, "--comm", COMMUNICATOR[:6])), 12, "--comm")
    check_equal(len(bench.calls(directory, "--comm", "zz")), 0, "--comm of none")
    check_equal(len(bench.calls(directory, "--pending")), 0, "--pending of none")
    check_equal(len(bench.calls(directory, "--until", "1h")), 0, "--until")
    check_equal(len(bench.calls(directory, "--since", "1h")), 12, "--since")
    check_equal(len(bench.calls(directory, "--follow")), 12, "--follow of a dead job")
    text = bench.command("trace", directory)
    check_equal(len(text.out.splitlines()), 13, "lines")
    check(all(len(line) <= 100 for line in text.out.splitlines()), f"wider than 100 columns:\n{text.out}")
    check("SITE" in bench.command("trace", "--wide", directory).out, "--wide shows the call site")


@bench_case
def trace_shows_what_is_pending(bench):
    directory = bench.place()
    bench.hold(directory, 0, 2, "calls=2", "pending=1")
    pending = bench.calls(directory, "--pending")
    check_equal([(c["position"], c["state"], c["result"]) for c in pending], [(1, "entered", None)], "pending")
    later = bench.calls(directory, "--pending")[0]["duration_s"]
    check(later > pending[0]["duration_s"], "a pending call grows older")


def newest(bench):
    return json.loads(bench.command("ls", "--json").out)["runs"][0]["path"]


@bench_case
def latest_and_nothing_mean_the_newest(bench):
    bench.dead_job(bench.place("older"), 1)
    newer = bench.dead_job(bench.place("newer"), 2)
    listed = json.loads(bench.command("ls", "--json").out)
    check_equal(listed["schema"], "ncclwatch.ls/1", "schema")
    mine = [run for run in listed["runs"] if run["path"].startswith(bench.base())]
    check_equal([os.path.basename(run["path"]) for run in mine], ["newer", "older"], "newest first")
    check_equal([run["latest"] for run in listed["runs"]], [True] + [False] * (len(listed["runs"]) - 1), "latest")
    for words in ([], ["latest"]):
        # Other jobs of this user come and go meanwhile, and may be newer.
        until(lambda: bench.diagnose(*words)[0]["job"]["processes"] == 2 or newest(bench) != newer, f"diagnose {words}")


@bench_case
def ls_tells_running_finished_and_fault(bench):
    running, finished, fault = bench.place("running"), bench.place("finished"), bench.place("fault")
    holder = bench.hold(running, 0, 1)
    bench.dead_job(finished)
    bench.dead_job(fault)
    with open(os.path.join(fault, "diagnosis.json"), "w") as file:
        json.dump({"schema": "ncclwatch.diagnosis/1", "healthy": False,
                   "findings": [{"kind": "dead_rank", "certainty": "certain", "summary": "rank 1 was killed"}]}, file)

    def states():
        runs = json.loads(bench.command("ls", "--json").out)["runs"]
        return {os.path.basename(r["path"]): (r["state"], r["alive"], r["ranks"]) for r in runs
                if r["path"].startswith(bench.base())}

    check_equal(states(), {"running": ("running", 1, 1), "finished": ("finished", 0, 2), "fault": ("fault", 0, 2)}, "ls")
    bench.release(holder)
    check_equal(states()["running"], ("finished", 0, 1), "after its end")
    check("finished" in bench.command("ls").out, "text")


@bench_case
def paths_with_spaces(bench):
    directory = bench.dead_job(bench.place("a job, with spaces"), 2)
    check_equal(bench.diagnose(directory)[0]["job"]["processes"], 2, "diagnose")
    check_equal(len(bench.calls(directory)), 6, "trace")
    check_equal(len(bench.calls(*bench.boxes(directory))), 6, "trace of files")
