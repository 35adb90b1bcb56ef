"""ncclwatch from Python: where its files are, and what it knows about a job.

    LD_PRELOAD=$(python -c 'import ncclwatch; print(ncclwatch.library())') torchrun train.py
    ncclwatch.load("latest").findings
"""

import os

__all__ = ["command", "library", "load"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def command():
    """The path of the program `ncclwatch`."""
    return os.path.join(_HERE, "bin", "ncclwatch")


def library(mpi=None):
    """The path of the library to preload: for NCCL, or for NCCL and one MPI ("openmpi", "mpich")."""
    if mpi not in (None, "openmpi", "mpich"):
        raise ValueError(f"mpi is 'openmpi', 'mpich' or None, not {mpi!r}")
    return os.path.join(_HERE, "lib", "ncclwatch", f"libncclwatch{'-' + mpi if mpi else ''}.so")


def load(*paths):
    """The job whose run directory (`latest`: the newest one) or black boxes these are, as a job.Job."""
    from . import job

    return job.Job(paths)
