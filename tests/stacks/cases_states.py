"""Processes that cannot be read like others, and what is said of them."""

import os
import shutil
import signal
import subprocess
import time

from common import Skipped, bench_case, check, check_equal, functions, short, state_of, stop, thread_named, until


def said(process):
    return "\n".join(process["state"] + process["figures"])


@bench_case
def stopped_by_a_signal(bench):
    with bench.start("stuck_threads", "threads=20") as target:
        stop(target.pid)
        os.waitpid(target.pid, os.WUNTRACED)  # the one stop that its parent is told of
        process = bench.one(target.pid)
        check("stopped by a signal" in process["state"][0], said(process))
        check_equal({state_of(target.pid, thread["tid"]) for thread in process["threads"]}, {"T"}, "still stopped")
        check_equal(os.waitpid(target.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED), (0, 0), "waitpid")
        for name in ("poll", "spin"):
            names = [short(function) for function in functions(thread_named(process, name))]
            check("ThreadMain" in names, f"{name}: {names}")
        os.kill(target.pid, signal.SIGCONT)
        until(lambda: state_of(target.pid) != "T", "it goes on")


@bench_case
def held_by_a_debugger(bench):
    if not shutil.which("gdb"):
        raise Skipped("no gdb")
    with bench.start("stuck_threads", "threads=9") as target:
        debugger = subprocess.Popen(["gdb", "-nx", "-q", "-p", str(target.pid)], stdin=subprocess.PIPE,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: state_of(target.pid) == "t", "gdb holds it", 60)
            process = bench.one(target.pid)
            check("stopped by a debugger" in process["state"][0] and "gdb" in process["state"][0], said(process))
            names = [short(function) for function in functions(thread_named(process, "poll"))]
            check("WaitInPoll" in names, f"{names}")
        finally:
            debugger.kill()
            debugger.wait()
            debugger.stdin.close()


@bench_case
def stuck_in_the_kernel(bench):
    with bench.start("odd_threads", "vfork") as target:
        until(lambda: state_of(target.pid) == "D", "it waits in vfork")
        process = bench.one(target.pid)
        check("stuck in the kernel (uninterruptible) in vfork" in process["state"][0], said(process))
        check("WaitForVfork" in [short(name) for name in functions(process["threads"][0])], f"{process['threads'][0]}")


@bench_case
def ended_but_not_waited_for(bench):
    child = subprocess.Popen(["true"])
    until(lambda: state_of(child.pid) == "Z", "it has ended")
    process = bench.one(child.pid, status=3)
    check("zombie" in process["trouble"], process["trouble"])
    child.wait()
    process = bench.one(child.pid, status=3)
    check_equal(process["trouble"], "there is no such process", "trouble")
    check("no such process" in bench.run(child.pid).stderr, "it is said on stderr")


@bench_case
def others_are_read_though_one_is_gone(bench):
    with bench.start("odd_threads", "mutex") as target:
        child = subprocess.Popen(["true"])
        child.wait()
        gone, there = bench.read(child.pid, target.pid, status=3)
        check_equal([gone["threads"], there["trouble"]], [[], None], "the one and the other")


@bench_case
def the_main_thread_has_ended(bench):
    with bench.start("odd_threads", "leader") as target:
        process = bench.one(target.pid)
        leader, survivor = process["threads"][0], thread_named(process, "survivor")
        check_equal([leader["tid"], leader["state"]], [target.pid, "Z"], "the leader")
        check("UntilTheEnd" in [short(name) for name in functions(survivor)], f"{survivor}")


@bench_case
def somebody_elses(bench):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("needs root and setpriv")
    folder = bench.sandbox.fresh("other")
    for path in (bench.sandbox.path, folder):
        os.chmod(path, 0o755)
    command = shutil.copy(bench.command, folder)
    bench.command = command
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with bench.start("odd_threads", "mutex") as target:
        process = bench.one(target.pid, status=3, prefix=nobody)
        check_equal(process["trouble"], "it belongs to another user (uid 0)", "trouble")
        check(len(process["threads"]) == 3 and "memory:" in said(process), f"what /proc still tells: {process}")


@bench_case
def calls_that_a_container_forbids(bench):
    forbidden = bench.build.program("stacks", "forbidden")
    bench.build.need(forbidden)
    with bench.start("stuck_threads", "threads=20") as target:
        process = bench.one(target.pid, prefix=[forbidden, "process_vm_readv"])
        check("ThreadMain" in [short(name) for name in functions(thread_named(process, "spin"))], f"{process['threads']}")
        process = bench.one(target.pid, prefix=[forbidden, "ptrace,process_vm_readv"])
        check("ThreadMain" in [short(name) for name in functions(thread_named(process, "poll"))], "those that sleep")
        spin = thread_named(process, "spin")
        check_equal([spin["frames"], spin["trouble"]], [[], "it cannot be stopped: Operation not permitted"], "spin")


@bench_case
def a_kernel_thread(bench):
    if not os.path.exists("/proc/2/stat") or os.readlink("/proc/self/ns/pid") == "" or state_of(2) is None:
        raise Skipped("no kernel threads here")
    with open("/proc/2/comm") as file:
        if file.read().strip() != "kthreadd":
            raise Skipped("no kernel threads here")
    check(bench.one(2, status=3)["trouble"], "trouble")


LOADER = """
import multiprocessing, os, sys, time
def load(queue, first):
    first.put(1)
    time.sleep(1000)
def next_batch(): return queue.get()
def train():
    while True: next_batch()
multiprocessing.set_start_method("fork")
queue, first = multiprocessing.Queue(), multiprocessing.Queue()
worker = multiprocessing.Process(target=load, args=(queue, first), daemon=True)
worker.start()
first.get()
print("ready", os.getpid(), worker.pid, flush=True)
train()
"""


@bench_case
def a_data_loader_worker_and_how_it_is(bench):
    with bench.python(LOADER) as target:
        worker = int(open(f"/proc/{target.pid}/task/{target.pid}/children").read())
        until(lambda: "next_batch" in str(bench.one(target.pid)["where"]), "it waits")
        try:
            process = bench.one(target.pid)
            check(process["where"][0].startswith("next_batch (train.py:6) in "), process["where"])
            check(f"is child pid {worker} " in process["state"][0] and "(sleeping)" in process["state"][0], said(process))
            stop(worker)
            process = bench.one(target.pid)
            check(f"is child pid {worker} " in process["state"][0] and "(stopped by a signal)" in process["state"][0],
                  said(process))
        finally:
            os.kill(worker, signal.SIGKILL)
        until(lambda: state_of(worker) == "Z", "the worker is dead")
        process = bench.one(target.pid)
        check("nobody but this process itself has the writer's end" in process["state"][0] and
              f"child pid {worker} " in process["state"][0] and "ended" in process["state"][0], said(process))


CONNECTED = """
import os, socket, sys
kind = sys.argv[1]
if kind == "unix":
    ours, theirs = socket.socketpair()
else:
    server = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(server.getsockname())
    theirs, _ = server.accept()
    server.close()
child = os.fork()
if child == 0:
    ours.close()
    print("ready", os.getppid(), flush=True)
    sys.stdin.read()
    os._exit(0)
theirs.close()
ours.recv(1)
os._exit(0)
"""


@bench_case
def who_is_at_the_other_end_of_a_socket(bench):
    for kind in ("unix", "tcp"):
        with bench.python(CONNECTED, kind) as target:
            until(lambda: "recv" in str(bench.one(target.pid)["threads"][0]["call"]), "it waits")
            process = bench.one(target.pid)
            child = int(open(f"/proc/{target.pid}/task/{target.pid}/children").read())
            check(f"is with child pid {child} " in process["state"][0], f"{kind}: {said(process)}")
            if kind == "tcp":
                check("TCP socket to 127.0.0.1:" in process["threads"][0]["call"], process["threads"][0]["call"])
            target.end()


@bench_case
def the_limit_holds(bench):
    targets = [bench.start("stuck_threads", "threads=50") for _ in range(4)]
    try:
        begun = time.monotonic()
        done = bench.run("--limit", "0.01", *[target.pid for target in targets])
        spent = time.monotonic() - begun
        check(done.returncode in (0, 3), f"{done}")
        check(done.returncode == 0 or "no time left" in done.stderr, f"{done}")
        check(spent < 3, f"{spent} s")
    finally:
        for target in targets:
            target.__exit__()
