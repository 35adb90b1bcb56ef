"""What another user has put where the command looks: not trusted unless it was named, and never allowed to steer."""

import json
import os
import subprocess

from common import Skipped, bench_case, check, check_equal

SOMEBODY = 65534


def give_away(path):
    if os.geteuid() != 0:
        raise Skipped("only root can give files away")
    for folder, _, names in os.walk(path):
        for each in [folder] + [os.path.join(folder, name) for name in names]:
            os.chown(each, SOMEBODY, SOMEBODY, follow_symlinks=False)


def forged_base(bench):
    """The base of this user, made first by somebody else, with a dead job in it."""
    directory = bench.dead_job(None, 2)
    give_away(bench.base())
    return directory


def mine(bench, runs):
    return [run["path"] for run in runs if run["path"].startswith(bench.temporary)]


@bench_case
def a_base_that_somebody_else_made_is_not_looked_at(bench):
    forged_base(bench)
    listed = bench.command("ls", "--json")
    check_equal(mine(bench, json.loads(listed.out)["runs"]), [], "runs")
    check(f"{bench.base()}: belongs to somebody else" in listed.err, f"{listed}: said")
    for words in (["diagnose"], ["diagnose", "latest"], ["trace"], ["dump"], ["off"], ["stacks"]):
        done = bench.command(*words)
        check(bench.temporary + "/ncclwatch" not in done.out, f"{words}: {done}")
    cleaned = bench.command("clean", "--dry-run")
    check("would_remove" not in cleaned.out or bench.temporary not in cleaned.out, f"{cleaned}")


@bench_case
def a_run_of_somebody_else_in_an_own_base_is_not_looked_at(bench):
    own = bench.dead_job(bench.place("own"))
    foreign = bench.dead_job(bench.place("foreign"))
    give_away(foreign)
    shared = bench.dead_job(bench.place("shared"))
    os.chmod(shared, 0o770)
    listed = bench.command("ls", "--json")
    check_equal(mine(bench, json.loads(listed.out)["runs"]), [own], "runs")
    check("foreign: belongs to somebody else" in listed.err, f"{listed}: foreign")
    check("shared: others may write to it" in listed.err, f"{listed}: shared")


@bench_case
def the_environment_names_nobody_elses_directory(bench):
    foreign = bench.dead_job(bench.sandbox.fresh("foreign"))
    give_away(foreign)
    listed = bench.command("ls", "--json", NCCLWATCH_DIR=foreign)
    check(foreign not in [run["path"] for run in json.loads(listed.out)["runs"]], f"{listed}")


@bench_case
def what_was_named_is_read_and_that_is_said(bench):
    directory = forged_base(bench)
    verdict, done = bench.diagnose(directory)
    check_equal(verdict["job"]["processes"], 2, "processes")
    said = [line for line in done.err.splitlines() if "belongs to another user" in line]
    check_equal(len(said), 1, f"{done}: lines")


@bench_case
def a_latest_in_the_present_directory_must_be_asked_for(bench):
    folder = bench.sandbox.fresh("cwd")
    bench.dead_job(os.path.join(folder, "latest"), 7)
    done = subprocess.run([bench.build.command, "diagnose", "--json"], env=bench.environment(), cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    processes = json.loads(done.stdout)["job"]["processes"] if done.stdout else 0
    check(processes != 7, "read without a word")
    done = subprocess.run([bench.build.command, "diagnose", "--json", "latest"], env=bench.environment(), cwd=folder,
                          stdout=subprocess.PIPE, text=True, timeout=60)
    check_equal(json.loads(done.stdout)["job"]["processes"], 7, "asked for")


@bench_case
def links_in_a_run_directory_are_not_followed(bench):
    elsewhere = bench.dead_job(bench.sandbox.fresh("elsewhere"), 1)
    secret = os.path.join(bench.sandbox.fresh("secret"), "diagnosis.json")
    with open(secret, "w") as file:
        json.dump({"schema": "ncclwatch.diagnosis/1", "healthy": False,
                   "findings": [{"kind": "dead_rank", "certainty": "certain", "summary": "secret"}]}, file)
    directory = bench.dead_job()
    os.symlink(bench.boxes(elsewhere)[0], os.path.join(directory, "linked.box"))
    os.symlink(secret, os.path.join(directory, "diagnosis.json"))
    verdict, _ = bench.diagnose(directory, statuses=(3,))
    check_equal(verdict["job"]["processes"], 2, "processes")
    check(verdict["unreadable"] and "link" in verdict["unreadable"][0]["reason"], f"{verdict['unreadable']}")
    states = {run["path"]: run["state"] for run in json.loads(bench.command("ls", "--json").out)["runs"]}
    check_equal(states[directory], "finished", "a verdict behind a link")
    # A link that was named is another matter.
    named = os.path.join(bench.sandbox.fresh("names"), "named")
    os.symlink(elsewhere, named)
    check_equal(bench.diagnose(named)[0]["job"]["processes"], 1, "named")


@bench_case
def dump_writes_nothing_into_somebody_elses_directory(bench):
    directory = bench.place()
    bench.hold(directory, 0, 1)
    give_away(directory)
    target = bench.sandbox.fresh("target")
    os.symlink(target, os.path.join(directory, "evidence"))
    os.symlink(target, os.path.join(directory, "stacks"))
    done = bench.command("dump", directory)
    check("writes nothing there" in done.out + done.err, f"{done}")
    check_equal(os.listdir(target), [], "written through a link")


@bench_case
def another_process_that_has_the_pid_is_left_alone(bench):
    directory = bench.place()
    holder = bench.hold(directory, 0, 1)
    with open(f"/proc/{holder.pid}/stat") as file:
        began = int(file.read().rsplit(")", 1)[1].split()[19])
    right = bench.command("stacks", "--started", f"{holder.pid}:{began}", str(holder.pid))
    check_equal(right.status, 0, f"{right}: status")
    wrong = bench.command("stacks", "--each", "--started", f"{holder.pid}:{began + 1}", str(holder.pid))
    check_equal(wrong.status, 3, f"{wrong}: status")
    check("another process has its pid" in wrong.err, f"{wrong}")
    check("thread" not in wrong.out, f"{wrong}: looked at")


@bench_case
def nothing_that_is_printed_steers_the_terminal(bench):
    directory = bench.dead_job()
    for box in bench.boxes(directory):
        with open(box, "r+b") as file:
            content = file.read()
            at = content.index(b"node-a\0")
            file.seek(at)
            file.write(b"\xc2\x9b\x1b[2J")
    with open(os.path.join(directory, "job"), "wb") as file:
        file.write(b"job\xc2\x9d0;title\x07\n")
    odd = bench.place("odd-\x1b[31m\x9b")
    bench.dead_job(odd)
    for words in (["diagnose", directory], ["diagnose", "--json", directory], ["ls"], ["ls", "--json"],
                  ["trace", "--wide", directory], ["trace", "--json", directory], ["diagnose", odd + "x"],
                  ["clean", "--dry-run", bench.base()], ["clean", "--dry-run", "--json", bench.base()]):
        done = bench.command(*words)
        for text in (done.out, done.err):
            bad = [c for c in text if (ord(c) < 32 and c != "\n") or 0x7f <= ord(c) < 0xa0]
            check_equal(bad, [], f"{words}: {text!r}")
