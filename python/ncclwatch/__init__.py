"""ncclwatch from Python: where its files are, and what it knows about a job.

    LD_PRELOAD=$(python -c 'import ncclwatch; print(ncclwatch.library())') torchrun train.py
    ncclwatch.load("latest").findings
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Union

if TYPE_CHECKING:
    from .annotate import Step
    from .job import Job

__all__ = ["command", "event", "label", "library", "load", "metric", "step"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def command() -> str:
    """The path of the program `ncclwatch`."""
    return os.path.join(_HERE, "bin", "ncclwatch")


def library(mpi: Optional[str] = None) -> str:
    """The path of the library to preload: for NCCL, or for NCCL and one MPI ("openmpi", "mpich").

    FileNotFoundError: this package was built without that MPI.
    """
    if mpi not in (None, "openmpi", "mpich"):
        raise ValueError(f"mpi is 'openmpi', 'mpich' or None, not {mpi!r}")
    path = os.path.join(_HERE, "lib", "ncclwatch", f"libncclwatch{'-' + mpi if mpi else ''}.so")
    if not os.path.exists(path):  # the loader would only print a line and go on unwatched
        raise FileNotFoundError(path)
    return path


def load(*paths: Union[str, os.PathLike[str]], attempt: Optional[int] = None) -> Job:
    """The job whose run directory (`latest`: the newest one) or black boxes these are, as a job.Job.

    attempt: of a job that was restarted. By default it is the last one that failed, else the last.
    """
    from .job import Job

    return Job(paths, attempt)


def label(communicator: object, name: str) -> None:
    """Names a communicator: every list and verdict then shows the name. Nothing happens where ncclwatch is not preloaded.

    communicator: a torch process group of the NCCL backend, after its first collective (before it there is nothing to name);
    a communicator of mpi4py; or the value of an ncclComm_t or MPI_Comm.
    """
    from .annotate import set_label

    set_label(communicator, name)


def step(number: int) -> Step:
    """`with ncclwatch.step(n):` around one step of the training loop: metrics in it bear its number.

    Nothing happens where ncclwatch is not preloaded; the same holds for metric().
    """
    from .annotate import Step

    return Step(number)


def event(type: str, /, **details: object) -> None:
    """Something has happened: a line of events.jsonl in the run directory and in NCCLWATCH_OUT. Never waits for a file.

    "checkpoint" says that one has been written, "failure" that something went wrong. What JSON does not know is told as str().
    """
    from .annotate import add_event

    add_event(type, details)


def metric(name: str, value: float) -> None:
    """A number of this rank in the step that has begun: "loss", "grad_norm", or any other name.

    "replica:..." says that all ranks must have the same. A tensor is waited for: give numbers that the loop reads anyway.
    """
    from .annotate import set_metric

    set_metric(name, value)
