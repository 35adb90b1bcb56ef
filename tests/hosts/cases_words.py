"""What a process says at its end, in C++ and Python: told in the box, and nothing of it changed by us."""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys

from common import both, program, unwind
from harness import Skipped, case, check, check_equal
from words import CRASHING, EXITING, Box

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON_END = os.path.join(HERE, "python", "python_end.py")


def box_of(job):
    boxes = job.boxes()
    check_equal(len(boxes), 1, "black boxes")
    return Box(boxes[0])


def same_errors(sandbox, argv, status, **options):
    """Runs it without and with the library: status, stdout, and stderr but for what ncclwatch says itself."""
    plain = sandbox.job(argv, preload=False, **options)
    check_equal(plain.statuses(), [status], f"exit status without the library ({plain.done})")
    job = sandbox.job(argv, **options)
    check_equal((job.statuses(), job.outputs()), (plain.statuses(), plain.outputs()), f"status and output ({job.done})")

    def lines(error):
        # A line of ours may come between two pieces of one line of the program's. Addresses differ from run to run.
        return re.sub("0x[0-9a-f]+", "0x", re.sub(r"\[ncclwatch[^\n]*\n", "", error)).splitlines()
    check_equal(lines(job.errors()[0]), lines(plain.errors()[0]), "standard error")
    return job


# Mode: (type, the beginning of the message).
UNCAUGHT = {"standard": ("St13runtime_error", "nobody catches this"), "odd": ("Odd", "in the second base"),
            "private": ("Private", ""), "number": ("i", ""), "text": ("PKc", ""),
            "memory": ("St9bad_alloc", "std::bad_alloc"), "long": ("St13runtime_error", "x" * 511), "none": ("", ""),
            "joinable": ("", ""), "nested": ("runtime_error", "outer"), "pointer": ("St12domain_error", "carried elsewhere"),
            "thread": ("St13runtime_error", "nobody catches this")}


@case
def uncaught_exceptions(sandbox):
    for mode, (name, message) in UNCAUGHT.items():
        job = same_errors(sandbox, [program(sandbox, "uncaught"), mode], -signal.SIGABRT)
        box = box_of(job)
        said, = box.exceptions()
        check_equal((box.state, box.signal), (CRASHING, signal.SIGABRT), mode)
        check(name in said["type"] if name else not said["type"], f"{mode}: type {said['type']}")
        check_equal((said["language"], said["message"]), ("C++", message), mode)
        check_equal([s["signal"] for s in box.signals()], [signal.SIGABRT], mode)


@case
def exceptions_through_noexcept(sandbox):
    for mode in ("standard", "number", "pointer"):
        said, = box_of(same_errors(sandbox, [program(sandbox, "uncaught"), mode, "noexcept"],
                                   -signal.SIGABRT)).exceptions()
        check(UNCAUGHT[mode][0] in said["type"], f"{mode}: {said}")


@case
def exceptions_whose_text_throws(sandbox):
    box = box_of(both(sandbox, [program(sandbox, "uncaught"), "vicious"], -signal.SIGABRT, quiet=False))
    check_equal((box.state, box.signal), (CRASHING, signal.SIGABRT), "vicious")


@case
def terminate_handlers_of_the_program(sandbox):
    said, = box_of(same_errors(sandbox, [program(sandbox, "uncaught"), "own-before"], 31)).exceptions()
    check_equal(said["message"], "nobody catches this", "ours first, then theirs")
    said, = box_of(same_errors(sandbox, [program(sandbox, "uncaught"), "own-after"], -signal.SIGABRT)).exceptions()
    check_equal(said["message"], "nobody catches this", "theirs first, which calls the one before")


@case
def uncaught_exception_in_a_fork_child(sandbox):
    box = box_of(same_errors(sandbox, [program(sandbox, "uncaught"), "child"], 45))
    check_equal((box.state, box.exceptions(), box.signals()), (EXITING, [], []), "the parent's box")


def pythons(sandbox):
    """One of each minor version that can be found, the one that runs this first."""
    if sandbox.build.sanitizer:
        return [sys.executable]
    found = {sys.version_info[:2]: sys.executable}
    names = [f"/usr/bin/python3.{minor}" for minor in range(9, 16)]
    names += sorted(glob.glob(os.path.join(os.environ.get("PYENV_ROOT", "/nowhere"), "versions", "3.*", "bin", "python3")))
    for path in names:
        if not os.path.exists(path):
            continue
        done = subprocess.run([path, "-c", "import ctypes, sys; print(*sys.version_info[:2])"], capture_output=True,
                              text=True, env={"PATH": "/usr/bin:/bin"})
        version = tuple(map(int, done.stdout.split())) if done.returncode == 0 else (0, 0)
        if version >= (3, 9):
            found.setdefault(version, path)
    return list(found.values())


# Mode: (exit status, type, message, place).
RAISED = {"value": (1, "ValueError", "batch of this rank is empty", "python_end.py:30 in step"),
          "long": (1, "ValueError", "y" * 511, ":30 in step"),
          "unicode": (1, "ValueError", "Größe \u2603 ?", ":30 in step"),
          "unprintable": (1, "__main__.Unprintable", "", ":32 in step"),
          "chained": (1, "RuntimeError", "while looking", ":37 in step"),
          "memory": (1, "MemoryError", "no room", ":39 in step"),
          "library": (1, "json.decoder.JSONDecodeError", None, ":44 in step"),
          "deep": (1, "RecursionError", None, "in step"), "hook": (1, None, None, None)}
ENDED = {"exit1": (1, EXITING), "exittext": (1, EXITING), "os_exit": (3, EXITING), "caught": (5, EXITING),
         "thread": (0, EXITING), "none": (0, EXITING), "fork": (0, EXITING), "multiprocessing": (0, EXITING)}


def register_python(mode):
    def test(sandbox):
        status, name, message, place = RAISED[mode]
        for python in pythons(sandbox):
            box = box_of(same_errors(sandbox, [python, PYTHON_END, mode], status))
            check_equal((box.state, box.exit_status), (EXITING, status), f"{python}: state and status")
            said = box.exceptions()
            if name is None:  # with a hook of its own the interpreter notes nothing
                check(len(said) <= 1, f"{python}: {said}")
                continue
            check_equal([one["type"] for one in said], [name], f"{python}: type")
            check(message is None or said[0]["message"] == message, f"{python}: message {said[0]['message']!r}")
            check(said[0]["place"].endswith(place), f"{python}: place {said[0]['place']!r}")
            check_equal(said[0]["language"], "Python", python)

    test.__name__ = "python_exception_" + mode
    case(test)


for raised in RAISED:
    register_python(raised)


@case
def python_ends_without_an_exception(sandbox):
    for python in pythons(sandbox):
        for mode, (status, state) in ENDED.items():
            box = box_of(same_errors(sandbox, [python, "-W", "ignore", PYTHON_END, mode], status))
            check_equal((box.state, box.exit_status, box.exceptions()), (state, status, []), f"{python} {mode}")


@case
def python_keyboard_interrupt(sandbox):
    """Ends by the signal itself, as it does without us."""
    for python in pythons(sandbox):
        same_errors(sandbox, [python, PYTHON_END, "interrupt"], -signal.SIGINT)


@case
def python_atexit_function_that_fails(sandbox):
    for python in pythons(sandbox):
        same_errors(sandbox, [python, PYTHON_END, "atexit"], 0)


@case
def python_crashes(sandbox):
    """With faulthandler on before NCCL ours is chained to it; later, it puts ours back before it raises the signal again."""
    for python in pythons(sandbox):
        for mode, handled in (("segv", [False]), ("faulthandler", [True]), ("faulthandler-late", [False])):
            job = same_errors(sandbox, [python, PYTHON_END, mode], -signal.SIGSEGV)
            check_equal([s["handled"] for s in box_of(job).signals()], handled, f"{python} {mode}")
            said, = unwind(sandbox, job.boxes()[0]).signals()
            check(len(said["frames"]) > 3, f"{python} {mode}: {said['frames']}")


@case
def python_error_file_of_elastic_record(sandbox):
    """torch's @record writes its error file as ever, and the box tells the exception too."""
    root = os.path.join(HERE, "..", "..")
    python = os.path.join(root, "build", "venv", "bin", "python")
    if not os.access(python, os.X_OK) or not shutil.which(python) or sandbox.build.sanitizer:
        raise Skipped("no torch in build/venv")
    code = ("import sys; sys.argv = ['python_end.py', 'value']\n"
            f"sys.path.insert(0, {os.path.dirname(PYTHON_END)!r})\n"
            "from torch.distributed.elastic.multiprocessing.errors import record\n"
            "import python_end\n"
            "record(python_end.main)()\n")
    files = []
    for preload in (False, True):
        place = os.path.join(sandbox.fresh("errors"), "error.json")
        job = sandbox.job([python, "-c", code], preload=preload, timeout=120, extra={"TORCHELASTIC_ERROR_FILE": place, "HOST_NCCL": sandbox.build.nccl, "LD_LIBRARY_PATH": ""})
        check_equal(job.statuses(), [1], f"exit status ({job.done})")
        with open(place) as file:
            files.append(file.read())
    check(all("ValueError: batch of this rank is empty" in text for text in files), f"{files}")
    said, = box_of(job).exceptions()
    check_equal((said["type"], said["message"]), ("ValueError", "batch of this rank is empty"), "said")
    check(said["place"].endswith("python_end.py:30 in step"), f"place {said['place']}")
