"""Every way in which a process can end: same status, same output, and its black box complete."""

import os
import socket
import sys

from common import both, check_recorded, program
from harness import Skipped, case, check, check_equal, diagnosis

HERE = os.path.dirname(os.path.abspath(__file__))

# How: (name of the test, exit status).
ENDINGS = {"return": ("return", 21), "exit": ("exit", 22), "_exit": ("underscore_exit", 23), "_Exit": ("C_Exit", 24),
           "quick-exit": ("quick_exit", 25), "thread-exit": ("exit_in_a_thread", 26),
           "thread_exit": ("underscore_exit_in_a_thread", 27), "pthread-exit": ("pthread_exit_of_main", 0),
           "abort": ("abort", -6), "terminate": ("terminate", -6), "noexcept": ("noexcept", -6), "segv": ("segv", -11),
           "kill": ("kill", -9), "term": ("term", -15), "handled": ("handled_segv", 28), "execve": ("execve", 29)}


def register(mode, name, status):
    def test(sandbox):
        if mode == "pthread-exit" and "libtsan" in sandbox.build.sanitizer:
            raise Skipped("ThreadSanitizer's own thread keeps the process after the last of the program's has ended")
        job = both(sandbox, [program(sandbox, "endings"), mode], status, quiet=status >= 0)
        check_recorded(job, [11, 12] if mode == "pthread-exit" else [11])

    test.__name__ = "end_by_" + name
    case(test)


for how, (title, expected) in ENDINGS.items():
    register(how, title, expected)


@case
def end_by_pthread_exit_of_main_beside_the_exchange(sandbox):
    """The library's own threads, however many, do not keep a process that the last of the program's has left."""
    if "libtsan" in sandbox.build.sanitizer:
        raise Skipped("ThreadSanitizer's own thread keeps the process after the last of the program's has ended")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    job = both(sandbox, [program(sandbox, "endings"), "pthread-exit"], 0,
               extra={"NCCLWATCH_EXCHANGE": meeting, "NCCLWATCH_TOKEN": "0123456789abcdef0123456789abcdef"})
    check_recorded(job, [11, 12])


@case
def static_objects(sandbox):
    job = both(sandbox, [program(sandbox, "statics")], 5)
    check_recorded(job, [71, 73, 74, 72])


@case
def signal_handlers(sandbox):
    job = both(sandbox, [program(sandbox, "signals")], 0, ranks=2, timeout=60)
    check_recorded(job, [81, 82] * 10 + [83] * 300)


@case
def longjmp_from_a_signal_handler(sandbox):
    job = both(sandbox, [program(sandbox, "jump")], 6)
    check_recorded(job, [91, 92, 93])


@case
def longjmp_out_of_a_call(sandbox):
    chain = sandbox.build.program("hosts", "libchain.so")
    job = both(sandbox, [program(sandbox, "jump")], 6, after=[chain])
    calls = [c for c in job.calls() if c["op"] == "AllReduce"]
    check_equal([c["count"] for c in calls], [91] + [1] * 51 + [92, 93], "recorded counts")
    left = [c for c in calls if c["count"] == 1]
    check(all(c["state"] == "entered" for c in left), "a call that was left by longjmp never returned")
    check(all(c["result"] == "success" for c in calls if c["count"] != 1), "later calls are seen to return")
    check_equal([c["group"] is not None for c in calls][-3:], [True, False, False], "the group ended with its ncclGroupEnd")


@case
def failure_whose_launcher_kills_the_others_at_once(sandbox):
    """No leader lives long enough to see the death; what the rank itself has said is in its black box."""
    for step in (0, 1, 20, 200):
        scratch = sandbox.fresh("job")
        env = sandbox.environment(run_directory=os.path.join(scratch, "run"), extra={"HOST_ID_DIR": scratch})
        launch = os.path.join(HERE, "..", "..", "examples", "launch.py")
        rank = os.path.join(HERE, "python", "failing_rank.py")
        done = sandbox.run([sys.executable, launch, "-n", "2", "--kill-others-on-exit", "--", sys.executable, rank,
                            sandbox.build.nccl, str(step)], env)
        check_equal(done.status, 1, f"status: {done}")
        found = diagnosis(sandbox, os.path.join(scratch, "run"))
        check_equal([(f["kind"], f["culprits"]) for f in found["findings"]], [("dead_rank", [1])], f"step {step}: {done}")
        check("ValueError" in found["findings"][0]["summary"], found["findings"][0]["summary"])
