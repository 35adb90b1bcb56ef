#!/usr/bin/env python3
"""`ncclwatch triage` on labelled logs. `--all` judges every failure type with several seeds and prints a table."""

import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), HERE]

from compose import Job  # noqa: E402
from failures import FAILURES  # noqa: E402
from harness import Process, case, check, check_equal, run_main, until  # noqa: E402


def triage(sandbox, *words):
    done = sandbox.run([sandbox.build.command, "triage", "--json", *words], sandbox.environment(preload=False), timeout=60)
    return done.status, json.loads(done.out) if done.out else None


def judge(sandbox, kind, ranks, seed):
    """(right at once, among the first three, rank right, what was said)"""
    job = Job(kind, ranks, seed)
    folder = sandbox.fresh("logs")
    job.write(folder)
    _, result = triage(sandbox, folder)
    subprocess.run(["rm", "-rf", folder], check=True)
    failure, causes = FAILURES[kind], result["causes"]
    if failure["category"] is None and result["unknown"]:  # the rank is named all the same
        causes = [{"category": None, "rule": None, "ranks": [result["unexplained"]["end"]["rank"]]}]
    said = [(cause["category"], cause["rule"], cause["ranks"][:4]) for cause in causes[:3]]
    categories = [category for category, _, _ in said]
    expected = {"rank": [job.culprit], "all": list(range(ranks)), None: None}[failure["who"]]
    rank = expected is None or (bool(causes) and causes[0]["ranks"] == expected)
    return categories[:1] == [failure["category"]], failure["category"] in categories, rank, (job.layout, job.culprit, said)


def judge_all(sandbox, cases):
    total = first = among = ranks_right = 0
    for kind, ranks, seed in cases:
        top1, top3, rank, said = judge(sandbox, kind, ranks, seed)
        total, first, among, ranks_right = total + 1, first + top1, among + top3, ranks_right + (top1 and rank)
        if not (top1 and rank):
            print(f"{kind}, {ranks} ranks, seed {seed}: {FAILURES[kind]['category']} expected, {said}")
    print(f"{total} logs of {len(FAILURES)} failure types: first cause right {first}, among three {among}, rank right too {ranks_right}")
    return total, first, among, ranks_right


@case
def every_failure_type(sandbox):
    total, first, among, ranks = judge_all(sandbox, [(kind, 4, 0) for kind in FAILURES])
    check(first >= 0.95 * total and among >= 0.98 * total and ranks >= 0.95 * total, "see above")


def write(folder, files):
    for name, lines in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.writelines(line + "\n" for line in lines)


def steps(first, last, rank=None):
    tag = "" if rank is None else f"[rank{rank}]: "
    return [f"{tag}2026-11-26 12:{i // 60:02}:{i % 60:02} INFO step {i} loss {3 - i / 1000:.3f}" for i in range(first, last)]


def table(rank, status):
    return ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "Root Cause (first observed failure):", "[0]:",
            "  time      : 2026-11-26_12:05:00", "  host      : node1", f"  rank      : {rank} (local_rank: {rank})",
            f"  exitcode  : {status} (pid: {4700 + rank})"]


BAD_LOOKING = ["Traceback (most recent call last):", '  File "cache.py", line 7, in read', "ConnectionResetError: [Errno 104] Connection reset by peer",
               "PermissionError: [Errno 13] Permission denied: '/home/user/.config/matplotlib'", "sudo: command not found",
               "[node1:7] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168",
               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. (retried with a smaller batch)"]


@case
def who_went_on_did_not_fail(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 9) + BAD_LOOKING + steps(9, 30) + ["all is done"], "rank_1.log": steps(0, 30)})
    status, result = triage(sandbox, folder)
    check_equal((status, result["causes"], result["unknown"], result["restart"]), (0, [], False, None), "work follows all of it")
    write(folder, {"rank_1.log": steps(0, 30) + ["Traceback (most recent call last):", '  File "train.py", line 3, in step', "KeyError: 'mask'"],
                   "launcher.log": table(1, 1)})
    status, result = triage(sandbox, folder)
    first = result["causes"][0]
    check_equal((status, first["rule"], first["ranks"]), (1, "python.exception", [1]), "only the rank that ended")
    check_equal(result["restart"]["advice"], "fix_first", "an exception in the program")


@case
def noise_after_success(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"job.log": steps(0, 30) + [
        ':::MLLOG {"event_type": "INTERVAL_END", "key": "run_stop", "metadata": {"status": "success"}}',
        "node1:7:8 [2] proxy.cc:1521 NCCL WARN [Proxy Service 2] Failed to execute operation Close from rank 2, retcode 3",
        "slurmstepd: error: *** STEP 1.0 ON node1 CANCELLED AT 2026-11-26T12:52:49 DUE TO TIME LIMIT ***"]})
    status, result = triage(sandbox, folder)
    check_equal((status, result["causes"], result["unknown"]), (0, [], False), "the job had done its work")


@case
def unknown_names_the_rank(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 30), "rank_1.log": steps(0, 30) + ["the frobnicator said no"], "launcher.log": table(1, 1)})
    status, result = triage(sandbox, folder)
    check_equal((status, result["causes"], result["unknown"]), (1, [], True), "no rule knows it")
    check_equal((result["unexplained"]["end"]["rank"], result["unexplained"]["lines"][-1]), (1, "the frobnicator said no"), "whose it was")
    check_equal([(end["rank"], end["how"], end["status"]) for end in result["ended"]], [(1, "exit", 1)], "how it ended")


@case
def advice_after_hardware_and_preemption(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 30), "slurm.err": ["srun: error: Node failure on node7"]})
    check_equal(triage(sandbox, folder)[1]["restart"]["hosts"], ["node7"], "without the host")
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 30), "slurm.err": [
        "slurmstepd: error: *** JOB 1 ON node1 CANCELLED AT 2026-11-26T12:01:00 DUE TO PREEMPTION ***"]})
    check_equal(triage(sandbox, folder)[1]["restart"]["advice"], "restart", "nothing to fix")


@case
def lines_of_a_good_run_mean_nothing(sandbox):
    line = "node1:7:8 [0] init.cc:9 NCCL WARN NET/IB : mlx5_{}:1 async fatal event: port error"
    good, bad = sandbox.fresh("good"), sandbox.fresh("bad")
    write(good, {"rank_0.log": [line.format(1)] + steps(0, 30)})
    write(bad, {"rank_0.log": steps(0, 3) + [line.format(4)], "launcher.log": table(0, 1)})
    check_equal(triage(sandbox, bad)[1]["causes"][0]["rule"], "ib.port_error", "without a baseline")
    check_equal(triage(sandbox, bad, "--baseline", good)[1]["causes"], [], "with it")


@case
def lines_name_other_ranks_than_the_file(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"ddp-worker-0.log": steps(0, 9, 4) + steps(0, 9, 5) + [
        "[rank5]: Traceback (most recent call last):", '[rank5]:   File "a.py", line 1, in f', "[rank5]: KeyError: 'x'"]})
    check_equal(triage(sandbox, folder)[1]["causes"][0]["ranks"], [5], "the pod's number is no rank")


@case
def recorded_failures(sandbox):
    """What jobs of two ranks under torchrun (torch 2.15, gloo), Open MPI 4.1.4 and MPICH 4.0.2 really wrote when they failed."""
    with open(os.path.join(HERE, "recorded.json")) as file:
        recorded = json.load(file)
    wrong = []
    for name, failure in recorded.items():
        folder = sandbox.fresh("logs")
        for path, text in failure["files"].items():
            full = os.path.join(folder, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as file:
                file.write(text)
        _, result = triage(sandbox, folder)
        said = [(cause["category"], cause["ranks"]) for cause in result["causes"][:1]]
        if result["unknown"] and result["unexplained"]:
            said = [(None, [result["unexplained"]["end"]["rank"]])]
        expected = (failure["category"], [] if failure["rank"] is None else [failure["rank"]])
        if said != [expected]:
            wrong.append((name, expected, said))
    check_equal(wrong, [], f"of {len(recorded)} failures")


@case
def healthy_logs_have_no_cause(sandbox):
    for ranks in (1, 4, 16):
        folder = sandbox.fresh("logs")
        Job(None, ranks, 1).write(folder)
        status, result = triage(sandbox, folder)
        check_equal((status, result["causes"], result["unknown"]), (0, [], False), f"{ranks} ranks")


class Following:
    """`triage --follow` of a folder while a test writes to it."""

    def __init__(self, sandbox, folder, *words):
        self.process = Process([sandbox.build.command, "triage", "--follow", *words, folder], sandbox.environment(preload=False))

    def until_printed(self, text, stream="out"):
        until(lambda: text in self.process.read(getattr(self.process, stream)), f"'{text}' is printed")

    def interrupt(self):
        os.kill(self.process.popen.pid, signal.SIGINT)
        return self.wait()

    def wait(self):
        return self.process.wait(time.monotonic() + 60)


FOR_EVER = ("--look", "20ms", "--settle", "1h")
QUICK = ("--look", "20ms", "--settle", "200ms")


@case
def follow_ends_after_a_failure(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 9), "rank_1.log": steps(0, 9)})
    following = Following(sandbox, folder, *QUICK, "--json")
    write(folder, {"rank_1.log": steps(0, 9) + UNCAUGHT, "launcher.log": table(1, 1)})
    done = following.wait()
    result = json.loads(done.out)
    check_equal((done.status, result["causes"][0]["rule"], result["causes"][0]["ranks"]), (1, "python.exception", [1]), "the verdict")
    check(re.fullmatch(r"\d\d:\d\d:\d\d something has failed: python, rank 1: .*rank_1.log:12\)\n", done.err), f"one line on stderr: {done}")


@case
def follow_sees_new_files_and_scans_only_what_changed(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 9), "rank_1.log": steps(0, 9) + UNCAUGHT})
    following = Following(sandbox, folder, *FOR_EVER)
    following.until_printed("something has failed: python, rank 1")
    # The same length and time: a file that was scanned again would show it.
    path = os.path.join(folder, "rank_1.log")
    before, hidden = os.stat(path), os.path.join(sandbox.path, "hidden")
    with open(path) as old, open(hidden, "w") as new:
        new.write(old.read().replace("'mask'", "'task'"))
    os.utime(hidden, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(hidden, path)
    write(folder, {"dmesg.log": ["[Thu Nov 26 12:00:08 2026] NVRM: Xid (PCI:0000:1b:00): 79, pid=4701, name=python, GPU has fallen off the bus."],
                   "launcher.log": table(1, 1)})
    done = following.interrupt()
    check_equal(done.status, 1, "the usual status")
    check(done.out.count("something has failed") == 1 and "'task'" not in done.out and "'mask'" in done.out, f"rank 1 was not scanned again: {done}")
    check("4 files" in done.out and "Xid" in done.out, f"new files: {done}")


@case
def follow_ends_with_success(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 9)})
    following = Following(sandbox, folder, *QUICK)
    write(folder, {"rank_0.log": steps(0, 30) + ["Training complete."]})
    done = following.wait()
    check(done.status == 0 and done.out.startswith("Nothing failed"), f"{done}")


@case
def follow_waits_before_it_reports_silence(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 9)})
    following = Following(sandbox, folder, *FOR_EVER)
    done = following.interrupt()
    check("something has failed" not in done.out, f"not yet: {done}")
    # One step a second: ten of them are silence. Six settle times are less.
    began = time.time()
    write(folder, {"rank_0.log": steps(0, 9)})
    done = Following(sandbox, folder, *QUICK).wait()
    check(time.time() - began >= 10, "not before ten times the usual gap")
    check(done.status == 1 and "something has failed: the job stopped writing" in done.out, f"{done}")


@case
def rules_of_a_user(sandbox):
    folder = sandbox.fresh("logs")
    with open(os.path.join(folder, "rank_0.log"), "w") as file:
        file.write("2026-11-26 12:00:00 our storage gateway refused shard 17\n")
    check_equal(triage(sandbox, folder)[0], 0, "unknown without the rule")
    rules = os.path.join(folder, "..", "site.toml")
    with open(rules, "w") as file:
        file.write('["site.gateway"]\ncategory = "filesystem"\npattern = "storage gateway refused shard (?P<shard>\\\\d+)"\nsummary = "Shard {shard} was refused."\n')
    status, result = triage(sandbox, folder, "--rules", rules)
    check_equal((status, result["causes"][0]["rule"], result["causes"][0]["summary"], result["causes"][0]["ranks"]),
                (1, "site.gateway", "Shard 17 was refused.", [0]), "with the rule")
    with open(rules, "w") as file:
        file.write('["site.bad"]\ncategory = "nonsense"\npattern = "x(("\nsummary = ""\n')
    done = sandbox.run([sandbox.build.command, "triage", folder, "--rules", rules], sandbox.environment(preload=False))
    check(done.status == 2 and "site.bad" in done.err and "site.toml:1" in done.err, f"{done}")


TIMED_OUT = ("[rank{0}]:[E1126 12:10:00.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
             "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=43, NumelOut=43, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.")


def hung_job(folder, version):
    write(folder, {f"rank_{rank}.log": [f"node1:{70 + rank}:80 [{rank}] NCCL INFO NCCL version {version}"] + steps(0, 9) + [TIMED_OUT.format(rank)]
                   for rank in range(2)})
    write(folder, {"launcher.log": table(0, -6)})


@case
def known_bad_versions_need_version_and_symptom(sandbox):
    hung, other, crashed = sandbox.fresh("logs"), sandbox.fresh("logs"), sandbox.fresh("logs")
    hung_job(hung, "2.29.2+cuda13.0")
    _, result = triage(sandbox, hung)
    reports = [entry["report"] for entry in result["known_bad"]]
    check_equal(result["causes"][0]["category"], "timeout", "the symptom")
    check("https://github.com/pytorch/pytorch/pull/174338" in reports, f"this version, and it hung: {result}")
    text = sandbox.run([sandbox.build.command, "triage", hung], sandbox.environment(preload=False)).out
    check("reported for this version" in text and reports[0] in text, f"in the text too: {text}")
    hung_job(other, "2.29.3+cuda13.0")
    check_equal(triage(sandbox, other)[1]["known_bad"], [], "the next version")
    write(crashed, {"rank_0.log": ["NCCL version 2.29.2+cuda13.0"] + steps(0, 9) + UNCAUGHT, "launcher.log": table(0, 1)})
    check_equal(triage(sandbox, crashed)[1]["known_bad"], [], "another symptom")


@case
def known_bad_versions_of_a_user(sandbox):
    folder, versions = sandbox.fresh("logs"), os.path.join(sandbox.path, "site.toml")
    entry = '[site-1]\ncomponent = "{}"\nfrom = "2.3"\nto = "2.3.9"\nsymptom = ["python.exception"]\ntext = "mask"\nreport = "https://site/1"\nsummary = "It fails."\n'
    write(folder, {"rank_0.log": ["PyTorch version: 2.3.0+cu121"] + steps(0, 9) + UNCAUGHT, "launcher.log": table(0, 1),
                   "smi.log": ["| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |"]})
    for component, expected in (("torch", ["site-1"]), ("nccl", [])):
        with open(versions, "w") as file:
            file.write(entry.format(component))
        check_equal([one["id"] for one in triage(sandbox, folder, "--versions", versions)[1]["known_bad"]], expected, component)
    with open(versions, "w") as file:
        file.write(entry.format("driver").replace('"2.3"', '"550.54.14"').replace('"2.3.9"', '"550.54.15"'))
    check_equal(len(triage(sandbox, folder, "--versions", versions)[1]["known_bad"]), 1, "the driver")
    with open(versions, "w") as file:
        file.write(entry.format("torch").replace("symptom", "sympton"))
    done = sandbox.run([sandbox.build.command, "triage", folder, "--versions", versions], sandbox.environment(preload=False))
    check(done.status == 2 and "site-1" in done.err and "sympton" in done.err, f"{done}")


@case
def hostile_logs(sandbox):
    folder = sandbox.fresh("logs")
    with open(os.path.join(folder, "rank_0.log"), "wb") as file:
        file.write(b"x" * (3 << 20) + b"\n\x1b[31mCUDA out of memory. Tried to allocate \x1b]0;owned\x07 1 GiB <script>\xff\xfe\n")
        file.write(b"Traceback (most recent call last):\n" * 3000)
    with open(os.path.join(folder, "rank_1.log.gz"), "wb") as file:
        file.write(b"\x1f\x8bnot gzip at all")
    done = sandbox.run([sandbox.build.command, "triage", folder], sandbox.environment(preload=False))
    check(done.status == 1 and "out_of_memory" in done.out and "\x1b]" not in done.out, f"{done}")
    check("rank_1.log.gz" in done.err, "a file that cannot be read is named")


def raised(text, tag=""):
    return [tag + line for line in ("Traceback (most recent call last):", '  File "train.py", line 3, in step', text)]


# Exceptions of which no rule knows the text.
CLASSES = (
    ("filelock._error.Timeout: The file lock '/data/.lock' could not be acquired.", "timeout"),
    ("polars.exceptions.ComputeError: memory allocation of 17179869184 bytes failed", "out_of_memory"),
    ("RuntimeError: oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker # 0", "nccl"),
    ("redis.exceptions.ConnectionError: Error 111 connecting to redis:6379. Connection refused.", "network"),
    ("ValueError: cannot convert float NaN to integer", "numerics"),
    ("ValueError: Can't find a valid checkpoint at /ckpt/7", "checkpoint"),
    ("sqlite3.OperationalError: disk I/O error", "filesystem"),
    ("pandas.errors.ParserError: Error tokenizing data. C error: Expected 5 fields in line 9, saw 6", "data"),
    ("ValueError: fp16 mixed precision requires a GPU (not 'cpu').", "environment"),
    ("KeyError: 'SLURM_PROCID'", "environment"),
    ("KeyError: 'mask'", "python"),
    ("ValueError: too many values to unpack (expected 2)", "python"),
)


@case
def classes_and_words_of_exceptions(sandbox):
    for text, category in CLASSES:
        folder = sandbox.fresh("logs")
        write(folder, {"rank_0.log": steps(0, 9), "rank_1.log": steps(0, 9) + raised(text), "launcher.log": table(1, 1)})
        first = triage(sandbox, folder)[1]["causes"][0]
        check_equal((first["category"], first["ranks"]), (category, [1]), text)


@case
def others_write_between_the_lines(sandbox):
    folder = sandbox.fresh("logs")
    ignored = ["[rank1]: Exception ignored in: <function __del__>", "[rank1]: OSError: [Errno 9] Bad file descriptor"]
    write(folder, {"job.log": steps(0, 9, 0) + steps(0, 9, 1) + ignored + raised("KeyError: 'mask'", "[rank0]: ")})
    check_equal(triage(sandbox, folder)[1]["causes"][0]["ranks"], [0], "another process ignored an exception")
    missing = raised("ImportError: libfast.so: cannot open shared object file: No such file or directory")
    write(folder, {"job.log": missing + ["the fast optimizer is not available, using the slow one"] + steps(0, 9, 0)})
    check_equal(triage(sandbox, folder)[1]["causes"], [], "the program lives without it")
    server = "(VllmWorker rank=1 pid=9) ERROR 11-26 12:00:00 [multiproc.py:522] "
    write(folder, {"job.log": [server + "WorkerProc hit an exception."] + raised("ValueError: bad shape", server)})
    check_equal(triage(sandbox, folder)[1]["causes"][0]["line"], 4, "a header is no lost peer")


@case
def last_words_without_an_exception(sandbox):
    folder = sandbox.fresh("logs")
    words = "[1,1]<stderr>:ERROR on proc 1: Non-numeric pressure - simulation unstable (src/fix_nh.cpp:1027)"
    launcher = ["mpirun detected that one or more processes exited with non-zero status, thus causing", "  Process name: [[39125,1],1]", "  Exit code:    1"]
    write(folder, {"mpirun.log": [f"[1,{rank}]<stdout>:step {i} residual 1.0" for i in range(9) for rank in (0, 1)] + [words] + launcher})
    first = triage(sandbox, folder)[1]["causes"][0]
    check_equal((first["category"], first["ranks"]), ("numerics", [1]), "its words tell the category")
    write(folder, {"mpirun.log": [f"[1,{rank}]<stdout>:step {i} residual 1.0" for i in range(9) for rank in (0, 1)] + [words.replace("1027", "1"), "[after training is done] datetime: today"]})
    check_equal(triage(sandbox, folder)[0], 0, "nothing says that it failed")
    write(folder, {"mpirun.log": ["run.sh: line 31: 4711 Killed                  python train.py"]})
    check_equal(triage(sandbox, folder)[1]["unknown"], True, "the shell does not know who killed it")


@case
def a_last_line_that_is_not_ended(sandbox):
    """It is a line of the log: numbers of lines are counted back from it."""
    for end in ("", "\n"):
        path = os.path.join(sandbox.fresh("logs"), "rank0.log")
        with open(path, "w") as file:
            file.write("\nRuntimeError: no such batch\n====\nbye" + end)
        check_equal(triage(sandbox, path)[1]["causes"][0]["line"], 2, repr(end))


@case
def times_of_several_logs(sandbox):
    folder = sandbox.fresh("logs")
    wait = TIMED_OUT.format(0).replace("E1126 12:10", "E1126 12:11")
    write(folder, {"rank_0.log": ["no date here"] * 9 + [wait], "agent.log": [line.replace("2026", "2019") for line in table(1, 1)],
                   "rank_1.log": [line.replace("2026", "2019") for line in steps(0, 9)]})
    result = triage(sandbox, folder)[1]
    check(all(end["at"] is None or end["at"].startswith("2019") for end in result["ended"]), f"the year of the others: {result['ended']}")
    folder = sandbox.fresh("logs")
    boot = "[  100.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024"
    kill = "[ 9000.000000] Out of memory: Killed process {} (python3) total-vm:9kB, anon-rss:9kB"
    for pid, category in ((4701, "out_of_memory"), (99, None)):
        write(folder, {"rank_0.log": steps(0, 9), "launcher.log": table(1, -9), "dmesg.txt": [boot, kill.format(pid)]})
        causes = triage(sandbox, folder)[1]["causes"]
        check_equal(causes[0]["category"] if causes else None, category, f"without a time only the pid tells whose it was: {pid}")
    folder = sandbox.fresh("logs")
    xid = "[Thu Nov 26 12:00:{} 2026] NVRM: Xid (PCI:0000:1b:00): 119, name=python3, Timeout after 6s of waiting for RPC response from GPU0 GSP!"
    write(folder, {"rank_0.log": ["started"] + [TIMED_OUT.format(0)], "dmesg.txt": [xid.format("09")]})
    check_equal(triage(sandbox, folder)[1]["causes"][0]["category"], "hardware", "when the wait began")


def main():
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        sizes = (1, 2, 8, 64, 1024)

        @case
        def all_types_and_sizes(sandbox):
            total, first, among, ranks = judge_all(
                sandbox, [(kind, size, seed) for seed in range(1) for kind in FAILURES for size in sizes])
            check(first >= 0.9 * total and among >= 0.98 * total, "see above")
    run_main("triage")


UNCAUGHT = ["Traceback (most recent call last):", '  File "train.py", line 3, in step', "KeyError: 'mask'"]
CAUGHT = ["Traceback (most recent call last):", '  File "telemetry.py", line 9, in load',
          "ModuleNotFoundError: No module named 'nvtx_extras'", "Telemetry is off, training continues."]
WATCHDOG = ("[E1126 12:10:0{r}.000000001 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {r}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn={e}, NumelOut={e}, Timeout(ms)=600000)")


def prefixed(prefix, lines):
    return [prefix + line for line in lines]


@case
def whose_line_it_is(sandbox):
    """Prefixes of launchers, and what processes say of themselves."""
    ray = "(RayTrainWorker pid={}, ip=10.0.0.{}) "
    logs = {
        "mpiexec -l": [f"[{r}] {line}" for line in steps(0, 5) for r in (0, 1, 2)] + prefixed("[1] ", UNCAUGHT),
        "srun -l": [f"{r}: {line}" for line in steps(0, 5) for r in (0, 1, 2)] + prefixed("1: ", UNCAUGHT),
        "Open MPI 5": [f"[prterun-n1-7@1,{r}]<stdout>: {line}" for line in steps(0, 5) for r in (0, 1, 2)]
        + prefixed("[prterun-n1-7@1,1]<stderr>: ", UNCAUGHT),
        "Ray": [ray.format(70 + r, r) + f"rank {r} of 3 on n{r}" for r in (0, 1, 2)] + prefixed(ray.format(71, 1), UNCAUGHT),
        "Kubernetes": ["2026-11-26T12:00:01.000000001Z [rank1]: " + line for line in steps(0, 5) + UNCAUGHT],
        "two processes at once": [f"[rank{r}]: {line}" for line in UNCAUGHT for r in (1, 2)],
    }
    for layout, lines in logs.items():
        folder = sandbox.fresh("logs")
        write(folder, {"job.log": lines})
        _, result = triage(sandbox, folder)
        ranks = [1, 2] if layout == "two processes at once" else [1]
        check_equal([(cause["rule"], cause["ranks"]) for cause in result["causes"]], [("python.exception", ranks)], layout)


@case
def what_a_program_lives_with(sandbox):
    done = ["training finished"]
    harmless = {
        "caught": CAUGHT,
        "ignored at the end": ["Exception ignored in: <function Loader.__del__ at 0x7f>", *UNCAUGHT],
        "said in one line": ["ImportError: cannot import name 'fused' from 'apex' -- using the slower one instead"],
        "a warning": ["libibverbs: Warning: couldn't load driver 'x.so': x.so: cannot open shared object file: No such file"],
    }
    for what, lines in harmless.items():
        folder = sandbox.fresh("logs")
        write(folder, {"rank_0.log": steps(0, 30) + done, "rank_1.log": lines + done})
        status, result = triage(sandbox, folder)
        check_equal((status, result["causes"], result["unknown"]), (0, [], False), what)
        write(folder, {"rank_1.log": lines + UNCAUGHT, "launcher.log": table(1, 1)})
        _, result = triage(sandbox, folder)
        check_equal([cause["rule"] for cause in result["causes"]], ["python.exception"], f"{what}, then an end")


@case
def silence_is_no_success(sandbox):
    folder = sandbox.fresh("logs")
    write(folder, {"rank_0.log": steps(0, 30), "rank_1.log": steps(0, 30)})
    status, result = triage(sandbox, folder)
    check_equal((status, result["causes"], result["unknown"]), (1, [], True), "both stop at work")
    write(folder, {"rank_0.log": steps(0, 30) + ["saving the model", "bye"]})
    status, result = triage(sandbox, folder)
    check_equal((status, result["unknown"]), (0, False), "one of them wrapped up")


@case
def who_was_waited_for(sandbox):
    def logs(calls):
        return {f"rank_{r}.log": steps(0, 9) + ([WATCHDOG.format(r=r, n=call[0], e=call[1])] if call else [])
                for r, call in enumerate(calls)}

    cases = {
        "another size": ([(7, 64), (7, 64), (7, 60), (7, 64)], "nccl.another_collective", [2]),
        "an earlier operation": ([(7, 64), (7, 64), (5, 64), (7, 64)], "timeout.watchdog", [2]),
        "nothing": ([(7, 64), (7, 64), None, (7, 64)], "timeout.watchdog", [2]),
        "nobody knows": ([(7, 64), (7, 60)], "timeout.watchdog", [0, 1]),
        "two groups without a name": ([(7, 64), (5000, 64), (7, 64), (5000, 64), (5000, 64)], "timeout.watchdog", [0, 1, 2, 3, 4]),
    }
    for what, (calls, rule, ranks) in cases.items():
        folder = sandbox.fresh("logs")
        write(folder, logs(calls))
        _, result = triage(sandbox, folder)
        check_equal([(cause["rule"], cause["ranks"]) for cause in result["causes"]], [(rule, ranks)], what)


@case
def logs_of_others_beside(sandbox):
    """A scheduler's log and a kernel's log speak of all jobs."""
    folder = sandbox.fresh("logs")
    stamp = "[2026-11-26T12:00:03.000] "
    write(folder, {
        "slurm-4242.out": steps(0, 30) + UNCAUGHT,
        "slurmctld.log": [stamp + "preempted JobId=1717 has been requeued to reclaim resources for JobId=1718"],
        "dmesg-n1.txt": ["[12.000001] Out of memory: Killed process 99 (java) total-vm:1kB, anon-rss:1kB",
                         "[12.000002] mlx5_core 0000:b0:00.1 eth0: Link down"]})
    _, result = triage(sandbox, folder)
    check_equal([cause["rule"] for cause in result["causes"]], ["python.exception"], "another job's")
    write(folder, {"slurmctld.log": [stamp + "preempted JobId=4242 has been requeued to reclaim resources for JobId=1718"]})
    _, result = triage(sandbox, folder)
    check("slurm.preempted" in [cause["rule"] for cause in result["causes"]], f"its own: {result['causes']}")
    dated = os.path.join(sandbox.fresh("logs"), "20261126")
    write(dated, {"rank_0.log": steps(0, 4), "nid000012.log": steps(0, 4),
                  "slurmctld.log": [stamp + "preempted JobId=4242 has been requeued to reclaim resources for JobId=1718"]})
    _, result = triage(sandbox, dated)
    check_equal([cause["rule"] for cause in result["causes"]], ["slurm.preempted"], "the numbers of dates and hosts are no jobs")


@case
def own_files_are_no_logs(sandbox):
    """What ncclwatch wrote beside the boxes quotes the machine, not the job: an old OOM kill of another program."""
    folder = sandbox.fresh("run")
    with open(os.path.join(folder, "rank_0.log"), "w") as file:
        file.write("step 1 loss 2.0\nstep 2 loss 1.9\n")
    oom = "[12.0] Out of memory: Killed process 4711 (chrome) total-vm:123456kB, anon-rss:99999kB\n"
    for name in ("node1.1.2.box", "machine.node1.txt", "diagnosis.txt", "stacks/1.txt", "evidence/rank-0.pid-1.txt"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(oom)
    status, result = triage(sandbox, folder)
    check_equal((status, result["causes"], result["files"]), (0, [], 1), "the job's own log alone")
    os.unlink(os.path.join(folder, "node1.1.2.box"))  # a folder of somebody else's logs that have such names
    status, result = triage(sandbox, folder)
    check(result["files"] > 1, f"without a run directory they are logs: {result}")


if __name__ == "__main__":
    main()
