"""Jobs to export: one on softgpu, recorded; one that stands still, of boxes."""

import json
import os

from common import check_equal

import common as own

# The levels' own modules are all called common.
import importlib.util  # noqa: E402


def _module(level):
    path = os.path.join(own.HERE, "..", level, "common.py")
    spec = importlib.util.spec_from_file_location(f"{level}_common", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(sandbox, ranks=2, steps=40):
    return _module("recording").Recorded(sandbox, ranks=ranks, steps=steps)


def stalled(sandbox):
    """Rank 1 of 3 has not made the call that the others wait in; the directory and its diagnosis."""
    with _module("analyzer").Bench(sandbox) as bench:
        directory = os.path.join(sandbox.fresh("stalled"), "run")
        for rank in range(3):
            bench.write(directory, rank, 3, "calls=3", *(["skip=1"] if rank == 1 else ["pending=1"]))
    done = sandbox.run([sandbox.build.command, "diagnose", "--json", directory], sandbox.environment(preload=False))
    check_equal(done.status, 1, f"diagnose: {done}")
    return directory, json.loads(done.out)
