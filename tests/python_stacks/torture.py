#!/usr/bin/env python3
"""Ten thousand readings of a busy Python process of 8 GiB: what it notices of them.

    torture.py --build build/release [--dumps 10000] [--gib 8] [--python PATH] [--reader stacks|leader|python]

The reader is the whole command, `ncclwatch stacks`, one process after the other; or the busy process's own watchdog,
which starts that command and writes all evidence whenever `ncclwatch dump` asks; or what reads Python's frames alone, in
one process without a pause.

The process measures itself (programs/busy.py): the longest turn of a clock of 1 ms that takes and gives back memory, its
turns of work a second, strangers that waitpid sees; first without readings, then with. Stacks that the Python reader
calls exact are checked: function, file and line have to belong together, and the caller has to be one that calls it.
Exit status 1 if it was held up for 20 ms more than without, if it ended, or if an exact stack was impossible."""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CALLERS = {"leaf": {"made", "even", "odd", "<lambda>"}, "made": {"call_made"}, "call_made": {"makes_code"},
           "<module>": {"call_made"}, "numbers": {"numbers", "generates"}, "short": {"run"}, "even": {"odd", "recurses"},
           "odd": {"even"}, "<genexpr>": {"leaf"}}


def plain(function):
    name = re.sub(r"^made_\d+$", "made", function)
    return re.split(r"\.(?:<locals>\.)?", name)[-1]


def impossible(calls):
    wrong = []
    for (function, file, line), (caller, caller_file, _) in calls:
        allowed = CALLERS.get(plain(function))
        if file == "<made>" and function.startswith("made_") and line not in (int(function[5:]) + 1, int(function[5:]) + 2):
            wrong.append(f"{function} on line {line}")
        elif file == "<made>" and not function.startswith("made_") and function != "<module>":
            wrong.append(f"{function} in <made>")
        # The main program's <module> is outermost, so one with a caller is that of <made>.
        elif allowed and file.endswith(("busy.py", "<made>")) and plain(caller) not in allowed:
            wrong.append(f"{caller} calls {function}")
    return wrong


def read_frames(place, pid, dumps):
    """By read_python: what it says of its loop."""
    done = subprocess.run([os.path.join(place, "read_python"), "loop", str(pid), str(dumps)], stdout=subprocess.PIPE,
                          text=True, check=False)
    return json.loads(done.stdout)


def read_everything(command, pid, dumps):
    """By the command: how long it took, how threads were read, and what went wrong."""
    took, how, troubles, whole = [], collections.Counter(), collections.Counter(), 0
    for _ in range(dumps):
        began = time.monotonic()
        done = subprocess.run([command, "stacks", "--json", str(pid)], capture_output=True, text=True, check=False)
        took.append((time.monotonic() - began) * 1000)
        if done.returncode != 0:
            troubles[f"status {done.returncode}: {done.stderr.strip()[-100:]}"] += 1
            continue
        process, = json.loads(done.stdout)["processes"]
        how.update(thread["read"] for thread in process["threads"])
        troubles.update("thread: " + thread["trouble"] for thread in process["threads"] if thread["trouble"])
        whole += any(frame["kind"] == "python" for thread in process["threads"] for frame in thread["frames"])
    return {"dumps": dumps, "with_threads": whole, "read": how, "troubles": troubles, "calls": [],
            "milliseconds": spread(took)}


def ask_leader(command, directory, dumps):
    """By the process's own leader: how long that took, and what went wrong."""
    took, troubles, whole = [], collections.Counter(), 0
    for _ in range(dumps):
        began = time.monotonic()
        done = subprocess.run([command, "dump", "--json", directory], capture_output=True, text=True, check=False)
        took.append((time.monotonic() - began) * 1000)
        answer = json.loads(done.stdout) if done.stdout else {"by": "nobody", "reason": done.stderr, "processes": []}
        if answer["by"] != "leader" or answer["reason"]:
            troubles[f"by the {answer['by']}: {answer['reason']}"] += 1
        whole += bool(answer["processes"] and answer["processes"][0]["where"])
    return {"dumps": dumps, "with_threads": whole, "troubles": troubles, "calls": [], "milliseconds": spread(took)}


def spread(took):
    took.sort()
    return {"median": took[len(took) // 2], "p99": took[len(took) * 99 // 100], "longest": took[-1]}


def as_a_rank(build, folder):
    """What the process is started with to be a watched job of one rank: environment, further arguments."""
    nccl = os.path.join(build, "softgpu", "libnccl.so.2")
    return dict(os.environ, LD_PRELOAD=os.path.join(build, "lib", "libncclwatch.so"), SOFTGPU_NCCL_DIR=folder,
                NCCLWATCH_DIR=os.path.join(folder, "run"), NCCLWATCH_LOG="error", RANK="0", WORLD_SIZE="1"), [nccl]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--dumps", type=int, default=10000)
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=int, default=60, help="without readings, for comparison")
    parser.add_argument("--reader", choices=("stacks", "leader", "python"), default="stacks")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    place, command = os.path.join(build, "tests", "python_stacks"), os.path.join(build, "bin", "ncclwatch")
    folder = tempfile.mkdtemp(prefix="ncclwatch-torture-", dir="/dev/shm")
    environment, more = as_a_rank(build, folder) if options.reader == "leader" else (None, [])
    busy = subprocess.Popen([options.python, os.path.join(HERE, "programs", "busy.py"), str(options.gib),
                             os.path.join(place, "libstall_clock.so"), *more],
                            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(word):
        busy.stdin.write(word + "\n")
        busy.stdin.flush()
        return json.loads(busy.stdout.readline())

    try:
        pid = json.loads(busy.stdout.readline())["pid"]
        ask("mark")
        subprocess.run(["sleep", str(options.seconds)], check=True)
        without = ask("mark")
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            resident = next(line.split(None, 1)[1].strip() for line in file if line.startswith("VmRSS"))
        read = {"python": lambda: read_frames(place, pid, options.dumps),
                "stacks": lambda: read_everything(command, pid, options.dumps),
                "leader": lambda: ask_leader(command, os.path.join(folder, "run"), options.dumps)}[options.reader]()
        during = ask("mark")
        busy.stdin.write("end\n")
        busy.stdin.flush()
        status = busy.wait(60)
    finally:
        if busy.poll() is None:
            busy.kill()
            busy.wait()
        shutil.rmtree(folder, ignore_errors=True)
    calls = read.pop("calls")
    wrong = impossible(calls)
    print(f"{options.python}, resident {resident}")
    print("without:", json.dumps(without))
    print("with:   ", json.dumps(during))
    print("reader: ", json.dumps(read))
    print(f"exact stacks: {len(calls)} different calls, impossible: {wrong[:5] or 'none'}; status of the process {status}")
    held_up = during["longest_ms"] > max(20.0, without["longest_ms"] + 20.0)
    return 1 if held_up or during["strangers"] or status != 0 or wrong or read["with_threads"] != options.dumps else 0


if __name__ == "__main__":
    sys.exit(main())
