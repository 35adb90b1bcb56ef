"""What is read is what is there, and reading it shows nowhere."""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from common import (Skipped, bench_case, check, check_equal, clean_environment, functions, gdb_stacks, short, state_of,
                    thread_named, until)

WAITS = {"futex": "WaitInFutex", "condition": "WaitInCondition", "poll": "WaitInPoll", "read": "WaitInRead",
         "nanosleep": "WaitInNanosleep", "epoll": "WaitInEpoll", "recv": "WaitInRecv", "semtimedop": "WaitInSemtimedop",
         "sigtimedwait": "WaitInSigtimedwait", "spin": "Spin"}
# A thousand by hand: NCCLWATCH_TEST_DUMPS=1000 python3 tests/stacks/run.py --build build/release no_call_is_interrupted
DUMPS = int(os.environ.get("NCCLWATCH_TEST_DUMPS", "20"))
BELOW = ["WaitOften", "Deeper", "Deeper", "Deeper", "Deeper", "ThreadMain"]


def check_waits(process, count):
    threads = [thread for thread in process["threads"] if thread["name"] in WAITS]
    check_equal(len(threads), count, "threads")
    for thread in threads:
        names = [short(name) for name in functions(thread)]
        at = names.index(WAITS[thread["name"]]) if WAITS[thread["name"]] in names else None
        check(at is not None and names[at + 1:at + 7] == BELOW, f"{thread['name']}: {names} {thread['trouble']}")
        check(thread["trouble"] is None, f"{thread['name']}: {thread['trouble']}")


@bench_case
def fifty_threads_are_read_and_named(bench):
    with bench.start("stuck_threads", "threads=50") as target:
        target.rest(awake="spin")
        process = bench.one(target.pid)
        check_waits(process, 50)
        reads = {thread["name"]: thread["read"] for thread in process["threads"]}
        check_equal({name: how for name, how in reads.items() if name in WAITS},
                    {name: "stopped" if name == "spin" else "sleeping" for name in WAITS}, "how they were read")
        calls = {thread["name"]: thread["call"] for thread in process["threads"]}
        check_equal(calls["read"], "read(3: pipe)", "call")
        check(calls["futex"].startswith("futex(wait"), calls["futex"])
        check(calls["epoll"].startswith("epoll_wait("), calls["epoll"])
        check_equal(calls["recv"], "recvfrom(5: Unix socket)", "call")
        check_equal(calls["spin"], None, "call")


@bench_case
def with_frame_pointers_too(bench):
    with bench.start("stuck_threads_framed", "threads=20") as target:
        process = bench.one(target.pid)
        check_waits(process, 20)
        # What may not be stopped is not, though its frame pointer is not known.
        for thread in process["threads"]:
            if thread["name"] in ("epoll", "semtimedop", "recv", "sigtimedwait"):
                check(thread["read"] in ("sleeping", "partly"), f"{thread['name']} was {thread['read']}")


@bench_case
def no_call_is_interrupted(bench):
    for program in ("stuck_threads", "stuck_threads_framed"):
        for period in ("period=0", "period=5"):
            how = collections.Counter()  # of those that wait
            with bench.start(program, "threads=30", period) as target:
                for _ in range(DUMPS):
                    how.update(thread["read"] for thread in bench.one(target.pid)["threads"]
                               if thread["name"] in WAITS and thread["name"] != "spin")
                counts = json.loads(target.end())
            print(f"{program} {period}: {dict(how)}, "
                  f"calls that returned: {sum(count['returned'] for count in counts.values())}")
            interrupted = {name: count["interrupted"] for name, count in counts.items() if count["interrupted"]}
            check_equal(interrupted, {}, f"{program} {period}: calls that were told of an interruption")
            if period == "period=5":
                check(counts["epoll"]["returned"] > 0 and counts["recv"]["returned"] > 0, "they went on")


@bench_case
def the_same_addresses_as_gdb(bench):
    for program in ("stuck_threads", "stuck_threads_framed"):
        with bench.start(program, "threads=18", "kinds=" + ",".join(name for name in WAITS if name != "spin")) as target:
            target.rest(awake="none")
            process = bench.one(target.pid)
            expected = gdb_stacks(bench.sandbox, target.pid)
        check_equal(sorted(thread["tid"] for thread in process["threads"]), sorted(expected), "threads")
        for thread in process["threads"]:
            ours = [frame["address"] for frame in thread["frames"]]
            check_equal([hex(a) for a in ours], [hex(pc) for pc, _ in expected[thread["tid"]]], f"{thread['name']}")
            for frame, (_, name) in zip(thread["frames"], expected[thread["tid"]]):
                if frame["module"] and frame["module"].endswith(program):
                    check_equal(short(frame["function"]), short(name), f"{thread['name']}: name")


PYTHON = """
import os, select, sys, threading, time
def inner(): select.select([sys.stdin], [], [])
def outer(): inner()
def worker(): time.sleep(1000)
threading.Thread(target=worker, daemon=True).start()
time.sleep(0.1)
print("ready", os.getpid(), flush=True)
outer()
os._exit(0)
"""


@bench_case
def python_and_native_frames_together(bench):
    with bench.python(PYTHON) as target:
        until(lambda: bench.one(target.pid)["threads"][0]["call"].startswith(("select", "pselect")), "it waits")
        process = bench.one(target.pid)
        expected = gdb_stacks(bench.sandbox, target.pid)
    main = process["threads"][0]
    check_equal(main["tid"], target.pid, "the main thread first")
    python = [(frame["function"], frame["line"]) for frame in main["frames"] if frame["kind"] == "python"]
    check_equal(python, [("inner", 3), ("outer", 4), ("<module>", 9)], "Python frames")
    check(process["where"][0].startswith("inner (train.py:3) in "), process["where"])
    check_equal(process["where"][1:], ["outer (train.py:4)", "<module> (train.py:9)"], "where")
    for thread in process["threads"]:
        ours = [frame["address"] for frame in thread["frames"] if frame["kind"] == "native"]
        theirs = [pc for pc, name in expected[thread["tid"]] if not name.startswith("_PyEval_EvalFrameDefault")]
        check_equal([hex(a) for a in ours], [hex(pc) for pc in theirs], f"native frames of {thread['tid']}")
    check(any("worker" in functions(thread) for thread in process["threads"][1:]), "the other thread's Python frames")


@bench_case
def a_signal_handler_on_another_stack(bench):
    with bench.start("odd_threads", "signal") as target:
        names = [short(name) for name in functions(bench.one(target.pid)["threads"][0])]
    wanted = ["UntilTheEnd", "InsideHandler", "Handler", "Interrupted", "SignalOnAnotherStack", "main"]
    check_equal([name for name in names if name in wanted], wanted, f"frames {names}")


@bench_case
def deep_recursion_is_cut_and_folded(bench):
    with bench.start("odd_threads", "deep") as target:
        thread = bench.one(target.pid)["threads"][0]
        text = bench.run(target.pid).stdout
    check_equal(len(thread["frames"]), 512, "frames")
    check(thread["cut"], "it is not said that there are more")
    check(re.search(r"Recurse \(odd_threads\) \[\d+ times\]", text), text)
    check(len(text.splitlines()) < 20, text)


@bench_case
def deleted_files_keep_their_names(bench):
    folder = bench.sandbox.fresh("deleted")
    for name in ("odd_threads", "waiting_library.so"):
        shutil.copy(bench.build.program("stacks", name), folder)
    library = os.path.join(folder, "waiting_library.so")
    target = bench.start_at(os.path.join(folder, "odd_threads"), "library", library)
    with target:
        os.unlink(library)
        os.unlink(os.path.join(folder, "odd_threads"))
        names = [short(name) for name in functions(bench.one(target.pid)["threads"][0])]
    for name in ("Wait", "WaitInsideLibrary", "WaitInLibrary", "main"):
        check(name in names, f"{name} is missing: {names}")


@bench_case
def a_mutex_and_who_holds_it(bench):
    with bench.start("odd_threads", "mutex") as target:
        process = bench.one(target.pid)
        waiter, holder = thread_named(process, "waiter"), thread_named(process, "holder")
        check("WaitForMutex" in [short(name) for name in functions(waiter)], f"{waiter}")
        check(f"thread {holder['tid']} 'holder' holds" in (waiter["waits_on"] or ""), f"{waiter['waits_on']}")


@bench_case
def threads_that_come_and_go(bench):
    with bench.start("odd_threads", "churn") as target:
        for _ in range(DUMPS):
            process = bench.one(target.pid)
            check(functions(process["threads"][0])[0] == "read", f"{process['threads'][0]}")
        check_equal(target.popen.poll(), None, "it lives")


@bench_case
def threads_with_numbers_below_their_process(bench):
    """Numbers start again at the highest one: a short-lived thread may have a lower one than its process."""
    if os.geteuid() != 0:
        raise Skipped("needs a namespace of process ids of its own")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "low_numbers.py")
    program = bench.build.program("stacks", "odd_threads")
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", sys.executable, script, bench.command, program,
                           str(DUMPS)], capture_output=True, text=True, timeout=100, env=clean_environment())
    if done.returncode == 77:
        raise Skipped(done.stderr.strip())
    check_equal(done.returncode, 0, f"status: {done.stderr}")
    processes = [json.loads(line)["processes"][0] for line in done.stdout.splitlines()]
    check(any(thread["tid"] < process["pid"] for process in processes for thread in process["threads"]), "no lower one")
    for process in processes:
        check_equal(functions(process["threads"][0])[:1], ["read"], f"{process}")


@bench_case
def processes_that_end_meanwhile(bench):
    for i in range(DUMPS):
        with bench.start("stuck_threads", "threads=10") as target:
            reading = subprocess.Popen([bench.command, "stacks", str(target.pid)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
            time.sleep(i * 0.0005)
            target.popen.kill()
            said = reading.communicate(timeout=30)[1]
            check(reading.returncode in (0, 3), f"status {reading.returncode}: {said}")
            target.popen.wait(20)


@bench_case
def the_command_may_be_killed_at_any_time(bench):
    with bench.start("stuck_threads", "threads=10", "kinds=spin,poll") as target:
        os.sched_setaffinity(target.pid, {min(os.sched_getaffinity(0))})
        for i in range(3 * DUMPS):
            reading = subprocess.Popen([bench.command, "stacks", str(target.pid)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(i * 0.0005)
            reading.send_signal(signal.SIGKILL)
            reading.wait(20)
            # Not even for the moment that it was in: nothing of it is stopped, nobody traces it.
            states = {state_of(target.pid, tid) for tid in os.listdir(f"/proc/{target.pid}/task")}
            check(states <= {"R", "S"}, f"states {states}")
        with open(f"/proc/{target.pid}/status") as status:
            check("TracerPid:\t0\n" in status.read(), "still traced")
        check(json.loads(target.end())["spin"]["returned"] >= 0, "it ended as it was told")


@bench_case
def the_parent_sees_nothing(bench):
    with bench.start("stuck_threads", "threads=20") as target:
        for _ in range(DUMPS):
            bench.one(target.pid)
            check_equal(os.waitpid(target.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED), (0, 0), "waitpid")


@bench_case
def it_takes_little_time(bench):
    """The bound in the project's table is 50 ms on an idle machine; others may be at work on this one."""
    with bench.start("stuck_threads", "threads=50", "kinds=futex,poll,read,nanosleep,condition") as target:
        best = 10.0
        for _ in range(10):
            before = os.times()
            begun = time.monotonic()
            bench.one(target.pid)
            spent = time.monotonic() - begun
            after = os.times()
            used = after.children_user + after.children_system - before.children_user - before.children_system
            best = min(best, max(spent if spent < 0.05 else used, used))
        print(f"50 threads: {best * 1000:.0f} ms")
        check(best <= 0.05 or bench.build.sanitizer, f"{best * 1000:.0f} ms of a processor")
