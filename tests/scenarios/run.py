#!/usr/bin/env python3
"""The quick suite: a few runs of every scenario, one ctest entry each. `--list` names them; status 77 is a skip."""

import argparse
import os
import shutil
import sys

import endings
import evidence
import faults
import healthy
import messages
import situations
import torchrun
from job import Build, Failure

KEPT = "scenario-failures"  # below the build folder: run directories of what failed


def fault(build, name, keep):
    """By preload, by `ncclwatch run` with the leader as culprit, and with forked children of the culprit that live on."""
    for variant in (dict(mode="preload", leader=False, children=0), dict(mode="run", leader=True, children=0),
                    dict(mode="preload", leader=False, children=2, crowded=True)):
        one = faults.plan(name, seed=len(variant), **variant)
        print(one, flush=True)
        print(faults.run(build, one, keep), flush=True)


def both_modes(build, name, keep):
    for seed, mode in enumerate(("preload", "run")):
        print(healthy.run(build, name, seed, mode, keep), flush=True)


def table():
    tests = {f"fault.{name}": lambda build, keep, name=name: fault(build, name, keep) for name in faults.FAULTS}
    tests |= {f"healthy.{name}": lambda build, keep, name=name: both_modes(build, name, keep)
              for name in healthy.PROGRAMS}
    tests |= {f"situation.{name}": lambda build, keep, run=run: run(build)
              for name, run in situations.SITUATIONS.items()}
    tests |= {f"evidence.{name}": lambda build, keep, run=run: run(build) for name, run in evidence.SITUATIONS.items()}
    tests |= {f"ending.{name}": lambda build, keep, run=run: run(build) for name, run in endings.RUNS.items()}
    tests |= {f"message.{name}": lambda build, keep, run=run: run(build) for name, run in messages.RUNS.items()}
    return tests


def torch_table():
    return {f"torchrun.{name}": lambda build, keep, run=run: print(run(build)) for name, run in torchrun.RUNS.items()}


def main(tests):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("name", nargs="?")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(tests))
        return 0
    build = Build(arguments.build)
    kept = os.path.join(build.folder, KEPT, arguments.name)

    def keep(job, failure):
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(job.root, kept, ignore_dangling_symlinks=True)
        print(f"what the job left is kept in {kept}", flush=True)

    try:
        tests[arguments.name](build, keep)
    except Failure as failure:
        print(f"FAILED: {failure}")
        return 1
    except situations.Skip as reason:
        print(f"skipped: {reason}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(table()))
