"""What a person reads: help with examples, text as wide as the terminal, a last line of each run."""

import json
import os
import re
import shlex
import shutil
import subprocess

from common import bench_case, check, check_equal
from harness import Skipped, until
from terminal import Terminal


@bench_case
def help_is_for_people(bench):
    described = [json.loads(line) for line in bench.command("help", "--json").out.splitlines()]
    options = {one["command"]: {name for option in one["options"] for name in option["names"]} for one in described}
    for one in described:
        name = one["command"]
        text = bench.command(name, "--help").out
        for syntax in (r":(INT|FLOAT|POSITIVE)\b", "Excludes:", "Needs:", r" x \d", r":\{", "--arrow", "--meanwhile", "--sample"):
            check(not re.search(syntax, text), f"{name} --help shows {syntax}:\n{text}")
        check(one["examples"], f"{name} has examples")
        for example in one["examples"]:
            check(f"  {example}\n" in text, f"{name} --help has {example}")
            words = shlex.split(example)
            words = words[words.index("ncclwatch") + 1:]
            own = words[:words.index("--")] if "--" in words else words
            check_equal(own[0], name, f"the command of {example}")
            unknown = [word for word in own if word.startswith("-") and word not in options[name]]
            check_equal(unknown, [], f"options of {example}")


@bench_case
def text_is_as_wide_as_the_terminal(bench):
    place = bench.place("killed")
    bench.hold(place, 0, 2, "calls=3", "pending=1")
    bench.write(place, 1, 2, "calls=2", "end=kill")
    until(lambda: bench.command("diagnose", place).status == 1, "the dead rank is found")
    for columns in (60, 80):
        with Terminal([bench.build.command, "diagnose", place], bench.environment(), columns, 200, "dumb") as terminal:
            terminal.screen.resize(200, 200)  # which breaks no line itself
            terminal.wait_for("ranks watched")  # in its last lines
            lines = re.sub(r"\n  RANKS  .*?\n\n", "\n", terminal.screen.text().rstrip(), flags=re.DOTALL).splitlines()  # without its table
        check("dead_rank (certain): rank 1" in lines[0] and len(lines) > 8, f"{columns} columns:\n" + "\n".join(lines))
        check_equal([line for line in lines if len(line) > columns], [], f"lines that a terminal of {columns} columns breaks")


@bench_case
def a_signal_leaves_no_draft(bench):
    """Killed just before the file gets its name."""
    if not shutil.which("strace"):
        raise Skipped("no strace here")
    place, out = bench.dead_job(), bench.sandbox.fresh("out")
    command = ["strace", "-qq", "-o", os.path.join(out, "trace"), "-e", "trace=fchmod", "-e", "inject=fchmod:signal=SIGKILL",
               bench.build.command, "export", place, "--to", "csv", "-o", os.path.join(out, "calls.csv")]
    done = subprocess.run(command, env=bench.environment(), capture_output=True, text=True, timeout=60)
    if "ptrace" in done.stderr:
        raise Skipped(f"strace may not trace here: {done.stderr}")
    check_equal(os.listdir(out), ["trace"], "what is left")
