#!/usr/bin/env python3
"""`ncclwatch bisect` on real failures: memory that runs out, a preload, a hang of softgpu, programs that fail now and then."""

import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, run_main, soak_case  # noqa: E402


def bisect(sandbox, *words, command, env=None):
    argv = [sandbox.build.command, "bisect", "--json", *words, "--", *command]
    done = sandbox.run(argv, sandbox.environment(preload=False, extra=env or {}), timeout=100)
    return done.status, json.loads(done.out) if done.out else None, done


def items_file(sandbox, items):
    path = os.path.join(sandbox.fresh("items"), "items.txt")
    with open(path, "w") as file:
        file.write("# what is tried\n" + "\n".join(items) + "\n")
    return path


@case
def memory_that_runs_out(sandbox):
    """With 200 MiB of address space Python gets a list of n MiB up to a border that plain arithmetic does not know."""
    program = "import sys; data = bytearray(int(sys.argv[1]) << 20); print(len(data))"
    command = ["sh", "-c", "ulimit -v 262144; exec python3 -S -c \"$0\" {n}", program]
    status, result, _ = bisect(sandbox, "--size", "1..1000", command=command)
    good, bad = result["last_good"], result["first_bad"]
    check_equal((status, bad), (0, good + 1), f"{result}")
    check(result["runs"] <= 2 * 10 + 8, f"{result['runs']} runs")
    for n, expected in ((good, 0), (bad, 1)):
        once = subprocess.run([word.replace("{n}", str(n)) for word in command], capture_output=True, check=False)
        check_equal(once.returncode, expected, f"{n} MiB by itself")
    check(any("MemoryError" in line for line in result["at_border"]), f"the output's cause: {result['at_border']}")
    check(any("most memory" in line for line in result["at_border"]), f"{result['at_border']}")


@case
def sizes_that_cannot_be_told(sandbox):
    script = 'test $(({n} % 3)) = 0 || exit 125; test {n} -lt 20'
    status, result, _ = bisect(sandbox, "--size", "3..48", command=["sh", "-c", script])
    check_equal((status, result["last_good"], result["first_bad"]), (0, 18, 21), "gone around")
    status, result, _ = bisect(sandbox, "--size", "8..64", command=["sh", "-c", "test {n} -gt 30"])
    check_equal((result["last_good"], result["first_bad"]), (31, 30), "small sizes fail")
    for command, words in ((["true", "{n}"], "no size from 8 to 64 fails"), (["false", "{n}"], "all sizes from 8 to 64 fail")):
        status, result, _ = bisect(sandbox, "--size", "8..64", command=command)
        check(status == 1 and words in result["why_not"] and result["first_bad"] is None, f"{result}")


@case
def one_item_of_many(sandbox):
    path = items_file(sandbox, [f"layer{i}" for i in range(40)])
    status, result, _ = bisect(sandbox, "--items", path, command=["sh", "-c", 'for one; do test "$one" != layer27 || exit 7; done', "sh", "{items}"])
    check_equal((status, result["culprits"]), (0, ["layer27"]), "as separate words")
    check(result["runs"] <= 2 * 6 + 8, f"{result['runs']} runs")
    status, result, _ = bisect(sandbox, "--items", path, command=["sh", "-c", '! grep -qx layer3 "$NCCLWATCH_ITEMS"'])
    check_equal((status, result["culprits"]), (0, ["layer3"]), "by the file")


@case
def temporary_files(sandbox):
    """They lie below TMPDIR and go with the run. A list that cannot be written accuses no item."""
    path, folder = items_file(sandbox, ["layer1", "layer2", "layer3"]), sandbox.fresh("temporary")
    script = f'case "$NCCLWATCH_ITEMS" in {folder}/*) ;; *) exit 125 ;; esac; ! grep -qx layer3 "$NCCLWATCH_ITEMS"'
    command = ["sh", "-c", script]
    status, result, done = bisect(sandbox, "--items", path, command=command, env={"TMPDIR": folder})
    check_equal((status, result["culprits"]), (0, ["layer3"]), f"{done}")
    check_equal(os.listdir(folder), [], "what is left")
    status, result, done = bisect(sandbox, "--items", path, command=command, env={"TMPDIR": os.path.join(folder, "none")})
    check_equal((status, result["culprits"]), (1, []), f"{done}")
    check("cannot be written to TMPDIR" in done.err, f"{done}")


@case
def hosts(sandbox):
    path = items_file(sandbox, [f"gpu{i:02}" for i in range(16)])
    both = 'case " $* " in *" gpu03 "*|*" gpu11 "*) exit 1;; esac'
    _, result, _ = bisect(sandbox, "--hosts", path, command=["sh", "-c", both, "sh", "{hosts}"])
    check_equal(sorted(result["culprits"]), ["gpu03", "gpu11"], "two bad hosts")
    check_equal(sorted(map(len, result["groups"])), [1, 1], "each by itself")
    together = 'case "{hosts}" in *gpu03*gpu11*) exit 1;; esac'
    _, result, _ = bisect(sandbox, "--hosts", path, command=["sh", "-c", together])
    check_equal(result["groups"], [["gpu03", "gpu11"]], "a link between two hosts")


@case
def variables(sandbox):
    """A preload that is not for this machine makes ld.so complain; other differences do not matter."""
    folder = sandbox.fresh("env")
    broken = os.path.join(folder, "broken.so")
    with open(broken, "w") as file:
        file.write("no library\n")
    with open(folder + "/good.env", "w") as file:
        file.write("NCCL_DEBUG=WARN\nOMP_NUM_THREADS=1\nGONE=1\n")
    with open(folder + "/bad.env", "w") as file:
        file.write(f"NCCL_DEBUG=INFO\nOMP_NUM_THREADS=1\nexport LD_PRELOAD={broken}\nNCCL_ALGO=Tree\nOTHER=1\n")
    status, result, _ = bisect(sandbox, "--env", folder + "/good.env", folder + "/bad.env",
                               command=["sh", "-c", 'test -z "$(ls /dev/null 2>&1 >/dev/null)"'])
    check_equal((status, result["culprits"]), (0, [f"LD_PRELOAD={broken}"]), f"{result['observations']}")
    status, result, _ = bisect(sandbox, "--env", folder + "/good.env", folder + "/bad.env", command=["sh", "-c", 'test -n "$GONE"'])
    check_equal(result["culprits"], ["no GONE"], "what is missing")
    check_equal(bisect(sandbox, "--env", folder + "/good.env", folder + "/good.env", command=["true"])[0], 2, "no difference")


@case
def failures_now_and_then(sandbox):
    """It fails in four of five runs where it can."""
    counter = os.path.join(sandbox.fresh("counter"), "n")
    script = f'echo >>{counter}; runs=$(wc -l <{counter}); test {{n}} -lt 37 || test $((runs * 7 % 5)) = 0'
    status, result, _ = bisect(sandbox, "--size", "1..100", "--flaky", "20%", command=["sh", "-c", script])
    check_equal((status, result["last_good"], result["first_bad"]), (0, 36, 37), f"{result['runs']} runs")
    check(result["confidence"] >= 0.95, f"{result['confidence']}")


@case
def goes_on_where_it_was_stopped(sandbox):
    folder = sandbox.fresh("state")
    state, log = folder + "/state.jsonl", folder + "/log"
    command = ["sh", "-c", f"echo {{n}} >>{log}; test $(wc -l <{log}) -ne 5 || kill -9 $PPID; test {{n}} -lt 600"]
    argv = [sandbox.build.command, "bisect", "--json", "--state", state, "--size", "1..1000", "--", *command]
    first = sandbox.run(argv, sandbox.environment(preload=False), timeout=60)
    check_equal(first.status, -9, "it was killed")
    second = sandbox.run(argv, sandbox.environment(preload=False), timeout=60)
    result = json.loads(second.out)
    with open(log) as file:
        runs = [int(line) for line in file]
    check_equal((result["last_good"], result["first_bad"]), (599, 600), "found")
    check_equal(len(runs), result["runs"] + 1, "nothing is run again but what was not done")
    check_equal(bisect(sandbox, "--state", state, "--size", "1..999", command=command)[0], 3, "the state of another search")


@case
def time_limit(sandbox):
    """Descendants that leave the process group are ended too."""
    mark = os.path.join(sandbox.fresh("mark"), "alive")
    script = f"test {{n}} -lt 5 || {{ setsid sh -c 'while :; do echo >>{mark}; sleep 0.05; done' & sleep 1000; }}"
    status, result, _ = bisect(sandbox, "--size", "1..8", "--timeout", "1s", command=["sh", "-c", script])
    check_equal((status, result["last_good"], result["first_bad"]), (0, 4, 5), f"{result}")
    check(all(one["timed_out"] == (one["outcome"] == "bad") for one in result["observations"]), f"{result['observations']}")
    size = os.path.getsize(mark)
    time.sleep(0.3)
    check_equal(os.path.getsize(mark), size, "nothing is left running")


@soak_case
def hang_of_softgpu(sandbox):
    """An example hangs from a step on: the time limit has ncclwatch's diagnosis with it."""
    example = os.path.join(sandbox.build.root, "examples", "stuck_data_loader")
    if not os.path.exists(example):
        raise Skipped("the examples are not built")
    launch = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "2", "--", example, "--rank", "1", "--step", "40", "--step-ms", "1", "--steps", "{n}"]
    command = [sandbox.build.command, "run", "--timeout", "1", "--", *launch]
    status, result, done = bisect(sandbox, "--size", "32..48", "--timeout", "6s", command=command, env={"TMPDIR": sandbox.path})
    check_equal(status, 0, f"{done}")
    check(abs(result["first_bad"] - 41) <= 1, f"{result['first_bad']}")
    bad = [one for one in result["observations"] if one["outcome"] == "bad"]
    check(any("stall" in one["diagnosis"] or "frozen" in one["diagnosis"] or "missing" in one["diagnosis"] for one in bad), f"{bad}")


@case
def replay_on_the_model(sandbox):
    """The test may be a replay: with how many calls dropped does it hang?"""
    if not shutil.which("mpicc.openmpi"):
        raise Skipped("no Open MPI here")
    recording = sandbox.fresh("recording")
    program = os.path.join(sandbox.path, "steps")
    subprocess.run(["mpicc.openmpi", "-O1", os.path.join(HERE, "..", "slow", "programs", "steps.c"), "-o", program], check=True)
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2", program, "30", "1000", "0", "30", "0", "sleep"]
    done = sandbox.run([sandbox.build.command, "run", "--record", recording, "--", *argv], sandbox.environment(preload=False, extra={"LD_LIBRARY_PATH": ""}), timeout=60)
    check_equal(done.status, 0, f"{done}")
    script = f'{sandbox.build.command} replay {recording} $(test {{n}} -lt 12 || echo --drop rank=1:20)'
    status, result, done = bisect(sandbox, "--size", "1..30", command=["sh", "-c", script])
    check_equal((status, result["last_good"], result["first_bad"]), (0, 11, 12), f"{done}")
    check_equal({one["status"] for one in result["observations"]}, {0, 1}, "the replay stops, it is not refused")


if __name__ == "__main__":
    run_main("bisect")
