"""Files that a command reads and writes: only the user may read them, no link leads it astray, nothing holds it up."""

import json
import os
import signal
import stat
import subprocess
import sys

from common import HERE, bench_case, check, check_equal
from harness import Skipped, until

# Commands and where a path that somebody names stands in them.
READERS = {
    "diagnose": ["diagnose", "{}"],
    "trace": ["trace", "{}"],
    "stats": ["stats", "{}"],
    "replay": ["replay", "{}"],
    "report": ["report", "{}", "-o", "-"],
    "export": ["export", "{}", "--to", "csv", "-o", "-"],
    "investigate": ["investigate", "{}"],
    "correlate": ["correlate", "{}"],
    "compare": ["compare", "{}", "{}"],
    "triage": ["triage", "{}"],
    "triage_rules": ["triage", "--rules", "{}", "/dev/null"],
    "doctor_checks": ["doctor", "--checks", "{}"],
    "bisect_items": ["bisect", "--items", "{}", "--", "true"],
    "bisect_state": ["bisect", "--size", "1..4", "--state", "{}", "--", "true"],
    "top": ["top", "--once", "{}"],
    "bundle": ["bundle", "{}", "-o", "-"],
    "baseline": ["diagnose", "--baseline", "{}", "{}"],
}


def modes(directory):
    """The permissions of everything in it, and its own."""
    found = {directory: os.lstat(directory).st_mode}
    for folder, folders, names in os.walk(directory):
        for name in folders + names:
            path = os.path.join(folder, name)
            found[path] = os.lstat(path).st_mode
    return found


def check_private(*paths):
    for path in paths:
        for name, mode in modes(path).items():
            check(stat.S_IMODE(mode) & 0o077 == 0, f"{name}: others have rights: {oct(mode)}")


@bench_case
def files_are_private_whatever_the_umask(bench):
    place = bench.dead_job()
    out = bench.sandbox.fresh("out")
    made = [("csv", "csv"), ("perfetto", "trace"), ("chakra", "chakra"), ("torch-fr", "dumps")]
    before = os.umask(0o000)
    try:
        for form, name in made:
            check_equal(bench.command("export", place, "--to", form, "-o", f"{out}/{name}").status, 0, form)
        bench.command("report", place, "-o", f"{out}/report.html")
        bench.command("bundle", place, "-o", f"{out}/bundle.tar.zst")
        bench.command("investigate", place, "-o", f"{out}/incident.md")
        bench.command("replay", place, "--out", f"{out}/replay")
        bench.command("collect", place, "--to", f"{out}/deep/er/recording")
        bench.command("bisect", "--size", "1..4", "--state", f"{out}/state", "--", "test", "{n}", "-lt", "3")
    finally:
        os.umask(before)
    os.chmod(out, 0o700)
    for name in ("report.html", "bundle.tar.zst", "incident.md", "deep/er/recording", "state", *(name for _, name in made)):
        check(os.path.exists(f"{out}/{name}"), f"{name} is there")
    check_private(out)


@bench_case
def a_recorded_run_is_private(bench):
    scratch = bench.sandbox.fresh("run")
    loop = bench.build.program("recording", "loop")
    bench.build.need(loop)
    env = bench.sandbox.environment(preload=False, extra={"HOST_ID_DIR": scratch, "TMPDIR": scratch})
    launch = [sys.executable, os.path.join(HERE, "..", "..", "examples", "launch.py"), "-n", "2", "--"]
    done = bench.sandbox.run(["sh", "-c", 'umask 022 && exec "$@"', "sh", bench.build.command, "run", "--record", f"{scratch}/a/b",
                              "--", *launch, loop, "50", "100", f"{scratch}/log"], env, cwd=scratch)
    check_equal(done.status, 0, f"{done}: status")
    check_private(f"{scratch}/a")
    check(any(name.endswith(".box") for name in os.listdir(f"{scratch}/a/b")), "boxes are there")


@bench_case
def a_copy_does_not_follow_a_planted_link(bench):
    place = bench.dead_job()
    to, victim = bench.sandbox.fresh("recording"), os.path.join(bench.sandbox.fresh("home"), "precious")
    with open(victim, "w") as file:
        file.write("precious")
    for box in bench.boxes(place):
        os.symlink(victim, os.path.join(to, os.path.basename(box)))
    bench.command("collect", place, "--to", to)
    with open(victim) as file:
        check_equal(file.read(), "precious", "the file behind the link")


@bench_case
def outputs_follow_the_users_link_and_nobody_elses(bench):
    place, folder = bench.dead_job(), bench.sandbox.fresh("out")
    target, link = os.path.join(folder, "target.html"), os.path.join(folder, "link.html")
    os.symlink("target.html", link)
    check_equal(bench.command("report", place, "-o", link).status, 0, "status")
    check(os.path.islink(link) and os.path.getsize(target) > 1000, "the target is written, and the link is there")
    check_equal(sorted(os.listdir(folder)), ["link.html", "target.html"], "no draft is left")
    if os.geteuid() != 0:
        raise Skipped("needs root, to make another user's link")
    shared = bench.sandbox.fresh("shared")
    os.chmod(shared, 0o1777)
    planted = os.path.join(shared, "report.html")
    os.symlink(target, planted)
    os.lchown(planted, 54321, 54321)
    before = os.stat(target)
    done = bench.command("report", place, "-o", planted)
    check(done.status != 0 and "another user" in done.err, f"{done}")
    check_equal(os.stat(target), before, "the target")


@bench_case
def outputs_go_to_pipes_and_devices(bench):
    place = bench.dead_job()
    for words in (["report", place, "-o"], ["export", place, "--to", "csv", "-o"], ["investigate", place, "-o"],
                  ["bundle", place, "-o"]):
        to_stdout = subprocess.run([bench.build.command, *words, "-"], env=bench.environment(), capture_output=True, timeout=60)
        check(len(to_stdout.stdout) > 100, f"{words}: standard output: {to_stdout}")
        check_equal(bench.command(*words, "/dev/null").status, to_stdout.returncode, f"{words} /dev/null")
        check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is what it was")
        full = bench.command(*words, "/dev/full")
        check(full.status in (1, 3) and "No space left" in full.err, f"{words} /dev/full: {full}")
        check(stat.S_ISCHR(os.stat("/dev/full").st_mode), "/dev/full is what it was")
    check(not os.path.exists("-"), "no file is called -")


@bench_case
def only_regular_files_are_read(bench):
    folder = bench.sandbox.fresh("odd")
    fifo = os.path.join(folder, "fifo.csv")
    os.mkfifo(fifo)
    for name, words in READERS.items():
        for path in (fifo, "/dev/zero", folder):
            done = bench.command(*[path if word == "{}" else word for word in words], timeout=20)
            # A bundle lists what it leaves out.
            accepted = (0, 1, 2, 3) if path == folder or name == "bundle" else (2, 3)
            check(done.status in accepted, f"{name} {path}: {done.status} {done.err}")
            if path != folder and name != "bundle":
                check(done.err, f"{name} {path}: a reason")


@bench_case
def parquet_runs_nothing_of_the_present_directory(bench):
    place, folder = bench.dead_job(), bench.sandbox.fresh("here")
    for name in ("json.py", "pyarrow.py", "sitecustomize.py", "os.py"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(f"open({os.path.join(folder, 'ran')!r}, 'w')\n")
    os.symlink(sys.executable, os.path.join(folder, "python3"))
    env = bench.environment(PYTHONPATH=folder, PYTHONSTARTUP=os.path.join(folder, "json.py"))
    subprocess.run([bench.build.command, "export", place, "--to", "parquet", "-o", "out"], env=env, cwd=folder,
                   capture_output=True, timeout=60)
    env["PATH"] = f".::{os.environ['PATH']}"
    os.unlink(os.path.join(folder, "python3"))
    with open(os.path.join(folder, "python3"), "w") as file:
        file.write("#!/bin/sh\ntouch ran\n")
    os.chmod(os.path.join(folder, "python3"), 0o755)
    subprocess.run([bench.build.command, "export", place, "--to", "parquet", "-o", "out"], env=env, cwd=folder,
                   capture_output=True, timeout=60)
    check(not os.path.exists(os.path.join(folder, "ran")), "what lies there has run")


@bench_case
def a_limit_on_files_ends_no_command(bench):
    """RLIMIT_FSIZE: an error with its reason, not SIGXFSZ; and what `run` starts has the default action again."""
    place, folder = bench.dead_job(), bench.sandbox.fresh("out")
    limited = ["sh", "-c", 'ulimit -f 1 && exec "$@"', "sh", bench.build.command]
    for words in (["report", place, "-o", f"{folder}/report.html"], ["export", place, "--to", "torch-fr", "-o", f"{folder}/fr"],
                  ["collect", place, "--to", f"{folder}/recording"]):
        done = bench.sandbox.run([*limited, *words], bench.environment())
        check(done.status in (0, 1, 3), f"{words}: {done}")
        check("too large" in done.err, f"{words}: {done}")
    check_equal([name for name in os.listdir(folder) if "draft" in name], [], "drafts")
    probe = "import signal, sys; sys.exit(0 if open('/proc/self/status').read().count('SigIgn:\\t0000000001001000') else 3)"
    with_library = bench.sandbox.run([bench.build.command, "run", "--", sys.executable, "-c", probe], bench.environment())
    alone = bench.sandbox.run([sys.executable, "-c", probe], bench.environment())
    check_equal(with_library.status, alone.status, f"actions of signals in the job: {with_library}")


@bench_case
def json_of_run_goes_where_it_is_named(bench):
    folder = bench.sandbox.fresh("out")
    done = bench.command("run", "--json", f"{folder}/verdict.json", "--", "true")
    check_equal(done.status, 0, f"{done}: status")
    with open(f"{folder}/verdict.json") as file:
        check(json.load(file)["schema"].startswith("ncclwatch.diagnosis/"), "a diagnosis")


@bench_case
def a_full_standard_output_is_an_error(bench):
    place = bench.dead_job()
    for words in (["diagnose", place], ["diagnose", "--json", place], ["trace", "--json", place], ["stats", place], ["metrics", place],
                  ["--help"], ["--version"], ["ls"], ["doctor", "--json"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([bench.build.command, *words], env=bench.environment(), stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=60)
        check_equal(done.returncode, 3, f"{words}: {done.stderr}")
        check("standard output" in done.stderr, f"{words}: {done.stderr}")


@bench_case
def what_the_recording_lacks_is_an_error(bench):
    place = bench.dead_job(None, 2, "calls=5")
    for words in (["--slow", "rank=9:20%"], ["--delay", "rank=2:1s"], ["--drop", "rank=0:99999"], ["--drop", "rank=7:0"],
                  ["--ranks", "0-5"]):
        done = bench.command("replay", place, *words)
        check_equal(done.status, 2, f"{words}: {done}")
        check("the recording has no" in done.err or "has no call" in done.err, f"{words}: {done}")


@bench_case
def bisect_tells_what_it_cannot_run(bench):
    folder = bench.sandbox.fresh("items")
    items = os.path.join(folder, "items")
    with open(items, "w") as file:
        file.write("a\nb\nc\n")
    done = bench.command("bisect", "--size", "1..8", "--", "no-such-program", "{n}")
    check(done.status == 2 and "no-such-program" in done.err, f"{done}")
    done = bench.command("bisect", "--items", items, "--json", "--", "sh", "-c", "for i in {items}; do test $i != b || exit 1; done")
    check_equal((done.status, json.loads(done.out)["culprits"]), (0, ["b"]), f"{done}")


@bench_case
def nothing_is_recorded_into_a_planted_folder(bench):
    if os.geteuid() != 0:
        raise Skipped("needs root, to be another user")
    place, shared = bench.dead_job(), bench.sandbox.fresh("shared")
    os.chmod(shared, 0o1777)
    for name in ("folder", "link"):
        planted, elsewhere = os.path.join(shared, name), bench.sandbox.fresh("elsewhere")
        if name == "link":
            os.symlink(elsewhere, planted)
        else:
            os.mkdir(planted, 0o777)
        os.lchown(planted, 54321, 54321)
        for words in (["collect", place, "--to", planted], ["export", place, "--to", "torch-fr", "-o", planted]):
            done = bench.command(*words)
            check(done.status != 0 and "another user" in done.err, f"{words}: {done}")
        check_equal((os.listdir(planted), os.listdir(elsewhere)), ([], []), f"what was written through {name}")


def runs(pid):
    """Not one that has ended and that init has not collected yet."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@bench_case
def bisect_ends_what_it_runs(bench):
    folder = bench.sandbox.fresh("bisect")
    script = os.path.join(folder, "job.sh")
    with open(script, "w") as file:
        file.write(f"#!/bin/sh\necho $$ > {folder}/pid\nsleep 1000 &\necho $! >> {folder}/pid\nwait\n")
    os.chmod(script, 0o755)
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([bench.build.command, "bisect", "--size", "1..4", "--", script, "{n}"], env=bench.environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: os.path.exists(f"{folder}/pid") and len(open(f"{folder}/pid").read().split()) == 2, "the run begins")
        pids = open(f"{folder}/pid").read().split()
        process.send_signal(number)
        check(process.wait(20) != 0, "status")
        until(lambda: not any(runs(pid) for pid in pids), "the run is ended")
        os.unlink(f"{folder}/pid")
