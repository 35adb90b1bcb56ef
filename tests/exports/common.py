"""Exports of a recorded job, and what `trace` and `stats` say of the same job."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, until  # noqa: E402,F401

VENV = os.path.join(ROOT, "build", "venv-export")


def need(*modules):
    """Packages of build/venv-export, for this interpreter."""
    site = os.path.join(VENV, "lib", f"python3.{sys.version_info[1]}", "site-packages")
    if site not in sys.path:
        sys.path.append(site)
    try:
        return [__import__(module) for module in modules]
    except ImportError as error:
        raise Skipped(f"{error} in build/venv-export: ./dev test makes it")


class Exported:
    """What `ncclwatch export DIR --to FORMAT` wrote."""

    def __init__(self, sandbox, directory, form, name, *words, status=0):
        self.path = os.path.join(sandbox.fresh("exported"), name)
        env = sandbox.environment(preload=False, extra={"NCCLWATCH_PYTHON": os.path.join(VENV, "bin", "python")})
        self.done = sandbox.run([sandbox.build.command, "export", directory, "--to", form, "-o", self.path, "--json", *words],
                                env, timeout=60)
        check_equal(self.done.status, status, f"export --to {form}: {self.done}: status")
        self.said = json.loads(self.done.out) if status == 0 else None


def calls_of(sandbox, directory, *words):
    done = sandbox.run([sandbox.build.command, "trace", "--json", directory, *words], sandbox.environment(preload=False),
                       timeout=60)
    check_equal(done.status, 0, f"trace: {done}")
    return [json.loads(line) for line in done.out.splitlines()]


def stats_of(sandbox, directory):
    done = sandbox.run([sandbox.build.command, "stats", "--json", "--by", "op,rank", directory],
                       sandbox.environment(preload=False), timeout=60)
    check_equal(done.status, 0, f"stats: {done}")
    return json.loads(done.out)


def counted(call):
    """Whether `stats` counts it: all but ncclGroupStart and ncclGroupEnd."""
    return not call["op"].startswith("Group")


def written(sandbox, ranks=8, calls=500):
    """A recording of calls that nobody made."""
    directory = os.path.join(sandbox.fresh("written"), "recording")
    done = sandbox.run([sandbox.build.program("recording", "write_recording"), str(ranks), str(calls), directory])
    check_equal(done.status, 0, f"write_recording: {done}")
    return directory
