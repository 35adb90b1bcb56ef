"""A pipeline of four stages, or fully sharded data parallel, on gloo; in step 6 one rank does as the first argument says.

With `skipped` it makes a barrier in place of its send, or before the others' next collective."""

import os
import sys
import time

import torch
import torch.distributed as dist

HOW, FAULT = sys.argv[1].split("-")
STEP = 6


def fault(step, rank, where):
    if step != STEP or rank != 1 or FAULT != where:
        return
    if FAULT == "loader":
        time.sleep(1000)  # LOADER
    if FAULT == "handler":
        try:
            raise ValueError("a damaged batch")
        except ValueError:
            time.sleep(1000)  # HANDLER
    if FAULT == "checkpoint":
        os.read(os.pipe()[0], 1)  # CHECKPOINT


def pipeline(rank, size):
    for step in range(1 << 30):
        if rank == 0:
            batch = torch.ones(8)
        else:
            batch = torch.empty(8)
            dist.recv(batch, src=rank - 1)
        for where in ("loader", "handler", "checkpoint"):
            fault(step, rank, where)
        if rank + 1 < size and not (FAULT == "skipped" and step == STEP and rank == 1):
            dist.send(batch, dst=rank + 1)
        elif FAULT == "skipped" and step == STEP and rank == 1:
            dist.barrier()  # SKIPPED


def sharded(rank):
    from torch.distributed.fsdp import fully_shard
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 8))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1 << 30):
        for where in ("loader", "handler"):
            fault(step, rank, where)
        model(torch.randn(4, 32)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if FAULT == "skipped" and step == STEP and rank == 1:
            dist.barrier()  # EXTRA
        fault(step, rank, "checkpoint")


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    pipeline(rank, size) if HOW == "pipeline" else sharded(rank)


main()
