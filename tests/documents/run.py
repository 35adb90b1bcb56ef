#!/usr/bin/env python3
"""The commands of the README and of docs/: each line of a fenced block that says `sh` is run as it stands.

DIR, `latest` and the like become a job that was recorded here; launchers and programs that are not here are stand-ins that
start a healthy job (or the ncclwatch command that follows) on four ranks. What cannot run is marked with a reason:

    <!-- not run: `srun`, `vllm`: needs a cluster -->     lines with one of these words of the block that follows
    <!-- not run: needs root -->                          all lines of the block that follows

Every block says what it is: sh, text (output, files), python, sql or c.
"""

import glob
import os
import re
import shlex
import stat
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import CASES, Skipped, check, check_equal, run_main  # noqa: E402

LANGUAGES = {"sh", "text", "python", "sql", "c"}
PAGES = ["README.md", *sorted(os.path.relpath(path, ROOT) for pattern in ("docs/*.md", "docs/how-to/*.md", "docs/deploy/*.md")
                              for path in glob.glob(os.path.join(ROOT, pattern)))]
STAND_INS = ("torchrun", "mpirun", "mpiexec", "srun", "vllm", "./app", "./train", "train.py")
WELL = (0, 1)  # 1: a problem was found


class Block:
    def __init__(self, page, line, language, mark):
        self.page, self.line, self.language = page, line, language
        self.reason = mark
        self.words = re.findall(r"`([^`]+)`", mark or "")
        self.lines = []

    def runs(self, line):
        return self.language == "sh" and not (self.reason and (not self.words or any(word in line for word in self.words)))


def blocks_of(page):
    blocks, mark, block = [], None, None
    with open(os.path.join(ROOT, page)) as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            if line.startswith("```"):
                if block:
                    blocks.append(block)
                    block, mark = None, None
                else:
                    block = Block(page, number, line[3:].strip(), mark)
            elif block:
                block.lines.append(line)
            elif found := re.match(r"<!-- not run: (.+) -->$", line):
                mark = found[1]
            elif line.strip():
                mark = None
    return blocks


def commands_of(block):
    """Lines of a shell; what ends with a backslash goes on."""
    text = "\n".join(block.lines).replace("\\\n", " ")
    return [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]


def script(path, text):
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, stat.S_IRWXU)


class Place:
    """A folder with what the commands speak of."""

    def __init__(self, sandbox):
        build = sandbox.build
        if build.sanitizer:
            raise Skipped("a sanitizer's programs take no stand-ins")
        healthy = os.path.join(build.root, "examples", "healthy_training")
        stuck = os.path.join(build.root, "examples", "stuck_data_loader")
        build.need(build.command, build.library, healthy, stuck)
        self.sandbox, self.scratch = sandbox, sandbox.fresh("documents")
        tools = os.path.join(self.scratch, "tools")
        os.makedirs(tools)
        launch = f'{shlex.quote(sys.executable)} {shlex.quote(os.path.abspath(os.path.join(ROOT, "examples", "launch.py")))}'
        # The ncclwatch command among the words is what the launcher would start; any other program is a healthy job.
        start = (f'for word; do [ "$word" = ncclwatch ] && exec {launch} -n 4 -- "$@"; shift; done\n'
                 f'exec {launch} -n 4 --kill-others-on-exit -- {shlex.quote(healthy)} --steps 5\n')
        for name in STAND_INS:
            script(os.path.join(self.scratch if "." in name else tools, os.path.basename(name)), start)
        os.symlink(build.command, os.path.join(tools, "ncclwatch"))
        self.env = sandbox.environment(preload=False, extra={"TMPDIR": self.scratch, "HOME": self.scratch, "USER": "somebody",
                                                             "SCRATCH": self.scratch,
                                                             "PATH": tools + os.pathsep + os.environ["PATH"]})
        self.recording = os.path.join(self.scratch, "rec")
        sandbox.run(["sh", "-c", f'{build.command} run --record "$0" --timeout 3 --on-fault abort -- {launch} -n 4 -- {stuck}',
                     self.recording], self.env, timeout=60)
        for name in ("logs", "events", "before", "after"):
            os.makedirs(os.path.join(self.scratch, name))
        with open(os.path.join(self.scratch, "logs", "rank0.log"), "w") as file:
            file.write("step 1\nTraceback (most recent call last):\n  File \"train.py\", line 3, in <module>\nValueError: wrong\n")

    def run(self, command):
        for name in ("DIR", "latest"):
            command = re.sub(rf"(?<![\w/]){name}(?![\w=])", "rec", command)
        command = command.replace("/abs/", os.path.dirname(self.sandbox.build.library) + "/").replace("build/release/bin/", "")
        return self.sandbox.run(["bash", "-c", command], self.env, cwd=self.scratch, timeout=120)


def check_page(page):
    def run(sandbox):
        blocks = blocks_of(page)
        for block in blocks:
            check(block.language in LANGUAGES, f"{page}:{block.line}: a block says what it is: {sorted(LANGUAGES)}")
        wanted = [(block, line) for block in blocks if block.language == "sh" for line in commands_of(block)]
        place, ran, bad = None, 0, []
        for block, line in wanted:
            if not block.runs(line):
                continue
            place = place or Place(sandbox)
            done = place.run(line)
            ran += 1
            if done.status not in WELL:
                bad.append(f"{page}:{block.line}: {line.strip()}\n  status {done.status}: {(done.err or done.out)[-400:]}")
        print(f"{page}: {ran} of {len(wanted)} commands ran")
        check_equal(bad, [], "commands that failed")
    return run


for page in PAGES:
    CASES[re.sub(r"\W", "_", page.removesuffix(".md").removeprefix("docs/"))] = check_page(page)

if __name__ == "__main__":
    run_main("documents")
