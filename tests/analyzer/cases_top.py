"""`ncclwatch top`: what it says once, and on a terminal."""

import json
import os
import re
import shutil
import subprocess

from common import COMMUNICATOR, bench_case, check, check_equal, until
from terminal import Terminal


def once(bench, directory, *words):
    done = bench.command("top", "--once", directory, *words)
    check_equal(done.status, 0, f"top --once: {done}: status")
    return done.out


def as_json(bench, directory):
    return json.loads(once(bench, directory, "--json"))


def live_job(bench, ranks=4):
    """Rank 2 has made two calls less; rank 1 is still inside its last one."""
    directory = bench.place()
    processes = [bench.hold(directory, rank, ranks, f"calls={5 if rank == 2 else 7}", f"pending={int(rank == 1)}")
                 for rank in range(ranks)]
    return directory, processes


def on_terminal(bench, directory, *words, **how):
    return Terminal([bench.build.command, "top", *words, directory], bench.environment(), **how)


def table_of(text):
    """Rows by title: of columns that stand to the right the last word, of the others the first."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("RANK"))
    rows = []
    for line in lines[at + 1:]:
        row = {}
        for title in re.finditer(r"\S+", lines[at]):
            if title[0] in ("RANK", "PID", "POSITION", "BEHIND"):
                there = line[title.end() - 1:title.end()].strip()
                row[title[0]] = line[:title.end()].split()[-1] if there else ""
            else:
                row[title[0]] = (line[title.start():].split() or [""])[0]
        rows.append(row)
    return rows


def ranks_of(text):
    """In their order; of a screen that is half drawn those that are there."""
    if not re.search(r"^\s*RANK", text, re.MULTILINE):
        return []
    return [int(row["RANK"]) for row in table_of(text) if row["RANK"].isdigit()]


@bench_case
def top_once_is_json(bench):
    directory, _ = live_job(bench)
    said, rows = as_json(bench, directory), table_of(once(bench, directory))
    check_equal((said["schema"], said["state"], said["alive"], said["expected"]), ("ncclwatch.top/1", "running", 4, 4), "the job")
    check_equal([(one["position"], one["behind"], one["state"]) for one in said["members"]],
                [(6, 0, "returned"), (6, 0, "entered"), (4, 2, "returned"), (6, 0, "returned")], "members")
    check_equal([(int(row["RANK"]), row["COMMUNICATOR"], int(row["POSITION"]), int(row["BEHIND"] or 0), row["STATE"], row["CALL"])
                 for row in rows],
                [(one["rank"], one["communicator"], one["position"], one["behind"], one["state"], one["op"])
                 for one in said["members"]], "the text")
    check_equal([int(row["PID"]) for row in rows], [one["pid"] for one in said["ranks"]], "processes")
    check_equal(said["communicators"], [{"id": COMMUNICATOR, "label": "", "size": 4, "seen": 4, "position": 6,
                                         "last": [2], "behind": 2, "late_s": 0}], "communicators")
    check_equal([(one["calls_per_s"], one["bytes_per_s"]) for one in said["ranks"]], [(0, 0)] * 4, "nothing goes on")


@bench_case
def top_agrees_with_trace_and_ls(bench):
    directory = bench.dead_job(None, 3, "calls=9")
    said, calls = as_json(bench, directory), bench.calls(directory)
    listed = next(run for run in json.loads(bench.command("ls", "--json").out)["runs"] if run["path"] == directory)
    check_equal((said["state"], said["alive"], len(said["ranks"]), said["job"], said["attempt"]),
                (listed["state"], listed["alive"], listed["ranks"], listed["job"], listed["attempt"]), "as `ls` says it")
    for one in said["members"]:
        last = [call for call in calls if call["rank"] == one["rank"]][-1]
        check_equal([one[key] for key in ("position", "op", "state", "bytes", "communicator")],
                    [last[key] for key in ("position", "op", "state", "bytes", "communicator")], "as `trace` says it")
    check_equal([one["calls"] for one in said["ranks"]],
                [sum(call["rank"] == rank for call in calls) for rank in range(3)], "calls")
    check("(its last state)" in once(bench, directory), "a job that has ended is said to have")


@bench_case
def top_names_ranks_that_are_not_shown(bench):
    directory = bench.place()
    for rank in (0, 1, 5):
        bench.hold(directory, rank, 8)
    check_equal(as_json(bench, directory)["not_shown"], [2, 3, 4, 6, 7], "ranks without a box")
    check("not shown: ranks 2-4,6-7" in once(bench, directory), "the text says so")


@bench_case
def top_keys(bench):
    directory, processes = live_job(bench)
    with on_terminal(bench, directory) as terminal:
        terminal.wait_for("4 of 4 ranks alive")
        terminal.wait(lambda text: ranks_of(text) == [2, 0, 1, 3], "who is behind comes first")
        terminal.press("s")
        terminal.wait_for("sort: rank")
        terminal.press("r")
        terminal.wait_for("rank reversed")
        terminal.wait(lambda text: ranks_of(text) == [3, 2, 1, 0], "reversed")
        terminal.press("r", "/", "1", ",", "3", "enter")
        terminal.wait(lambda text: [row["RANK"] for row in table_of(text)][:3] == ["1", "3", ""], "the filter's ranks")
        terminal.press("/", "e", "n", "t", "e", "r", "e", "d", "enter")
        terminal.wait(lambda text: [row["RANK"] for row in table_of(text)][:2] == ["1", ""], "the filter's state")
        terminal.press("escape")
        terminal.wait(lambda text: [row["RANK"] for row in table_of(text)][:4] == ["0", "1", "2", "3"], "all rows")
        terminal.press("h")
        terminal.wait_for("leave\n.*pause")
        terminal.press("h", "p")
        terminal.wait_for("PAUSED")
        bench.release(processes[3])
        until(lambda: as_json(bench, directory)["alive"] == 3, "rank 3 has ended")
        terminal.read(1.2)
        check("4 of 4 ranks alive" in terminal.screen.text(), f"paused:\n{terminal.screen.text()}")
        terminal.press("p")
        terminal.wait_for("3 of 4 ranks alive")
        terminal.wait_for("ended \\(returned\\)")
        terminal.press("q")
        check_equal(terminal.news(), "exit 0", "after q")
        check(terminal.as_it_was(), "the terminal's settings are those of before")


@bench_case
def top_leaves_the_terminal(bench):
    directory, _ = live_job(bench)
    for key in ("q", "ctrl-c"):
        with on_terminal(bench, directory, term="xterm-256color") as terminal:
            until(lambda: terminal.read() or b"ranks alive" in terminal.written, "it draws")
            check(b"\x1b[?1049h" in terminal.written, "a screen of its own")
            check(not terminal.as_it_was(), "keys come one by one")
            terminal.press(key)
            check_equal(terminal.news(), "exit 0", f"after {key}")
            check(terminal.as_it_was(), f"the terminal's settings after {key}")
            check(terminal.written.rindex(b"\x1b[?1049l") > terminal.written.rindex(b"ranks alive"), "the old screen is back")


@bench_case
def top_stops_and_goes_on(bench):
    directory, _ = live_job(bench)
    with on_terminal(bench, directory) as terminal:
        terminal.wait_for("ranks alive")
        terminal.press("ctrl-z")
        check_equal(terminal.news(), "stopped", "after Ctrl-Z")
        check(terminal.as_it_was(), "the shell finds the terminal as it was")
        terminal.screen.resize(100, 24)
        terminal.foreground()
        terminal.wait_for("4 of 4 ranks alive")
        terminal.press("q")
        check_equal(terminal.news(), "exit 0", "after q")


@bench_case
def top_on_any_size(bench):
    directory, _ = live_job(bench)
    with on_terminal(bench, directory) as terminal:
        terminal.wait_for("BYTES/s")
        for columns, rows in ((40, 12), (20, 6), (5, 3), (1, 1), (200, 50)):
            terminal.resize(columns, rows)
            shown = "BYTES/s" if columns == 200 else {1: "", 5: "^write\n"}.get(columns, "^writers: running")
            terminal.wait_for(shown)
            check_equal([len(line) <= columns for line in terminal.screen.text().split("\n")], [True] * rows, "lines")
        terminal.press("q")
        check_equal(terminal.news(), "exit 0", "after q")


@bench_case
def top_of_hostile_names(bench):
    directory = bench.place()
    bench.hold(directory, 0, 1, "host=\x1b[2Jhost\x07", "label=\x1b]0;owned\x07\u009b31m")
    with on_terminal(bench, directory, term="xterm-256color") as terminal:
        until(lambda: terminal.read() or b"]0;owned?" in terminal.written, "it draws")
        for bad in (b"\x1b[2Jhost", b"\x1b]0;", b"\x07", "\u009b".encode()):
            check(bad not in terminal.written, f"{bad!r} reaches the terminal")
    for words in ((), ("--json",)):
        check("\x1b" not in once(bench, directory, *words) and "\u009b" not in once(bench, directory, *words), "once")


@bench_case
def top_follows_boxes(bench):
    directory = bench.place()
    bench.hold(directory, 0, 3)
    with on_terminal(bench, directory) as terminal:
        terminal.wait_for("1 of 3 ranks alive")
        terminal.wait_for("not shown: ranks 1-2")
        bench.hold(directory, 1, 3)
        terminal.wait_for("2 of 3 ranks alive")
        gone = bench.hold(directory, 2, 3)
        terminal.wait(lambda text: "3 of 3 ranks alive" in text and "not shown" not in text, "all are there")
        bench.release(gone)
        os.remove(next(path for path in bench.boxes(directory) if f".{gone.pid}." in path))
        terminal.wait_for("not shown: rank 2")
        for process in bench.held[:2]:
            bench.release(process)
        terminal.wait_for("finished \\(its last state\\)")
        shutil.rmtree(directory)
        terminal.wait_for("the run directory is gone")
        terminal.wait_for("(?m)^ *1 .*ended")
        terminal.press("q")
        check_equal(terminal.news(), "exit 0", "after q")


@bench_case
def top_of_nothing(bench):
    empty = bench.sandbox.fresh("empty")
    for words, status, said in ((["top", empty], 3, "no black box in it"), (["top", "/nowhere"], 3, "no such file"),
                                (["top", "--interval", "0"], 2, "--interval")):
        done = bench.command(*words)
        check(done.status == status and said in done.err, f"{words}: {done}")
    directory, _ = live_job(bench)
    with on_terminal(bench, directory, term="no-such-terminal") as terminal:
        check_equal(terminal.news(), "exit 3", "on a terminal that nothing is known of")
        check("--once" in terminal.screen.text(), terminal.screen.text())


@bench_case
def top_of_a_job_that_goes_on(bench):
    """Calls, bytes and steps of a real job, and the rank that holds it up."""
    example, directory = os.path.join(bench.build.root, "examples", "straggler"), bench.place()
    bench.build.need(example)
    launch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "launch.py")
    env = bench.sandbox.environment(extra={"NCCLWATCH_DIR": directory, "TMPDIR": bench.temporary})
    job = subprocess.Popen(["python3", launch, "-n", "4", "--", example, "--steps", "100000", "--step", "5"], env=env,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: os.path.isdir(directory) and len(bench.boxes(directory)) == 4, "all ranks have boxes")
        until(lambda: as_json(bench, directory)["step"], "steps are told", 60)
        said = as_json(bench, directory)
        check(all(one["calls_per_s"] > 0 and one["bytes_per_s"] > 0 for one in said["ranks"]), f"rates: {said['ranks']}")
        with on_terminal(bench, directory) as terminal:
            terminal.wait_for(r"step \d.* calls/s", 60)
            terminal.wait_for("straggler \\(.*Rank 2 ", 60)
            check_equal(as_json(bench, directory)["findings"][0]["culprits"], [2], "once says it too")
    finally:
        os.killpg(job.pid, 9)
        job.wait()
