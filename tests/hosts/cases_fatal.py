"""Fatal signals: status, core, handlers, stacks and output as without the library, and what the black box says of them."""

import os
import re
import resource
import shutil
import signal
import subprocess
import time

from common import both, program
from harness import Skipped, case, check, check_equal
from words import CRASHING, EXITING, RUNNING, Box

# What: (signal, si_code).
RAISED = {"null": (signal.SIGSEGV, 1), "wild": (signal.SIGSEGV, 0x80), "segv-raise": (signal.SIGSEGV, -6),
          "segv-kill": (signal.SIGSEGV, 0), "segv-queue": (signal.SIGSEGV, -1), "abort": (signal.SIGABRT, -6),
          "bus": (signal.SIGBUS, 2), "divide": (signal.SIGFPE, 1), "illegal": (signal.SIGILL, 2),
          "breakpoint": (signal.SIGTRAP, 0x80), "forbidden": (signal.SIGSYS, 1)}
SENT = ("segv-raise", "segv-kill", "segv-queue", "abort")


def run(sandbox, what, how, expected, **options):
    if what == "divide" and os.uname().machine != "x86_64":
        raise Skipped("a division by zero is no fault on this processor")
    return both(sandbox, [program(sandbox, "fatal"), what, how], expected, quiet=expected >= 0, **options)


def box_of(job):
    boxes = job.boxes()
    check_equal(len(boxes), 1, "black boxes")
    return Box(boxes[0])


def functions(frames, executable):
    """Names of the functions that the frames lie in, inlined ones too, by addr2line, which knows nothing of us."""
    if not shutil.which("addr2line"):
        raise Skipped("no addr2line here")
    names = []
    for frame in frames:
        if os.path.realpath(frame["module"]) != os.path.realpath(executable):
            continue
        done = subprocess.run(["addr2line", "-i", "-f", "-C", "-e", executable, hex(frame["offset"])], capture_output=True,
                              text=True)
        names += done.stdout.splitlines()[::2]
    return names


def register_default(what):
    def test(sandbox):
        number, code = RAISED[what]
        job = run(sandbox, what, "nobody", -number)
        box = box_of(job)
        check_equal((box.state, box.signal), (CRASHING, number), "state and signal in the last words")
        check_equal(len(box.signals()), 1, "signals written down")
        said, = box.signals()
        if what not in ("breakpoint",):
            check_equal(said["code"], code, "si_code")
        check_equal((said["signal"], said["handled"], said["overflow"]), (number, False, False), "signal and flags")
        check_equal(said["name"], "fatal", "name of the thread")
        check_equal(said["fault"] != 0, what in ("bus", "divide", "illegal", "forbidden"), "a fault address is told")
        check_equal(bool(said["sender"]), what in SENT, "sender")
        called = functions(said["frames"], program(sandbox, "fatal"))
        check(any("Happen" in name for name in called) and "main" in called, f"frames {called} of {said['frames']}")

    test.__name__ = f"fatal_{what.replace('-', '_')}_at_its_default"
    case(test)


for raised in RAISED:
    register_default(raised)


@case
def fatal_signals_of_handlers_before_ours(sandbox):
    for what in ("null", "abort", "bus", "segv-raise", "segv-kill", "divide"):
        number, _ = RAISED[what]
        for how in ("leaves", "explains", "alternate"):
            job = run(sandbox, what, how, 40 if how == "leaves" else 41)
            box = box_of(job)
            check_equal(box.state, EXITING, f"state after {what} that {how}")
            said, = box.signals()
            check_equal((said["signal"], said["handled"]), (number, True), f"{what} that {how}")


@case
def fatal_signals_of_handlers_after_ours(sandbox):
    for what in ("null", "abort", "bus", "segv-raise"):
        for how, status in (("late", 40), ("late-explains", 41)):
            box = box_of(run(sandbox, what, how, status))
            check_equal((box.state, box.signals()), (EXITING, []), f"{what}, {how}: theirs has replaced ours")


@case
def fatal_handlers_that_call_the_one_before(sandbox):
    for what in ("null", "abort", "segv-raise", "bus"):
        number, _ = RAISED[what]
        box = box_of(run(sandbox, what, "passes-on", -number))
        check_equal((box.state, [s["signal"] for s in box.signals()]), (CRASHING, [number]), what)


@case
def fatal_handlers_that_reset_themselves(sandbox):
    """SA_RESETHAND: the handler returns, the instruction runs again, and now it is the default's turn."""
    for what in ("null", "bus", "divide"):
        number, _ = RAISED[what]
        box = box_of(run(sandbox, what, "reset", -number))
        check_equal([(s["signal"], s["handled"]) for s in box.signals()], [(number, True)], what)
    box_of(run(sandbox, "segv-raise", "reset", 42))


@case
def fatal_handlers_that_return(sandbox):
    for what in ("segv-raise", "segv-kill", "segv-queue"):
        box = box_of(run(sandbox, what, "returns", 42))
        check_equal([s["handled"] for s in box.signals()], [True], what)
    check_equal(box_of(run(sandbox, "abort", "returns", -signal.SIGABRT)).signals()[-1]["signal"], signal.SIGABRT, "abort")


@case
def fatal_handlers_that_jump_out(sandbox):
    """Forty times: a program that lives with its signals. The box keeps the newest, and recording goes on."""
    for what in ("null", "bus", "segv-raise"):
        job = run(sandbox, what, "jumps", 42)
        box = box_of(job)
        check_equal((box.state, [s["handled"] for s in box.signals()]), (EXITING, [True, True]), what)
        check_equal([c["count"] for c in job.calls() if c["op"] == "AllReduce"], [61, 62], "calls recorded")


@case
def fatal_signals_that_are_ignored(sandbox):
    for what, status in (("segv-raise", 42), ("null", -signal.SIGSEGV), ("abort", -signal.SIGABRT)):
        check_equal(box_of(run(sandbox, what, "ignored", status)).catching, 1, what)


@case
def fatal_signals_on_an_alternate_stack_without_a_handler(sandbox):
    for stack in ("stack-only", "small-stack"):
        for what in ("null", "abort", "bus"):
            said, = box_of(run(sandbox, what, stack, -RAISED[what][0])).signals()
            check(len(said["frames"]) > 2, f"frames {said['frames']}")


@case
def fatal_stack_overflow(sandbox):
    """Without a stack for the handler nobody can run; with one the box says what it was."""
    box = box_of(run(sandbox, "overflow", "nobody", -signal.SIGSEGV))
    check_equal((box.state, box.signals(), box.catching), (RUNNING, [], 1), "no words without a stack")
    said, = box_of(run(sandbox, "overflow", "stack-only", -signal.SIGSEGV)).signals()
    check_equal((said["overflow"], len(said["frames"])), (True, 24), "overflow")
    said, = box_of(run(sandbox, "overflow", "alternate", 41)).signals()
    check_equal((said["overflow"], said["handled"]), (True, True), "overflow with a handler of its own")


@case
def fatal_signal_in_a_fork_child(sandbox):
    """The child's end is the child's: the parent lives on and its box says nothing of it."""
    for what in ("null", "abort", "bus", "segv-kill"):
        box = box_of(run(sandbox, what, "child", 42))
        check_equal((box.state, box.signals()), (EXITING, []), what)


@case
def fatal_signals_in_two_threads_at_once(sandbox):
    for what in ("null", "abort", "segv-raise"):
        for _ in range(4):
            box = box_of(run(sandbox, what, "threads", -RAISED[what][0]))
            check_equal((box.state, box.signal), (CRASHING, RAISED[what][0]), what)
            check(box.signals(), "one of the two was to be written down whole")


def raw_status(argv, env, cwd):
    """The wait status as a parent sees it, with its core bit."""
    pid = os.fork()
    if pid == 0:
        os.chdir(cwd)
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        out = os.open("output", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execve(argv[0], argv, env)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    check(False, f"{argv} hangs")


def core_frames(executable, cwd):
    """Functions of the thread that died, from its core; None where no core appears in the folder."""
    cores = [name for name in os.listdir(cwd) if name.startswith("core")]
    if not cores or not shutil.which("gdb"):
        return None
    done = subprocess.run(["gdb", "-nx", "-q", "-batch", "-ex", "set debuginfod enabled off", "-ex", "bt", executable,
                           os.path.join(cwd, cores[0])], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=120)
    frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", done.stdout, re.M)
    what = re.search(r"Program terminated with signal (\w+)", done.stdout)
    return what and what.group(1), frames


@case
def fatal_signals_leave_the_same_core(sandbox):
    """WCOREDUMP, and in the core the thread where it was: no frame of ours."""
    if sandbox.build.sanitizer:
        raise Skipped("a core of a sanitizer's address space is terabytes")
    looked = 0
    for what in ("null", "abort", "segv-kill", "divide", "bus"):
        seen = []
        for preload in (False, True):
            cwd = sandbox.fresh("core")
            env = sandbox.environment(preload, os.path.join(cwd, "run"))
            env.update({"RANK": "0", "WORLD_SIZE": "1", "HOST_ID_DIR": cwd, "HOST_CORE": "1", "SOFTGPU_NCCL_DIR": cwd})
            argv = [program(sandbox, "fatal"), what, "nobody"]
            status = raw_status(argv, env, cwd)
            seen.append((status, core_frames(argv[0], cwd)))
            shutil.rmtree(cwd, ignore_errors=True)
        check_equal(seen[1], seen[0], f"wait status and core of {what}, with and without the library")
        check(os.WIFSIGNALED(seen[0][0]), f"{what} did not end by a signal")
        looked += seen[0][1] is not None
    print(f"{looked} cores were compared frame by frame; core bit: {os.WCOREDUMP(seen[0][0])}")
