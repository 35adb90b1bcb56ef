"""Kinds of failures that are more than an exception. A function a kind: machines.py, links.py, stopped.py.

A function writes its lines around `at`, and returns the truth and how ranks ended ({rank: (at, exit)}; None if the
function has written the end itself). The decorator names the kind's category and the jobs in which it can occur.
"""

import collections

from composer import aftermath, peers

Kind = collections.namedtuple("Kind", "category function fits weight early")
SYSTEM_ERROR = (
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970,"
    " unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclSystemError: System call"
    " (e.g. socket, malloc) or external library call failed or device error. \nLast error:\n{}"
)


def registers(kinds):
    """A decorator that adds what it decorates to `kinds`."""

    def decorator(category, fits=lambda job: True, weight=1, early=False):
        def register(function):
            kinds.append(Kind(category, function, fits, weight, early))
            return function

        return register

    return decorator


def endings(functions):
    """A decorator for ends that have no category: it adds (function, fits) to `functions`."""

    def decorator(fits=lambda job: True):
        def register(function):
            functions.append((function, fits))
            return function

        return register

    return decorator


KINDS = []
kind = registers(KINDS)


def torch(job):
    return job.program.uses_torch and job.launched != "vllm"


def mpi(job):
    return job.launched == "mpirun"


def open_mpi(job):
    return job.launched == "mpirun" and job.layout != "mpi_hydra"


def reported(job):
    """A launcher reports how ranks end, so a rank that is gone differs from a rank that hangs."""
    return job.launched in ("torchrun", "srun", "mpirun")


def several(job):
    return job.size > 1


def nodes(job):
    return job.nodes > 1


def all_out(job, at, code, spread=1.0):
    return {rank: (at + job.rng.uniform(0, spread), code) for rank in range(job.size)}


def stuck_until_limit(job, at, rank, marked):
    """All but `rank` wait for it until their time limit."""
    ended = {}
    for number, other in enumerate([r for r in range(job.size) if r != rank]):
        moment = at + job.timeout_s + job.rng.uniform(0, 0.8)
        peers.watchdog(job, moment, other, mark=0 if marked else None, also=number > 0)
        ended[other] = (moment + 1.5, -6)
    stop_waiting(job, at, rank, ended)


def stop_waiting(job, at, rank, ended):
    """The ends of those who waited for `rank` until their limit, and what launchers write of them."""
    if job.launched == "torchrun":
        for other, (when, _) in ended.items():
            job.end(other, when)
        job.end(rank, at + job.timeout_s + 4)
        for node in range(job.nodes):
            own = {r: ended[r] for r in job.ranks_of(node) if r in ended}
            if own:
                aftermath.agent_ends(job, node, own, [r for r in job.ranks_of(node) if r not in own])
    else:
        ended[rank] = (at + job.timeout_s + 5, -15)
        aftermath.follow(job, ended)


def lost_node(job, at, node):
    """A node is gone, and its agent with it: only others write."""
    for rank in job.ranks_of(node):
        job.end(rank, at)
    others = [rank for rank in range(job.size) if job.node_of(rank) != node]
    dead = job.ranks_of(node)[0]
    ended = {rank: peers.notice(job, at, rank, dead, peers.flavour(job, dead)) for rank in others[:1]}
    style = job.rng.choice(("remote", "watchdog")) if torch(job) else peers.flavour(job, dead)
    for rank in others[1:]:
        ended[rank] = peers.notice(job, at, rank, dead, style)
    for rank, (when, _) in ended.items():
        job.end(rank, when)
    if job.launched == "torchrun":
        for other in {job.node_of(rank) for rank in others}:
            aftermath.agent_ends(job, other, {rank: ended[rank] for rank in job.ranks_of(other)}, [])
    elif job.launched == "srun":
        aftermath.exited(job, max(when for when, _ in ended.values()) + 1, others, 1)
    return None
