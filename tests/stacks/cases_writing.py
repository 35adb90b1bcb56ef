"""What is printed, and the files that a verdict is completed from."""

import os
import re

from common import bench_case, check, check_equal


def head_of(path):
    with open(path) as file:
        lines = file.read().split("\n\n", 1)[0].splitlines()
    return lines


@bench_case
def files_for_the_watchdog(bench):
    folder = os.path.join(bench.sandbox.fresh("into"), "stacks")
    with bench.start("odd_threads", "mutex") as first, bench.start("stuck_threads", "threads=5") as second:
        waiter = next(int(tid) for tid in os.listdir(f"/proc/{first.pid}/task")
                      if open(f"/proc/{first.pid}/task/{tid}/comm").read() == "waiter\n")
        done = bench.run("--into", folder, "--thread", f"{first.pid}:{waiter}", "--rank", f"{first.pid}:3", first.pid,
                         second.pid)
        check_equal([done.returncode, done.stdout, done.stderr], [0, "", ""], "quiet")
        check_equal(sorted(os.listdir(folder)), sorted([f"{first.pid}.txt", f"{second.pid}.txt", "merged.txt"]), "files")
        start = open(f"/proc/{first.pid}/stat").read().rsplit(")", 1)[1].split()[19]
    lines = head_of(os.path.join(folder, f"{first.pid}.txt"))
    check_equal(lines[0], "ncclwatch.stacks/1", "first line")
    check(re.fullmatch(rf"process pid {first.pid} start {start} rank 3 host \S+ at_ns \d+", lines[1]), lines[1])
    where = [line[6:] for line in lines if line.startswith("where ")]
    check(where[0].startswith("pthread_mutex_lock") and "WaitForMutex" in where[1], f"{where}")
    check(any(line.startswith(f"state thread {waiter} 'waiter'") and "holds" in line for line in lines), f"{lines}")
    check(all(line.split()[0] in ("state", "figure", "where") for line in lines[2:]), f"{lines}")
    check("rank -1" in head_of(os.path.join(folder, f"{second.pid}.txt"))[1], "a rank that is not known")
    merged = open(os.path.join(folder, "merged.txt")).read()
    check("rank 3 (1)" in merged and f"pid {second.pid} (1)" in merged, merged)


@bench_case
def many_ranks_read_as_a_few_lines(bench):
    targets = [bench.start("odd_threads", "mutex" if rank == 2 else "signal") for rank in range(8)]
    try:
        words = []
        for rank, target in enumerate(targets):
            words += ["--rank", f"{target.pid}:{rank}", target.pid]
        done = bench.run(*words)
        check_equal(done.returncode, 0, f"{done}")
        check("ranks 0,1,3-7 (7)" in done.stdout and "rank 2 (1)" in done.stdout, done.stdout)
        check(len(done.stdout.splitlines()) < 40, done.stdout)
    finally:
        for target in targets:
            target.__exit__()


@bench_case
def ranks_by_the_launchers_environment(bench):
    from common import Target
    with Target([bench.build.program("stacks", "odd_threads"), "mutex"],
                {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}) as target:
        check_equal(bench.one(target.pid)["rank"], 5, "rank")


@bench_case
def each_by_itself(bench):
    with bench.start("odd_threads", "mutex") as target:
        folded, full = bench.run("--each", target.pid).stdout, bench.run("--full", target.pid).stdout
    check("[thread start]" in folded and "+0x" not in folded.replace("libc.so.6+0x", ""), folded)
    check(re.search(r"^  #0 \S+  \S+\+0x[0-9a-f]+$", full, re.M), full)
    check("[thread start]" not in full, full)


@bench_case
def mistakes_are_usage(bench):
    for words in [["--nonsense"], ["--thread", "5", "1"], ["--rank", "1:x", "1"], ["--limit", "soon", "1"], ["--limit", "0"]]:
        done = bench.run(*words)
        check_equal(done.returncode, 2, f"{words}: {done}")
    for words in [["/nonexistent"], [bench.sandbox.fresh("empty")]]:
        done = bench.run(*words)
        check_equal(done.returncode, 3, f"{words}: {done}")
        check(done.stderr.startswith("ncclwatch"), f"{done}")


@bench_case
def what_cannot_be_written_is_said(bench):
    with bench.start("odd_threads", "mutex") as target:
        done = bench.run("--into", "/proc/nowhere", target.pid)
        check_equal(done.returncode, 3, f"{done}")
        check("/proc/nowhere" in done.stderr, f"{done}")
