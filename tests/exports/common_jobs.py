"""Jobs to export: one on softgpu, recorded; one that stands still, of boxes."""

import contextlib
import importlib.util
import json
import os

from common import HERE, until


def _module(level, name="common"):
    """Of another level; its modules may have the names of those here."""
    spec = importlib.util.spec_from_file_location(f"{level}_{name}", os.path.join(HERE, "..", level, f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(sandbox, ranks=2, steps=40, **more):
    return _module("recording").Recorded(sandbox, ranks=ranks, steps=steps, **more)


@contextlib.contextmanager
def stalled(sandbox):
    """Rank 1 of 3, all alive, has not made the call that the others wait in; the directory and its diagnosis."""
    with _module("analyzer").Bench(sandbox) as bench:
        directory = bench.place()
        for rank in range(3):
            bench.hold(directory, rank, 3, "calls=3", *(["skip=1"] if rank == 1 else ["pending=1"]))

        def diagnosis():
            done = sandbox.run([sandbox.build.command, "diagnose", "--json", directory], sandbox.environment(preload=False))
            return done.status == 1 and json.loads(done.out)

        yield directory, until(diagnosis, "the job is diagnosed", 30)


def dumps(sandbox, label):
    """Two ranks by dumps of torch's flight recorder, in a process group that is called so."""
    job = _module("analyzer", "flight").Job(2)
    job.groups["0"] = (label, [0, 1])
    job.all([0, 1], "all_reduce", at=1)
    job.all([0, 1], "all_reduce", at=2)
    return job.write(os.path.join(sandbox.fresh("dumps"), "fr"))


def messages(sandbox):
    """A send from rank 0 to rank 1, by dumps of torch's flight recorder."""
    job = _module("analyzer", "flight").Job(2)
    job.ranks[0].send(1, at=1)
    job.ranks[1].recv(0, at=1)
    return job.write(os.path.join(sandbox.fresh("dumps"), "fr"))


def halo(sandbox):
    """Nine ranks in a ring of rings, made up."""
    return _module("recording", "made_mpi").halo(sandbox, (3, 3), ring=True)
