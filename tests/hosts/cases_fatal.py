"""Fatal signals: status, core, handlers, stacks and output as without the library, and what the black box says of them."""

import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

from common import both, program, unwind
from harness import Skipped, case, check, check_equal
from words import CRASHING, EXITING, RUNNING, Box

# What: (signal, si_code).
RAISED = {"null": (signal.SIGSEGV, 1), "wild": (signal.SIGSEGV, 0x80), "segv-raise": (signal.SIGSEGV, -6),
          "segv-kill": (signal.SIGSEGV, 0), "segv-queue": (signal.SIGSEGV, -1), "abort": (signal.SIGABRT, -6),
          "bus": (signal.SIGBUS, 2), "divide": (signal.SIGFPE, 1), "illegal": (signal.SIGILL, 2),
          "breakpoint": (signal.SIGTRAP, 0x80), "forbidden": (signal.SIGSYS, 1)}
SAMPLED, UNWOUND = 4, 8
SENT = ("segv-raise", "segv-kill", "segv-queue", "abort")


def run(sandbox, what, how, expected, **options):
    if what == "divide" and os.uname().machine != "x86_64":
        raise Skipped("a division by zero is no fault on this processor")
    return both(sandbox, [program(sandbox, "fatal"), what, how], expected, quiet=expected >= 0, **options)


def only_box(job):
    boxes = job.boxes()
    check_equal(len(boxes), 1, "black boxes")
    return boxes[0]


def box_of(sandbox, job):
    return unwind(sandbox, only_box(job))


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
        box = box_of(sandbox, job)
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
            box = box_of(sandbox, job)
            check_equal(box.state, EXITING, f"state after {what} that {how}")
            said, = box.signals()
            check_equal((said["signal"], said["handled"]), (number, True), f"{what} that {how}")


@case
def fatal_signals_of_handlers_after_ours(sandbox):
    for what in ("null", "abort", "bus", "segv-raise"):
        for how, status in (("late", 40), ("late-explains", 41)):
            box = box_of(sandbox, run(sandbox, what, how, status))
            check_equal((box.state, box.signals()), (EXITING, []), f"{what}, {how}: theirs has replaced ours")


@case
def fatal_handlers_that_call_the_one_before(sandbox):
    for what in ("null", "abort", "segv-raise", "bus"):
        number, _ = RAISED[what]
        box = box_of(sandbox, run(sandbox, what, "passes-on", -number))
        check_equal((box.state, [s["signal"] for s in box.signals()]), (CRASHING, [number]), what)


@case
def fatal_handlers_that_reset_themselves(sandbox):
    """SA_RESETHAND: the handler returns, the instruction runs again, and now it is the default's turn."""
    for what in ("null", "bus", "divide"):
        number, _ = RAISED[what]
        box = box_of(sandbox, run(sandbox, what, "reset", -number))
        check_equal([(s["signal"], s["handled"]) for s in box.signals()], [(number, True)], what)
    box_of(sandbox, run(sandbox, "segv-raise", "reset", 42))


@case
def fatal_handlers_that_return(sandbox):
    for what in ("segv-raise", "segv-kill", "segv-queue"):
        box = box_of(sandbox, run(sandbox, what, "returns", 42))
        check_equal([s["handled"] for s in box.signals()], [True], what)
    check_equal(box_of(sandbox, run(sandbox, "abort", "returns", -signal.SIGABRT)).signals()[-1]["signal"], signal.SIGABRT, "abort")


@case
def fatal_handlers_that_jump_out(sandbox):
    """Forty times: a program that lives with its signals. The box keeps the newest, and recording goes on."""
    for what in ("null", "bus", "segv-raise"):
        job = run(sandbox, what, "jumps", 42)
        box = box_of(sandbox, job)
        check_equal((box.state, [s["handled"] for s in box.signals()]), (EXITING, [True, True]), what)
        check_equal([c["count"] for c in job.calls() if c["op"] == "AllReduce"], [61, 62], "calls recorded")


@case
def fatal_signals_that_are_ignored(sandbox):
    for what, status in (("segv-raise", 42), ("null", -signal.SIGSEGV), ("abort", -signal.SIGABRT)):
        check_equal(box_of(sandbox, run(sandbox, what, "ignored", status)).catching, 1, what)


@case
def fatal_signals_on_an_alternate_stack_without_a_handler(sandbox):
    for stack in ("stack-only", "small-stack"):
        for what in ("null", "abort", "bus"):
            said, = box_of(sandbox, run(sandbox, what, stack, -RAISED[what][0])).signals()
            check(len(said["frames"]) > 2, f"frames {said['frames']}")


@case
def fatal_stack_overflow(sandbox):
    """Without a stack for the handler nobody can run; with one the box says what it was."""
    box = box_of(sandbox, run(sandbox, "overflow", "nobody", -signal.SIGSEGV))
    check_equal((box.state, box.signals(), box.catching), (RUNNING, [], 1), "no words without a stack")
    said, = box_of(sandbox, run(sandbox, "overflow", "stack-only", -signal.SIGSEGV)).signals()
    check(said["overflow"] and len(said["frames"]) > 12, f"overflow: {said}")  # frames of 4 KiB, of 64 KiB that are kept
    said, = box_of(sandbox, run(sandbox, "overflow", "alternate", 41)).signals()
    check_equal((said["overflow"], said["handled"]), (True, True), "overflow with a handler of its own")


def size_announced(path):
    with open(path, "rb") as file:
        return struct.unpack_from("<Q", file.read(32), 24)[0]


@case
def fatal_stack_is_kept_as_far_as_it_shall_be(sandbox):
    whole, = box_of(sandbox, run(sandbox, "overflow", "stack-only", -signal.SIGSEGV)).signals()
    for size, most in (("8K", 4), ("0", 1)):
        job = run(sandbox, "overflow", "stack-only", -signal.SIGSEGV, extra={"NCCLWATCH_CRASH_STACK": size})
        path = only_box(job)
        check_equal(os.path.getsize(path) > size_announced(path), size != "0", f"something lies behind the box of {size}")
        said, = unwind(sandbox, path).signals()
        check(1 <= len(said["frames"]) <= most < len(whole["frames"]), f"{size} of the stack: {said}")
        check_equal(said["frames"][0]["offset"], whole["frames"][0]["offset"], "the place itself")


@case
def fatal_sample_is_unwound_once(sandbox):
    path = only_box(run(sandbox, "null", "nobody", -signal.SIGSEGV))
    before, = Box(path).signals()
    check_equal((len(before["frames"]), before["flags"]), (1, SAMPLED), "frames before")
    check(os.path.getsize(path) > size_announced(path), "no sample behind the box")
    said, = unwind(sandbox, path).signals()
    check_equal(said["frames"][0], before["frames"][0], "the place itself")
    check_equal(said["flags"], SAMPLED | UNWOUND, "flags")
    check_equal(os.path.getsize(path), size_announced(path), "size of the box afterwards")
    check_equal(unwind(sandbox, path).signals(), [said], "unwound twice")


@case
def fatal_sample_has_no_environment(sandbox):
    """It lies on the main thread's stack, behind the frames."""
    secret = "a-secret-of-the-environment"
    path = only_box(run(sandbox, "null", "nobody", -signal.SIGSEGV, extra={"HOST_SECRET": secret}))
    with open(path, "rb") as file:
        data = file.read()
    check(len(data) > size_announced(path), "no sample behind the box")
    check(secret.encode() not in data, "the box holds what the environment says")


@case
def fatal_sample_that_is_damaged(sandbox):
    """Nothing in it is trusted: frames may be missing, and the rest of the box is read as ever."""
    path = only_box(run(sandbox, "null", "nobody", -signal.SIGSEGV))
    with open(path, "rb") as file:
        whole = file.read()
    begin = size_announced(path)
    damaged = os.path.join(sandbox.fresh("damaged"), "box.box")
    chance = random.Random(4711)
    for turn in range(40):
        data = bytearray(whole)
        if turn < 10:
            del data[begin + turn * 100:]
        for _ in range(8 if turn >= 10 else 0):
            data[chance.randrange(begin, begin + 480 if turn % 2 else len(data))] = chance.randrange(256)
        with open(damaged, "wb") as file:
            file.write(data)
        done = subprocess.run([sandbox.build.command, "diagnose", damaged], capture_output=True, text=True)
        check(done.returncode in (0, 1), f"status of diagnose: {done}")
        done = subprocess.run([sandbox.build.command, "stacks", "--crash", damaged], capture_output=True, text=True)
        check(done.returncode in (0, 3), f"status of stacks: {done}")
        said, = Box(damaged).signals()
        check_equal(said["signal"], signal.SIGSEGV, "signal")


@case
def fatal_signal_where_nothing_can_be_appended(sandbox):
    """A limit on the size of files would send SIGXFSZ; with no descriptor left the modules cannot be named."""
    for how, sampled in (("small-files", 0), ("no-descriptors", SAMPLED), ("closed", 0)):
        said, = box_of(sandbox, run(sandbox, "null", how, -signal.SIGSEGV)).signals()
        check_equal(said["flags"] & SAMPLED, sampled, f"{how}: flags")
        check_equal(len(said["frames"]) > 1, bool(sampled), f"{how}: frames")


@case
def fatal_signal_in_a_fork_child(sandbox):
    """The child's end is the child's: the parent lives on and its box says nothing of it."""
    for what in ("null", "abort", "bus", "segv-kill"):
        box = box_of(sandbox, run(sandbox, what, "child", 42))
        check_equal((box.state, box.signals()), (EXITING, []), what)


@case
def fatal_signals_in_two_threads_at_once(sandbox):
    for what in ("null", "abort", "segv-raise"):
        for _ in range(4):
            box = box_of(sandbox, run(sandbox, what, "threads", -RAISED[what][0]))
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
