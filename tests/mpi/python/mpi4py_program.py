#!/usr/bin/python3
"""mpi4py: objects to both neighbours and collectives of objects and of buffers, and two faults."""

import os
import sys
import time
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
odd, partner = size // 2, size // 2 - 1


def planted():
    path = os.environ.get("EXAMPLES_FAULT_FILE")
    if path:
        try:
            with open(path, "x") as file:
                file.write(f"{time.time_ns()}\n")
        except FileExistsError:
            pass


def steps(count):
    total = 0
    for step in range(count):
        request = world.isend({"from": rank, "step": step}, dest=(rank + 1) % size, tag=step)
        got = world.recv(source=(rank + size - 1) % size, tag=step)
        request.wait()
        assert got == {"from": (rank + size - 1) % size, "step": step}, got
        sums = array("i", [0] * 4)
        world.Allreduce([array("i", [rank + step] * 4), MPI.INT], [sums, MPI.INT], op=MPI.SUM)
        assert sums[0] == size * step + size * (size - 1) // 2, sums
        everybody = world.allgather(rank * step)
        word = world.bcast("a word" if rank == 0 else None, root=0)
        total += sum(everybody) + len(word) + sums[3]
    return total


def cycle():
    if rank in (odd, partner):
        peer = partner if rank == odd else odd
        planted()
        world.recv(source=peer, tag=70)
        world.send({"too": "late"}, dest=peer, tag=70)


def mismatch():
    if rank == odd:
        planted()
        world.Allreduce([array("i", [1] * 3), MPI.INT], [array("i", [0] * 3), MPI.INT], op=MPI.SUM)
    else:
        world.Allreduce([array("i", [1] * 4), MPI.INT], [array("i", [0] * 4), MPI.INT], op=MPI.SUM)


total = steps(5)
{"clean": lambda: None, "cycle": cycle, "mismatch": mismatch}[sys.argv[1]]()
world.Barrier()
os.write(1, f"rank {rank} of {size}: {total}\n".encode())  # in one piece: others write there too
